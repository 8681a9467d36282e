import { spreadsheetField } from '../../archive/lines.js';
import { formatTable, jsonLine } from '../output.js';

/** The forms of an answer. */
export const ANSWER_FORMATS = ['table', 'csv', 'json'] as const;
export type AnswerFormat = (typeof ANSWER_FORMATS)[number];

/** An answer as it comes: values as for JSON, decimals in text. */
export interface PrintableAnswer {
  readonly names: readonly string[];
  readonly chunks:
    | AsyncIterable<ReadonlyArray<readonly unknown[]>>
    | Iterable<ReadonlyArray<readonly unknown[]>>;
}

/** Rows that settle how wide the columns of a table are. */
const MEASURED_ROWS = 1_000;

/**
 * Writes an answer out, some thousand rows at a time: memory does not grow with their number.
 *
 * @param write resolves when more may come
 */
export async function writeAnswer(
  { names, chunks }: PrintableAnswer,
  format: AnswerFormat,
  write: (text: string) => Promise<void>,
): Promise<void> {
  if (format === 'table') return await writeTable(names, chunks, write);
  if (format === 'csv') {
    if (names.length > 0) await write(`${names.map(spreadsheetField).join(',')}\r\n`);
    for await (const rows of chunks) {
      await write(rows.map((row) => `${row.map(csvCell).join(',')}\r\n`).join(''));
    }
    return;
  }
  const keys = distinct(names);
  for await (const rows of chunks) {
    const objects = rows.map((row) => Object.fromEntries(keys.map((key, at) => [key, row[at]])));
    await write(objects.map(jsonLine).join(''));
  }
}

async function writeTable(
  names: readonly string[],
  chunks: PrintableAnswer['chunks'],
  write: (text: string) => Promise<void>,
): Promise<void> {
  const columns = names.map((title, at) => ({
    title,
    text: (row: readonly unknown[]) => cell(row[at]),
  }));
  const put = async (lines: readonly string[]) => {
    if (lines.length > 0) await write(`${lines.join('\n')}\n`);
  };
  let count = 0;
  let first: (readonly unknown[])[] | undefined = [];
  // What comes later is laid out as if it stood beneath the widest text of each column.
  let widest: string[] = [];
  const putFirst = async (rows: readonly (readonly unknown[])[]) => {
    if (rows.length > 0) await put(formatTable(columns, rows));
    widest = names.map((_, at) => longest(rows.map((row) => cell(row[at]))));
    first = undefined;
  };
  for await (const rows of chunks) {
    count += rows.length;
    if (first === undefined) {
      await put(formatTable(columns, [widest, ...rows]).slice(2));
      continue;
    }
    first.push(...rows);
    if (first.length >= MEASURED_ROWS) await putFirst(first);
  }
  if (first !== undefined) await putFirst(first);
  await put([`(${count} ${count === 1 ? 'row' : 'rows'})`]);
}

function longest(texts: readonly string[]): string {
  return texts.reduce((long, text) => (text.length > long.length ? text : long), '');
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** A number is none of a formula, also below zero. */
const NUMBER = /^-?(\d+(\.\d+)?(e[+-]?\d+)?|infinity)$/i;
/** Nor is a length of time, as both engines write it: `-00:00:00.25`, `-1 days +02:03:04`. */
const INTERVAL = /^(-?\d+ (year|mon|month|day)s?( (?=.)|$))*([+-]?\d+:\d\d:\d\d(\.\d+)?)?$/;

function csvCell(value: unknown): string {
  if (value === null || value === undefined) return '';
  const text = cell(value);
  return text !== '' && (NUMBER.test(text) || INTERVAL.test(text)) ? text : spreadsheetField(text);
}

/** Names of which none hides another in an object. */
function distinct(names: readonly string[]): string[] {
  const taken = new Set<string>();
  return names.map((name) => {
    let free = name;
    for (let more = 2; taken.has(free); more += 1) free = `${name}_${more}`;
    taken.add(free);
    return free;
  });
}
