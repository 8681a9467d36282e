import { multiplyDecimals } from '../kernel/decimal.js';
import type { ColumnForm } from '../model/columns.js';
import { rowPlaces } from '../model/kinds.js';
import { type SeriesTable, seriesOf } from '../model/series.js';
import type { RowForm } from '../store/index.js';
import { shortest } from './parquet/values.js';

/** Rows as lines of text. */

/** Between the fields of a row, and in place of one without a value: neither is in any text that is stored. */
export const FIELD_END = '\t';
export const NO_VALUE = '\u0001';

type LineForm = RowForm | 'copy';

/**
 * Writes rows of files as lines of text, from their fields by `rowPlaces`. The forms are those in which
 * the database writes rows, and `copy`: all columns as COPY takes them back.
 *
 * @param variantS interval or period of the rows; null where each has it behind its other fields
 */
export function lineWriter(
  table: SeriesTable,
  form: LineForm,
  variantS: number | null,
): (row: string) => string {
  const { columns, variant } = seriesOf(table);
  const places = rowPlaces(table);
  const behind = Math.max(...places.values()) + 1;
  const [price = 0, amount = 0] = ['price', 'amount'].map((name) => places.get(name) ?? 0);
  const lists = columns.filter(({ type }) => type.form === 'decimals');
  const [first, ...others] = columns.map((column) => {
    const { name, type, lean } = column;
    const place = places.get(name) ?? behind;
    const lead = form === 'json' ? `"${name}":` : '';
    const write = valueWriter(form, type.form, lists.indexOf(column));
    return (fields: string[]): string => {
      if (name === variant && variantS !== null) return lead + variantS;
      let text = fields[place] ?? '';
      // Files have the digits of their column, lines those of the number; products are made of these.
      if (type.form === 'decimal') {
        text = shortest(text);
        fields[place] = text;
      }
      if (text !== NO_VALUE) return lead + write(text);
      if (lean === undefined || form === 'lean') return form === 'json' ? `${lead}null` : '';
      return lead + write(multiplyDecimals(fields[price] ?? '', fields[amount] ?? ''));
    };
  });
  return (row) => {
    const fields = row.split(FIELD_END);
    let line = first?.(fields) ?? '';
    for (const field of others) line += `,${field(fields)}`;
    return form === 'json' ? `{${line}}\n` : `${line}\n`;
  };
}

/** @param list place among the lists of the row */
function valueWriter(form: LineForm, of: ColumnForm, list: number): (text: string) => string {
  const isJson = form === 'json';
  if (of === 'integer') return (text) => text;
  if (of === 'timestamp') {
    return isJson ? (text) => `"${text.replace(' ', 'T')}:00"` : (text) => text;
  }
  if (of === 'decimal') return isJson ? (text) => `"${text}"` : (text) => text;
  if (of === 'text') {
    if (isJson) return JSON.stringify;
    return form === 'copy' ? (text) => `"${text.replaceAll('"', '""')}"` : (text) => text;
  }
  return (text) => {
    const one = text.split('|')[list] ?? '';
    const values = one === '' ? [] : one.split(' ').map(shortest);
    if (isJson) return JSON.stringify(values);
    if (form === 'copy') return `"{${values.join(',')}}"`;
    // The database puts quotes around what holds a comma, and around nothing else.
    return values.length > 1 ? `"[${values.join(',')}]"` : `[${values.join(',')}]`;
  };
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
  /** What orders rows of the same instant, where there is such a thing: the id of a trade. */
  readonly id?: number;
}

/** What orders a row, from its line. */
export function keyOfLine(line: string, isJson: boolean, hasId: boolean): RowKey {
  const [timestamp] = TIMESTAMP.exec(line) ?? [''];
  const at = `${timestamp.replace(' ', 'T')}Z`;
  if (!hasId) return { at };
  const id = isJson ? Object.values(JSON.parse(line) as object)[1] : line.split(',', 2)[1];
  return { at, id: Number(id) };
}

/** The instant of the row of a line, UNIX milliseconds. */
export function timeOfLine(line: string): number {
  return Date.parse(`${TIMESTAMP.exec(line)?.[0].replace(' ', 'T') ?? ''}Z`);
}

/** What a spreadsheet may take for the start of a formula. */
const FORMULA = /^[=+\-@\t\r\n]/;

/** A text of outside as a field of CSV (RFC 4180). */
export function csvField(text: string): string {
  return /[",\r\n]/.test(text) || text === '' ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * The same for a file that people open in a spreadsheet: what would be a formula there begins with
 * an apostrophe. Numbers are none, also below zero.
 */
export function spreadsheetField(text: string): string {
  return csvField(FORMULA.test(text) ? `'${text}` : text);
}
