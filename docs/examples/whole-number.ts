import type { Arguments } from './arguments.js';

/** A named option that is a whole number, at least one. */
export function wholeNumber(values: Arguments, name: keyof Arguments, otherwise: number): number {
  const text = values[name];
  if (text === undefined) return otherwise;
  const number = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(number) && number > 0) return number;
  throw new Error(`--${name} is a whole number above zero, not "${text}"`);
}
