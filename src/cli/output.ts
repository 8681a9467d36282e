import { printable } from '../kernel/words.js';

export { countOf, marketNames, printable, whole } from '../kernel/words.js';

/** One line of JSON that no terminal obeys, with the same meaning. */
export function jsonLine(value: unknown): string {
  return `${printable(JSON.stringify(value))}\n`;
}

/** Lines for people; what there is nothing to say of is no line. */
export type Lines = string | null | undefined | false | readonly Lines[];

/** Those that there are, in their order, each with its end. */
export function textOf(lines: Lines): string {
  if (typeof lines === 'string') return `${lines}\n`;
  return lines ? lines.map(textOf).join('') : '';
}

/** Prints a result: one JSON document for programs, or lines for people. */
export function printReport(isJson: boolean, document: unknown, lines: () => Lines): void {
  process.stdout.write(isJson ? jsonLine(document) : textOf(lines()));
}

/** Writes to standard output; resolves when the reader's side has taken it. */
export function writeOut(data: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(data, (error) => {
      if (error === null || error === undefined) resolve();
      else reject(error);
    });
  });
}

/** One column of a plain-text table. */
export interface Column<Row> {
  readonly title: string;
  readonly text: (row: Row) => string;
  /** Default: left. */
  readonly align?: 'left' | 'right';
  /** Left out where the terminal is too narrow, the highest first; default: never. */
  readonly rank?: number;
}

/** A column of figures, which read best on the right. */
export function figure<Row>(title: string, text: (row: Row) => string): Column<Row> {
  return { title, text, align: 'right' };
}

/** Control characters would move the terminal's cursor; names come from outside. */
const CONTROL = /\p{Cc}|\p{Cf}/gu;
/** Longest text of one place in a table. */
const MAX_CELL = 60;
/** Characters that a terminal draws two columns wide. */
const WIDE =
  /\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Hangul}|\p{Emoji_Presentation}|[！-｠]/u;
/** Characters that it draws into the one before. */
const COMBINING = /\p{Mn}|\p{Me}/u;

/** Units of UTF-16 that the longest text of one place cannot have more of. */
const LOOKED_AT = 4 * MAX_CELL;

/** A text as a table shows it: harmless, and of bounded length. */
export function shownText(text: string): string {
  const shown = [...text.slice(0, LOOKED_AT).replace(CONTROL, '·')];
  if (shown.length <= MAX_CELL) return shown.join('');
  // Behind a word, where that leaves most of it.
  return `${shown
    .slice(0, MAX_CELL - 1)
    .join('')
    .replace(/(?<=.{40})\s+\S*$/u, '')}…`;
}

function widthOf(text: string): number {
  let width = 0;
  for (const character of text) {
    if (!COMBINING.test(character)) width += WIDE.test(character) ? 2 : 1;
  }
  return width;
}

/** The widest text of each column. */
export function widestTexts(columns: number, rows: readonly (readonly string[])[]): string[] {
  return Array.from({ length: columns }, (_, at) =>
    rows.reduce((widest, row) => {
      const text = row[at] ?? '';
      return widthOf(text) > widthOf(widest) ? text : widest;
    }, ''),
  );
}

/** Blanks between columns. */
const BETWEEN = '  ';
/** Texts are not cut to less than this. */
const LEAST_WIDTH = 8;

/**
 * Draws rows as aligned plain text: a heading, then a line a row, no blanks at the ends of lines. No line is wider
 * than the terminal: columns with a rank are left out first, then the widest texts are cut.
 */
export function formatTable<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  width = process.stdout.columns ?? Number.POSITIVE_INFINITY,
): readonly string[] {
  let shown = columns.map((column) => {
    const cells = [column.title, ...rows.map(column.text)].map(shownText);
    return { column, cells, width: cells.reduce((most, one) => Math.max(most, widthOf(one)), 0) };
  });
  const excess = () =>
    shown.reduce((sum, one) => sum + one.width + BETWEEN.length, -BETWEEN.length) - width;
  while (excess() > 0) {
    const rank = Math.max(...shown.map(({ column }) => column.rank ?? 0));
    if (rank > 0) {
      shown = shown.filter(({ column }) => column.rank !== rank);
      continue;
    }
    const widest = shown
      .filter(({ column }) => column.align !== 'right')
      .reduce((a, b) => (b.width > a.width ? b : a));
    const least = Math.max(LEAST_WIDTH, widest.width - excess());
    if (least >= widest.width) break;
    widest.width = least;
    widest.cells = widest.cells.map((one) => cutTo(one, least));
  }
  return ['', ...rows].map((_, at) =>
    shown
      .map(({ column, cells, width: most }) => {
        const text = cells[at] ?? '';
        const blanks = ' '.repeat(most - widthOf(text));
        return column.align === 'right' ? blanks + text : text + blanks;
      })
      .join(BETWEEN)
      .trimEnd(),
  );
}

function cutTo(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  const kept = [...text];
  while (widthOf(kept.join('')) > width - 1) kept.pop();
  return `${kept.join('')}…`;
}
