import { NoSuchTableError, StatementRefusedError } from '../../archive/errors.js';
import { pointAt } from '../../archive/query/statement.js';
import { isQueryTable, isQuestion, QUERY_TABLES, QUESTIONS } from '../../archive/query/tables.js';
import { messageOf, TapekeepError } from '../../kernel/errors.js';
import { nearestName } from '../../kernel/nearest.js';
import { SERIES, SERIES_TABLES } from '../../model/series.js';
import type { Store } from '../../store/index.js';

/** What the engines refuse in a statement, in words for its author. */

const refused = (text: string, cause: unknown) => new TapekeepError('usage', text, { cause });

/** Something that a statement can name, and how. */
interface Name {
  readonly name: string;
  readonly shown: string;
}

const shownAs = (names: readonly string[], after = ''): Name[] =>
  names.map((name) => ({ name, shown: `${name}${after}` }));

/** What was meant, by the first of the nearest names. */
function nearestAdvice(word: string, known: readonly Name[]): string | undefined {
  const names = known.map(({ name }) => name);
  const nearest = nearestName(word, names);
  const meant = known.find(({ name }) => name === nearest);
  return meant === undefined ? undefined : `. Did you mean ${meant.shown}?`;
}

const NO_FUNCTION =
  /Catalog Error: (?:Table|Scalar) Function with name "?(\w+)"? does not exist!\nDid you mean "(?:main\.)?(\w+)".*/;

const NO_SUM = /Binder Error: No function matches .* 'sum\(INTERVAL\)'.*?(?=\n\nLINE |$)/s;

/** With the table or the question that was meant, where DuckDB runs a statement. */
export function asOwnRefusal(error: unknown): unknown {
  if (error instanceof NoSuchTableError) {
    const known = shownAs([...QUERY_TABLES, ...SERIES_TABLES]).filter(
      ({ name }) => name !== error.table,
    );
    const advice = nearestAdvice(error.table, known) ?? '';
    return refused(`${messageOf(error)}${advice}`, error);
  }
  if (!(error instanceof StatementRefusedError)) return error;
  const message = messageOf(error);
  if (NO_SUM.test(message)) {
    const advice =
      'DuckDB sums no lengths: write sum(epoch(…)) for their seconds, or ask analytics.gaps';
    return refused(message.replace(NO_SUM, advice), error);
  }
  const [found, word = '', suggested = ''] = NO_FUNCTION.exec(message) ?? [];
  if (found === undefined) return error;
  // It leaves out the schema and the case of letters; the line that it quotes has both.
  const shown = message.slice(message.indexOf('\nLINE '));
  const written = new RegExp(`(?:\\w+\\.)?\\b${word}(?=\\s*\\()`, 'i').exec(shown)?.[0] ?? word;
  // What it suggests may be far off, and what Postgres has it does not know.
  const advice =
    nearestAdvice(word, shownAs([...QUESTIONS, suggested], '(…)')) ??
    '. The functions of the database are asked with --engine postgres';
  const text = message.replace(found, () => `there is no function ${written} here${advice}`);
  return refused(text, error);
}

/** Tables and views of schemas, partitions aside, functions of analytics, and what is called `$2` anyway. */
const NAMES = `
  SELECT n.nspname AS schema, c.relname AS name, false AS "isFunction"
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = ANY ($1::text[]) AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition
  UNION
  SELECT n.nspname, p.proname, true FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
  WHERE (n.nspname = ANY ($1::text[]) AND n.nspname = 'analytics')
     OR (p.proname = $2 AND pg_function_is_visible(p.oid))
  ORDER BY 3, 1 DESC, 2`;

interface DatabaseName {
  readonly schema: string;
  readonly name: string;
  readonly isFunction: boolean;
}

/** DuckDB's tables have it, and the views. */
const MARKET_COLUMN = /^column (?:"?\w+"?\.)?"?market"? does not exist/;
const RELATION = /^relation "(?:([^".]+)\.)?([^".]+)" does not exist/;
const FUNCTION = /^function (?:"?(\w+)"?\.)?"?(\w+)"?\(.*\) does not exist/;

/** Where a statement was refused. */
interface Asked {
  readonly store: Store;
  /** Whether Postgres was named to run it; else DuckDB did not take it before. */
  readonly isChosen: boolean;
}

/** What to write in place of a name that Postgres does not know; undefined where none comes near. */
async function nameAdvice(
  message: string,
  sql: string,
  { store, isChosen }: Asked,
): Promise<string | undefined> {
  if (message === 'unrecognized configuration parameter "tables"') {
    return '. To list them: select table_schema, table_name from information_schema.tables';
  }
  if (MARKET_COLUMN.test(message)) {
    if (/\banalytics\./i.test(sql)) return '. SELECT * shows the columns that there are';
    return '. In the tables of the database it is market_id, and market.name has its name. The views of analytics (analytics.coverage, analytics.depth_levels) have the column market, and so have coverage and depth with --engine duckdb';
  }
  const isFunction = FUNCTION.test(message);
  const found = (isFunction ? FUNCTION : RELATION).exec(message);
  if (found === null) return undefined;
  const [, schema, word = ''] = found;
  const isOwn = isFunction ? isQuestion(word) : isQueryTable(word);
  if (schema === undefined && isOwn) {
    const why = isChosen
      ? 'Leave out --engine postgres'
      : `DuckDB has ${word}, and takes no such statement (--engine duckdb says why): write a SELECT for it`;
    return `. ${why}, or write analytics.${word}`;
  }
  const schemas = schema === undefined ? ['public', 'analytics'] : [schema];
  const names = await store.query<DatabaseName>(NAMES, [schemas, word]);
  // It is there, and takes other arguments.
  const isThere = (one: DatabaseName) =>
    one.isFunction && one.name === word && one.schema === (schema ?? 'pg_catalog');
  if (isFunction && names.some(isThere)) return undefined;
  const own = isFunction ? shownAs(QUESTIONS, '(…)') : shownAs(QUERY_TABLES);
  return nearestAdvice(word, [
    ...(schema === undefined ? own : []),
    ...names
      .filter((one) => one.isFunction || !isFunction)
      .map(({ schema: place, name, isFunction: isCalled }) => ({
        name,
        shown: `${place === 'public' ? '' : `${place}.`}${name}${isCalled ? '(…)' : ''}`,
      })),
  ]);
}

const DENIED = /^permission denied for table (\w+)$/;

/** Who may read a table of the account; undefined of others. */
function rightsAdvice(message: string): string | undefined {
  const denied = DENIED.exec(message)?.[1];
  const table = SERIES_TABLES.find((name) => name === denied);
  if (table === undefined || SERIES[table].retention !== 'account') return undefined;
  return '. Readers have no right to the account: ask as the login that collects, with tapekeep psql --owner';
}

/** What Postgres says of an error, as far as it is known here. */
interface ServerError {
  readonly hint?: string;
  /** Place in the statement, counted in characters from 1. */
  readonly position?: string;
  /** The same, of a statement that ran within a function. */
  readonly internalPosition?: string;
  readonly internalQuery?: string;
}

/** What Postgres refuses in a statement is the asker's to mend, not a failure of the archive. */
export async function asRefusal(error: unknown, sql: string, asked: Asked): Promise<unknown> {
  const sqlstate: unknown = (error as { sqlstate?: unknown }).sqlstate;
  if (typeof sqlstate !== 'string' || !/^(22|25006|42|TK)/.test(sqlstate)) return error;
  const { cause } = error as Error;
  const message = messageOf(cause ?? error);
  if (sqlstate === '25006') return refused(`query only reads: ${message}`, error);
  if (message.startsWith('cannot insert multiple commands')) {
    return refused('query takes one statement at a time', error);
  }
  const server: ServerError = cause ?? {};
  const hint = server.hint === undefined ? '' : `. ${server.hint}`;
  const advice = rightsAdvice(message) ?? (await nameAdvice(message, sql, asked)) ?? hint;
  const { position, internalPosition, internalQuery } = server;
  const place = position ?? (internalQuery === sql ? internalPosition : undefined);
  const shown = place === undefined ? '' : pointAt(sql, Number(place) - 1);
  const text = `the statement is refused: ${message}${advice}${shown}`;
  return refused(text, error);
}
