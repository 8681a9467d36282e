import type { Answer } from '../api-inspection.js';
import type { Database, TransactionRunner } from '../database.js';
import { StoreError } from '../errors.js';
import { toMs } from '../instants.js';
import { QUERY_FUNCTION, QUERY_ROLE } from '../schema/query-role.js';
import { assertReads } from './statement-form.js';

/**
 * Which series this transaction has looked at so far, wherever they were named: in the statement, in
 * a view or in a function. Their tables stay locked until the transaction ends. The statement may have
 * changed the search path.
 */
const touched = (schema: string) => `
  SELECT s.table_name AS "table", ${toMs('min(lower(s.span))')} AS "fromMs",
         ${toMs('max(upper(s.span))')} AS "toMs"
  FROM pg_locks l JOIN ${schema}.partition_state s
    ON to_regclass('${schema}.' || s.table_name) = l.relation
  WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND s.state = 'archived'
  GROUP BY s.table_name ORDER BY s.table_name`;

/** Where the function is, if it has the rights of the role that only reads. */
const FIND_FUNCTION = `
  SELECT quote_ident(n.nspname) AS schema
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    JOIN pg_roles r ON r.oid = p.proowner
  WHERE p.oid = to_regprocedure('${QUERY_FUNCTION}(text)') AND p.prosecdef
    AND r.rolname = '${QUERY_ROLE}' AND NOT r.rolsuper`;

const LIMIT_TIME = `SELECT set_config('statement_timeout', $1, true),
  set_config('idle_in_transaction_session_timeout', $2, true)`;
/** Between the statements of one answer; a session that was ended could not say what took too long. */
const IDLE_GRACE_MS = 30_000;

/** Types as texts; those that only the inside of the server knows come with their text form. */
const NAME_TYPES = `
  SELECT format_type(t.oid, -1) AS type, t.typtype = 'p' AND t.typname <> 'record' AS "isPseudo"
  FROM unnest($1::oid[]) WITH ORDINALITY AS asked(oid, place) JOIN pg_type t USING (oid)
  ORDER BY place`;

const OUT_OF_TIME = '57014';

/**
 * Runs one statement that comes from outside, reading only: with the rights of a role that reads and
 * nothing else, in a transaction that changes nothing.
 *
 * @throws StoreError `query_refused`, `query_timeout`, `query_role_missing`
 */
export async function readAnswer(
  database: Database,
  sql: string,
  timeoutMs: number,
): Promise<Answer> {
  assertReads(sql);
  try {
    return await database.reading(timeoutMs, async (runner) => {
      const limitMs = Math.ceil(timeoutMs);
      await runner.rows(LIMIT_TIME, [String(limitMs), String(limitMs + IDLE_GRACE_MS)]);
      const [found] = await runner.rows<{ schema: string }>(FIND_FUNCTION);
      if (found === undefined) throw roleMissing();
      const { names, rows } = await run(runner, sql, found.schema);
      const cold = await runner.rows<{ table: string; fromMs: number; toMs: number }>(
        touched(found.schema),
      );
      return {
        ...{ names, rows },
        cold: cold.map(({ table, fromMs, toMs: endMs }) => ({
          ...{ table, span: { fromMs, toMs: endMs } },
        })),
      };
    });
  } catch (error) {
    if (!(error instanceof StoreError) || error.sqlstate !== OUT_OF_TIME) throw error;
    throw queryTimeout(timeoutMs, error);
  }
}

/** A statement took longer than it may. */
function queryTimeout(timeoutMs: number, cause: unknown): StoreError {
  return new StoreError(
    'query_timeout',
    'fatal',
    `the statement took longer than ${timeoutMs} ms`,
    { cause },
  );
}

async function run(
  runner: TransactionRunner,
  sql: string,
  schema: string,
): Promise<{ readonly names: string[]; readonly rows: unknown[][] }> {
  const columns = await runner.describe(sql);
  const names = columns.map(({ name }) => name);
  // A function that returns rows has columns; those of a statement without any cannot be shown either.
  if (columns.length === 0) throw new StoreError('query_refused', 'fatal', NO_COLUMNS);
  const types = await runner.rows<{ type: string; isPseudo: boolean }>(NAME_TYPES, [
    columns.map(({ type }) => type),
  ]);
  const list = types.map(({ type, isPseudo }, at) => `c${at} ${isPseudo ? 'text' : type}`);
  const isPlain = types.every(({ isPseudo }) => !isPseudo);
  const text = isPlain ? sql : castPseudo(sql, types);
  const call = `SELECT * FROM ${schema}.${QUERY_FUNCTION}($1) AS answer (${list.join(', ')})`;
  return { names, rows: (await runner.table(call, [text])).rows };
}

const NO_COLUMNS = 'the statement names no column: write what it is to show';

/** The server has described the statement as one, so it is one between parentheses as well. */
function castPseudo(sql: string, types: readonly { readonly isPseudo: boolean }[]): string {
  const casts = types.map(({ isPseudo }, at) => (isPseudo ? `c${at}::text` : `c${at}`));
  const names = types.map((_, at) => `c${at}`);
  const inner = sql.replace(/;\s*$/, '');
  return `SELECT ${casts.join(', ')} FROM (${inner}\n) AS asked (${names.join(', ')})`;
}

function roleMissing(): StoreError {
  return new StoreError(
    'query_role_missing',
    'fatal',
    `statements run with the rights of the role ${QUERY_ROLE}, and this database has not given it the function ${QUERY_FUNCTION}: run "tapekeep migrate" as a user who may make roles; it names what is left to do`,
  );
}
