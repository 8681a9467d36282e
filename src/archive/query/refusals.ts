import { messageOf, TapekeepError } from '../../kernel/errors.js';
import { nearestName } from '../../kernel/nearest.js';
import { DiskFullError, isFullDisk, ParquetError, StatementRefusedError } from '../errors.js';
import { QUERY_TABLES, QUESTIONS } from './tables.js';

/** Errors of a statement, in words for its author. */

/** The machine has not enough memory or disk for a statement. */
class QueryResourcesError extends TapekeepError {
  constructor(what: string, cause: unknown) {
    super(
      'query_resources',
      `${what}: ask for fewer markets or a shorter time (in the statement, or with --market, --from and --to), or let TMPDIR name a folder on a larger disk`,
      { cause },
    );
  }
}

const TOO_MANY_DIGITS =
  /Overflow in (multiplication|addition|subtraction|HUGEINT)|Needed scale \d+/;

/** A time with a zone and without seconds, which Postgres takes. */
const NO_SECONDS = /invalid timestamp field format: "(\S+[ T]\d\d:\d\d)( ?[A-Za-z+-][^"]*)"/;

const NO_FUNCTION =
  /Catalog Error: (?:Table|Scalar) Function with name "?(\w+)"? does not exist!\nDid you mean "(?:main\.)?(\w+)".*/;

const NO_SUM = /Binder Error: No function matches .* 'sum\(INTERVAL\)'.*?(?=\n\nLINE |$)/s;

/** Translates an error of DuckDB for the author of the statement; other errors stay as they are. */
export function asStatementError(error: unknown): unknown {
  if (error instanceof DiskFullError) return new QueryResourcesError('the disk is full', error);
  if (!(error instanceof ParquetError)) return error;
  const said = messageOf(error.cause);
  if (isFullDisk(error.cause)) return new QueryResourcesError('the disk is full', error);
  if (/^Out of Memory/i.test(said))
    return new QueryResourcesError('there is not enough memory', error);
  if (/^(IO|Internal|Fatal|Serialization) Error/.test(said)) return error;
  const [first = ''] = said.split('\n');
  if (TOO_MANY_DIGITS.test(first)) {
    return new StatementRefusedError(
      `a result has more than 38 digits (${first}): the column total has the product of price and amount; give a factor of another product fewer digits after the point where it has no more, such as price::DECIMAL(38,8)`,
      error,
    );
  }
  return new StatementRefusedError(`the statement is refused: ${withAdvice(said)}`, error);
}

/** @param said by DuckDB; the line of the statement follows its first sentence */
function withAdvice(said: string): string {
  if (NO_SUM.test(said)) {
    return said.replace(NO_SUM, 'DuckDB sums no lengths: write sum(epoch(…)) for their seconds');
  }
  const [minute, zone] = NO_SECONDS.exec(said)?.slice(1) ?? [];
  if (minute !== undefined) {
    const [first = ''] = said.split('\n');
    const advice = `. Before a zone DuckDB wants the seconds: '${minute}:00${zone}'`;
    return `${first}${advice}${said.slice(first.length)}`;
  }
  const [found, word = '', suggested = ''] = NO_FUNCTION.exec(said) ?? [];
  if (found === undefined) return said;
  // It leaves out the schema and the case of letters; the line that it quotes has both.
  const shown = said.slice(said.indexOf('\nLINE '));
  const written = new RegExp(`(?:\\w+\\.)?\\b${word}(?=\\s*\\()`, 'i').exec(shown)?.[0] ?? word;
  // DuckDB's suggestion may be far off, and it does not know the tables of Postgres.
  const nearest = nearestName(word, [...QUESTIONS, suggested]);
  const advice =
    nearest === undefined
      ? 'use "tapekeep psql" for functions of the database'
      : `did you mean ${nearest}(…)?`;
  return said.replace(found, () => `there is no function ${written} here: ${advice}`);
}

/** @param shown the name as it was written, with its schema */
export function unknownTable(name: string, shown: string): StatementRefusedError {
  const nearest = nearestName(name, QUERY_TABLES);
  const meant = nearest === undefined || nearest === name ? '' : `; did you mean ${nearest}?`;
  return new StatementRefusedError(
    `there is no table ${shown} here${meant === '' ? '.' : meant} There are ${QUERY_TABLES.join(', ')}; use "tapekeep psql" for other tables and views of the database`,
  );
}
