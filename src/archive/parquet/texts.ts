const ZERO = 48;
const POINT = 46;
const LINE_FEED = 10;

/** The text of the same number without superfluous zeros at its end: `1.5` of `1.50`, `2` of `2.00`. */
export function shortest(text: string): string {
  let end = text.length;
  if (text.charCodeAt(end - 1) !== ZERO || !text.includes('.')) return text;
  while (text.charCodeAt(end - 1) === ZERO) end -= 1;
  if (text.charCodeAt(end - 1) === POINT) end -= 1;
  return text.slice(0, end);
}

/** How many lines end in a piece of text. */
export function countLines(piece: Buffer): number {
  let count = 0;
  for (let at = piece.indexOf(LINE_FEED); at >= 0; at = piece.indexOf(LINE_FEED, at + 1)) {
    count += 1;
  }
  return count;
}
