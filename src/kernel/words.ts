/** Texts and numbers within sentences for people. */

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
