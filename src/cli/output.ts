/**
 * Characters that steer a terminal, reverse the direction of writing, or are not seen at all. Texts of
 * an exchange may hold them on purpose.
 */
const STEERING = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Each unit of UTF-16, so that it stays JSON inside a text of JSON. */
const escaped = (character: string) =>
  Array.from({ length: character.length }, (_, at) => character.charCodeAt(at))
    .map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`)
    .join('');

/** A text from outside as it may be shown: what would steer the terminal is written as `\u001b`. */
export function printable(text: string): string {
  return text.replace(STEERING, escaped);
}

/** One line of JSON that no terminal obeys, with the same meaning. */
export function jsonLine(value: unknown): string {
  return `${printable(JSON.stringify(value))}\n`;
}

/** A whole number with a comma between thousands; a dash for one that is not known. */
export const whole = (value: number | null): string =>
  value === null ? '–' : value.toLocaleString('en-US');

/** A number of things: `1 market`, `1,200 markets`. */
export function countOf(count: number, thing: string): string {
  return `${whole(count)} ${thing}${count === 1 ? '' : 's'}`;
}

/** Names that a sentence has; it counts the others. */
const NAMED_MAX = 5;

/** Names of markets within a sentence. */
export function marketNames(names: readonly string[]): string {
  const shown = names.slice(0, NAMED_MAX).map(printable).join(', ');
  const rest = names.length - NAMED_MAX;
  return rest > 0 ? `${shown} and ${countOf(rest, 'more market')}` : shown;
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

/**
 * Draws rows as aligned plain text: a heading, then a line a row, two spaces between columns, no
 * blanks at the ends of lines.
 */
export function formatTable<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
): readonly string[] {
  const cells = [
    columns.map((column) => shownText(column.title)),
    ...rows.map((row) => columns.map((column) => shownText(column.text(row)))),
  ];
  const widths = columns.map((_, index) =>
    cells.reduce((widest, line) => Math.max(widest, widthOf(line[index] ?? '')), 0),
  );
  return cells.map((line) =>
    line
      .map((text, index) => {
        const blanks = ' '.repeat((widths[index] ?? 0) - widthOf(text));
        return columns[index]?.align === 'right' ? blanks + text : text + blanks;
      })
      .join('  ')
      .trimEnd(),
  );
}
