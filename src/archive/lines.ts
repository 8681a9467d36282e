import { type Column, type SeriesTable, seriesOf } from '../model/series.js';
import type { RowForm } from '../store/index.js';
import { decimalForm, shortestSql } from './parquet/columns.js';
import { identifier, literal } from './parquet/session.js';

/** Rows as lines of text. */

/** The forms in which the database writes rows, and `copy`: all columns as COPY takes them back. */
export type LineForm = RowForm | 'copy';

/** The types of a file's columns by their names. */
export type FileTypes = ReadonlyMap<string, string>;

/**
 * SQL for a row of a cold file as one line, without its end. It is shaped by what is quick in DuckDB: one
 * pattern instead of two trims, and no time zones.
 *
 * @param lead text before each line
 */
export function lineSql(
  table: SeriesTable,
  form: LineForm,
  types: FileTypes,
  lead: string,
): string {
  const isJson = form === 'json';
  const fields = seriesOf(table).columns.map((column, at) => {
    const name = isJson ? `"${column.name}":` : '';
    const before = `${at > 0 ? ',' : lead + (isJson ? '{' : '')}${name}`;
    const value = fieldSql(column, form, types);
    const isNullable = column.type.isNullable === true;
    return `${literal(before)}, ${isJson && isNullable ? `coalesce(${value}, 'null')` : value}`;
  });
  return `concat(${fields.join(', ')}${isJson ? ", '}'" : ''})`;
}

/** A value as the text of its form; null where it is null. */
function fieldSql({ name, type }: Column, form: LineForm, types: FileTypes): string {
  const isJson = form === 'json';
  const column = identifier(name);
  const digits = decimalForm(types.get(name) ?? '');
  if (type.form === 'integer') return `${column}::VARCHAR`;
  if (type.form === 'timestamp') {
    const time = `make_timestamp(epoch_us(${column}))::VARCHAR`;
    return isJson ? `'"' || replace(${time}, ' ', 'T') || '+00:00"'` : `${time} || '+00'`;
  }
  if (type.form === 'text') {
    if (isJson) return `to_json(${column})::VARCHAR`;
    return form === 'copy' ? `'"' || replace(${column}, '"', '""') || '"'` : column;
  }
  if (type.form === 'decimal') {
    const text = shortestSql(`${column}::VARCHAR`, digits);
    return isJson ? `'"' || ${text} || '"'` : text;
  }
  const one = shortestSql('x::VARCHAR', digits);
  const quoted = isJson ? `'"' || ${one} || '"'` : one;
  const values = `array_to_string(list_transform(${column}, lambda x: ${quoted}), ',')`;
  if (isJson) return `'[' || ${values} || ']'`;
  if (form === 'copy') return `'"{' || ${values} || '}"'`;
  // The database puts quotes around what holds a comma, and around nothing else.
  return `CASE WHEN len(${column}) > 1 THEN '"[' || ${values} || ']"' ELSE '[' || ${values} || ']' END`;
}

const LINE_FEED = 10;

/**
 * Puts something before every line of a text that comes in pieces, ends the lines as asked, and
 * counts them. What a piece becomes is valid until the next one is given.
 *
 * The bytes are taken for characters of one byte each and stay what they are. Of all ways to do this
 * it is the quickest: a call for each line, or an object, would cost more than the line itself.
 */
export class LineRewriter {
  readonly #prefix: string;
  readonly #lead: string;
  readonly #ending: string;
  readonly #between: string;
  #out = Buffer.allocUnsafe(256 * 1024);
  /** The line that has not ended yet. */
  #open = '';
  #first: string | null = null;
  #last: string | null = null;
  #rows = 0;

  /** @param options.lead what every line begins with and loses */
  constructor(prefix: string, options: { readonly lead: string; readonly isCrLf: boolean }) {
    this.#prefix = Buffer.from(prefix).toString('latin1');
    this.#lead = options.lead;
    this.#ending = options.isCrLf ? '\r\n' : '\n';
    // A dollar would mean something in a replacement.
    this.#between = `${this.#ending}${this.#prefix}`.replaceAll('$', '$$$$');
  }

  /** Whole lines so far. */
  get rows(): number {
    return this.#rows;
  }

  /** The first and the last whole line, as they came; null before there was one. */
  get first(): string | null {
    return this.#first;
  }

  get last(): string | null {
    return this.#last;
  }

  /** The whole lines of what came so far, rewritten; the rest waits for the next piece. */
  push(piece: Buffer): Buffer {
    const end = piece.lastIndexOf(LINE_FEED);
    if (end < 0) {
      this.#open += piece.toString('latin1');
      return this.#out.subarray(0, 0);
    }
    const lines = this.#open + piece.toString('latin1', 0, end);
    this.#open = piece.toString('latin1', end + 1);
    const lead = this.#lead;
    const body = lines.slice(lead.length).replaceAll(`\n${lead}`, this.#between);
    this.#note(lines, body);
    const text = this.#prefix + body + this.#ending;
    if (text.length > this.#out.length) this.#out = Buffer.allocUnsafe(2 * text.length);
    return this.#out.subarray(0, this.#out.write(text, 'latin1'));
  }

  #note(lines: string, body: string): void {
    const grownBy = this.#prefix.length + this.#ending.length - 1 - this.#lead.length;
    const breaks = (body.length - (lines.length - this.#lead.length)) / grownBy;
    this.#rows += 1 + breaks;
    this.#first ??= lines.slice(0, breaks === 0 ? undefined : lines.indexOf('\n'));
    this.#last = lines.slice(lines.lastIndexOf('\n') + 1);
  }
}

const TIMESTAMP = /\d{4,}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?/;

/** A row by what orders it. */
export interface RowKey {
  /** ISO 8601, UTC. */
  readonly at: string;
  /** Order of rows of the same instant, if there is one: the id of a trade. */
  readonly id?: number;
}

const instantOf = (line: string) => `${(TIMESTAMP.exec(line)?.[0] ?? '').replace(' ', 'T')}Z`;

/** Reads the order of a row from its line. */
export function keyOfLine(line: string, isJson: boolean, hasId: boolean): RowKey {
  const at = instantOf(line);
  if (!hasId) return { at };
  const id = isJson ? Object.values(JSON.parse(line) as object)[1] : line.split(',', 2)[1];
  return { at, id: Number(id) };
}

/** The instant of the row of a line, UNIX milliseconds. */
export function timeOfLine(line: string): number {
  return Date.parse(instantOf(line));
}

/** Characters that a spreadsheet may take for the start of a formula. */
const FORMULA = /^[=+\-@\t\r\n]/;

/** A text of outside as a field of CSV (RFC 4180). */
export function csvField(text: string): string {
  return /[",\r\n]/.test(text) || text === '' ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * Line of a file that people open in a spreadsheet: what would be a formula there begins with
 * an apostrophe. Numbers are none, also below zero.
 */
export function spreadsheetField(text: string): string {
  return csvField(FORMULA.test(text) ? `'${text}` : text);
}
