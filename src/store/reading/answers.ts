import type { Span } from '../../kernel/span.js';
import type { Connection } from '../connection.js';
import type { Database } from '../database.js';
import { isState, StoreError } from '../errors.js';
import { QUERY_FUNCTION, QUERY_ROLE } from '../schema/roles.js';
import { toMs } from '../sql.js';

/** What a statement of a person comes to. */
export interface Answer {
  readonly names: readonly string[];
  /** Some rows at a time. Decimals, 64-bit integers and timestamps are text. */
  readonly chunks: AsyncIterable<ReadonlyArray<readonly unknown[]>>;
  /** Tables that the statement looked at and of which a part is in files, and can be missing in the answer. */
  readonly cold: readonly { readonly table: string; readonly span: Span }[];
}

/**
 * Which series this transaction has looked at so far, wherever they were named: in the statement, in
 * a view or in a function. Their tables stay locked until the transaction ends. The statement may have
 * changed the search path.
 *
 * What the schema analytics has refuses a time of which rows are in files, unless a setting says otherwise.
 * So a statement has all that it asked for if its words (`$1`) name no such table, nothing that others have
 * made, which may read one, and no function that runs texts as statements.
 */
const touched = (schema: string) => `
  SELECT s.table_name AS table, ${toMs('min(lower(s.span))')} AS from_ms,
         ${toMs('max(upper(s.span))')} AS to_ms
  FROM pg_locks l JOIN ${schema}.partition_state s
    ON to_regclass('${schema}.' || s.table_name) = l.relation
  WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND s.state = 'archived' AND (
    coalesce(current_setting('tapekeep.missing', true), '') IN ('warn', 'ignore')
    OR EXISTS (
      SELECT FROM unnest($1::text[]) AS word
      WHERE word ~ ('^' || s.table_name || '(_[0-9]+)?$') OR word ~ '_to_xml|^ts_(stat|rewrite)$')
    OR EXISTS (
      SELECT FROM (
        SELECT relname, relnamespace FROM pg_class WHERE relkind IN ('v', 'm', 'f')
        UNION ALL
        SELECT proname, pronamespace FROM pg_proc) made (name, place)
        JOIN pg_namespace n ON n.oid = made.place
      WHERE lower(made.name) = ANY ($1)
        AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'analytics')))
  GROUP BY s.table_name ORDER BY s.table_name`;

/** All words of a statement, in its texts and comments too, and its names in quotes as they are. */
function wordsOf(sql: string): string[] {
  const quoted = [...sql.matchAll(/"([^"]+)"/g)].map(([, name = '']) => name);
  const plain = sql.match(/[\p{L}_][\p{L}\p{N}_$]*/gu) ?? [];
  return [...new Set([...plain, ...quoted].map((word) => word.toLowerCase()))];
}

/** Where the function is, if it has the rights of the role that only reads. */
const FIND_FUNCTION = `
  SELECT quote_ident(n.nspname) AS schema
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    JOIN pg_roles r ON r.oid = p.proowner
  WHERE p.oid = to_regprocedure('${QUERY_FUNCTION}(text)') AND p.prosecdef
    AND r.rolname = '${QUERY_ROLE}' AND NOT r.rolsuper`;

/** Rows that are fetched together: few, as a value of one may be large. */
const FETCHED_TOGETHER = 256;

const LIMIT_TIME = `SELECT set_config('statement_timeout', $1, true),
  set_config('idle_in_transaction_session_timeout', $2, true)`;
/** Waits for the reader of an answer, whose time is not the statement's. */
const UNLIMIT_IDLE = 'SET LOCAL idle_in_transaction_session_timeout = 0';
/** Between the statements of one answer; a session that was ended could not report what took too long. */
const IDLE_GRACE_MS = 30_000;

interface ColumnType {
  readonly type: string;
  readonly isPseudo: boolean;
}

/** Types as texts; those that only the inside of the server knows come with their text form. */
const NAME_TYPES = `
  SELECT format_type(t.oid, -1) AS type, t.typtype = 'p' AND t.typname <> 'record' AS is_pseudo
  FROM unnest($1::oid[]) WITH ORDINALITY AS asked(oid, place) JOIN pg_type t USING (oid)
  ORDER BY place`;

/**
 * Runs one statement that comes from outside, reading only: with the rights of a role that reads and
 * nothing else, in a transaction that changes nothing.
 *
 * @param take gets the answer once; all of it is gone when it returns
 * @throws StoreError `query_refused`, `query_timeout`, `query_role_missing`
 */
export async function readAnswer(
  database: Database,
  sql: string,
  timeoutMs: number,
  take: (answer: Answer) => Promise<void>,
): Promise<void> {
  assertReads(sql);
  try {
    await database.reading(timeoutMs, async (runner) => {
      const limitMs = Math.ceil(timeoutMs);
      await runner.rows(LIMIT_TIME, [String(limitMs), String(limitMs + IDLE_GRACE_MS)]);
      const [found] = await runner.rows<{ schema: string }>(FIND_FUNCTION);
      if (found === undefined) throw roleMissing();
      const { names, chunks } = await run(runner, sql, found.schema);
      const cold = await runner.rows<{ table: string; fromMs: number; toMs: number }>(
        touched(found.schema),
        [wordsOf(sql)],
      );
      await runner.rows(UNLIMIT_IDLE);
      await take({
        ...{ names, chunks },
        cold: cold.map(({ table, fromMs, toMs: endMs }) => ({
          ...{ table, span: { fromMs, toMs: endMs } },
        })),
      });
    });
  } catch (error) {
    if (!isState(error, 'out of time')) throw error;
    const text = `the statement took longer than ${timeoutMs} ms`;
    throw new StoreError('query_timeout', text, { cause: error });
  }
}

/** Runs it up to its first rows: from then on it has looked at all that it looks at. */
async function run(
  runner: Connection,
  sql: string,
  schema: string,
): Promise<Pick<Answer, 'names' | 'chunks'>> {
  const columns = await runner.describe(sql);
  const names = columns.map(({ name }) => name);
  // A function that returns rows has columns; those of a statement without any cannot be shown either.
  if (columns.length === 0) throw new StoreError('query_refused', NO_COLUMNS);
  const types = await runner.rows<ColumnType>(NAME_TYPES, [columns.map(({ type }) => type)]);
  const list = types.map(({ type, isPseudo }, at) => `c${at} ${isPseudo ? 'text' : type}`);
  const call = `SELECT * FROM ${schema}.${QUERY_FUNCTION}($1) AS answer (${list.join(', ')})`;
  const fetch = () => runner.table(`FETCH ${FETCHED_TOGETHER} FROM asked`, []);
  const begin = async (statement: string) => {
    await runner.table(`DECLARE asked NO SCROLL CURSOR FOR ${call}`, [statement]);
    return { names, chunks: restOf(await fetch(), fetch) };
  };
  if (types.some(({ isPseudo }) => isPseudo)) return await begin(castTo(sql, types));
  await runner.rows('SAVEPOINT asked');
  try {
    return await begin(sql);
  } catch (error) {
    if (!isState(error, 'other types')) throw error;
    // A column of a domain is described by the type beneath it, as those of information_schema are.
    await runner.rows('ROLLBACK TO asked');
    return await begin(castTo(sql, types));
  }
}

async function* restOf(first: unknown[][], fetch: () => Promise<unknown[][]>) {
  for (let rows = first; rows.length > 0; rows = await fetch()) {
    yield rows;
    if (rows.length < FETCHED_TOGETHER) return;
  }
}

const NO_COLUMNS = 'the statement names no column: write what it is to show';

/** The server has described the statement as one, so it is one between parentheses as well. */
function castTo(sql: string, types: readonly ColumnType[]): string {
  const casts = types.map(({ type, isPseudo }, at) => `c${at}::${isPseudo ? 'text' : type}`);
  const names = types.map((_, at) => `c${at}`);
  const inner = sql.replace(/;\s*$/, '');
  return `SELECT ${casts.join(', ')} FROM (${inner}\n) AS asked (${names.join(', ')})`;
}

function roleMissing(): StoreError {
  return new StoreError(
    'query_role_missing',
    `statements run with the rights of the role ${QUERY_ROLE}, and this database has not given it the function ${QUERY_FUNCTION}: run "tapekeep migrate" as a user who may make roles; it names what is left to do`,
  );
}

/** Statements that return rows and change nothing. */
const TAKEN = ['SELECT', 'VALUES', 'WITH', 'TABLE', 'SHOW', 'EXPLAIN'];
/** Those of them that EXPLAIN may be asked of. */
const EXPLAINED = ['SELECT', 'VALUES', 'WITH', 'TABLE'];

/** Comments to the end of the line, and those in stars that hold no others. */
const COMMENT = /--[^\n]*|\/\*(?:(?!\/\*|\*\/)[\s\S])*\*\//g;
/** EXPLAIN with its options, if it is there, and the first word that follows. */
const START =
  /^[\s(;]*(explain\b(?:\s*\((?!\s*(?:select|values|with|table)\b)[^()]*\))?(?:\s*\b(?:analy[sz]e|verbose)\b)*)?[\s(;]*([\p{L}_][\p{L}\p{N}_$]*|\S?)/iu;

/**
 * Checks how a statement begins. A data-modifying WITH passes; the transaction and the role refuse it.
 *
 * @throws StoreError `query_refused` naming what is taken
 */
function assertReads(sql: string): void {
  let text = sql;
  // Comments in stars nest: the innermost go first.
  for (let before = ''; before !== text; ) {
    before = text;
    text = text.replace(COMMENT, ' ');
  }
  const [, explain, word = ''] = START.exec(text) ?? [];
  const isExplain = explain !== undefined;
  if (word === '') throw refused(`there is no statement${isExplain ? ' to explain' : ''}`);
  const first = word.toUpperCase();
  if ((isExplain ? EXPLAINED : TAKEN).includes(first)) return;
  const start = `${isExplain ? 'EXPLAIN ' : ''}${first.slice(0, 40)}`;
  const taken = `${TAKEN.slice(0, -1).join(', ')} and ${TAKEN.at(-1)}`;
  throw refused(`query takes ${taken} only; this statement begins with ${start}`);
}

function refused(message: string): StoreError {
  return new StoreError('query_refused', message);
}
