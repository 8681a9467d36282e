/**
 * Characters that steer a terminal, turn the direction of writing, or are not seen at all. Texts of
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
