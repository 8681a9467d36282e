/** The forms of a file. */
export const FORMATS = ['csv', 'ndjson', 'parquet', 'arrow'] as const;
export type Format = (typeof FORMATS)[number];

/** Names the market in every row; the first column of every file. */
export const MARKET_COLUMN: SeriesColumn = {
  name: 'market',
  type: 'text',
  isNullable: false,
  about: 'name of the market',
};

/** What a spreadsheet may take for the begin of a formula. */
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

/** Said of a text whose rows are not all from the database. */
export const COLD_NOTE =
  'Decimals of rows that were in cold files are without zeros at their ends; the values are the same.';

/** What a reader has to know of a series beside its columns. */
export function notesOf(kind: SeriesKind, isLean: boolean): string[] {
  const unchanged =
    'An observation that equals the one before is not stored again: a row holds until the next one, as far as coverage goes.';
  if (kind === 'tickers' || kind === 'depth') return [unchanged];
  if (kind === 'klines') return ['A candle that is absent inside coverage did not exist.'];
  if (kind === 'trades' && isLean) {
    return ['total is price × amount, exactly, wherever it is null.'];
  }
  return [];
}

import type { SeriesColumn, SeriesKind } from '../../model/kinds.js';
