import { Readable } from 'node:stream';
import { csvField, spreadsheetField } from '../../archive/lines.js';
import { Refusal } from './refusal.js';

/** Formats of an answer that is mostly one table. */
export type Format = 'json' | 'ndjson' | 'csv';

export const FORMAT_TYPES: Readonly<Record<Format, string>> = {
  json: 'application/json; charset=utf-8',
  ndjson: 'application/x-ndjson; charset=utf-8',
  csv: 'text/csv; charset=utf-8; header=present',
};

/** Lines that are written at once; the event loop runs between two pieces. */
const PIECE_LINES = 500;

/**
 * Chooses the format of an answer: `format=` before `Accept`, JSON where neither asks for another.
 *
 * @throws Refusal for a format that the endpoint does not have
 */
export function formatOf(
  formats: readonly Format[],
  parameter: string | null,
  accept: string | undefined,
): Format {
  const all: readonly Format[] = ['json', ...formats];
  if (parameter !== null) {
    const found = all.find((one) => one === parameter.toLowerCase());
    if (found !== undefined) return found;
    throw new Refusal(
      400,
      `format is ${JSON.stringify(parameter)} and must be one of ${all.join(', ')}`,
    );
  }
  const types = (accept ?? '').split(',').map((text) => text.split(';')[0]?.trim().toLowerCase());
  return all.find((one) => types.includes(FORMAT_TYPES[one].split(';')[0])) ?? 'json';
}

interface Table {
  readonly names: readonly string[];
  readonly rows: readonly (readonly unknown[])[];
}

/** Table of an answer: its part `rows`, whose rows are objects, or arrays beside `columns`. */
function tableOf(answer: object, rows: string): Table {
  const listed = (answer as Record<string, readonly unknown[]>)[rows] ?? [];
  if ('columns' in answer) {
    const columns = answer.columns as readonly { readonly name: string }[];
    return { names: columns.map(({ name }) => name), rows: listed as Table['rows'] };
  }
  const names = Object.keys(listed[0] ?? {});
  const cells = listed.map((row) => names.map((name) => (row as Record<string, unknown>)[name]));
  return { names, rows: cells };
}

/** Negative numbers begin as formulas of a spreadsheet do. */
const NUMBER = /^-?\d+(?:\.\d+)?$/;

/** Cell as RFC 4180 has it; nothing for null. A text from outside becomes no formula. */
function cell(value: unknown): string {
  if (value === null || value === undefined) return '';
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return NUMBER.test(text) ? csvField(text) : spreadsheetField(text);
}

function* linesOf({ names, rows }: Table, format: Format): Generator<string> {
  if (format === 'csv' && names.length > 0) yield `${names.map(cell).join(',')}\r\n`;
  for (const row of rows) {
    yield format === 'csv'
      ? `${row.map(cell).join(',')}\r\n`
      : `${JSON.stringify(Object.fromEntries(names.map((name, at) => [name, row[at]])))}\n`;
  }
}

function* piecesOf(lines: Iterable<string>): Generator<string> {
  let piece: string[] = [];
  for (const line of lines) {
    if (piece.push(line) < PIECE_LINES) continue;
    yield piece.join('');
    piece = [];
  }
  if (piece.length > 0) yield piece.join('');
}

/** Writes the table of an answer, made as it is read. */
export function tableStream(answer: object, rows: string, format: 'ndjson' | 'csv'): Readable {
  return Readable.from(piecesOf(linesOf(tableOf(answer, rows), format)), { objectMode: false });
}
