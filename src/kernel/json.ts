/** Deepest nesting that is read: the contract's own answers reach four levels, fault scripts five. */
export const JSON_DEPTH_MAX = 16;
/** Most values of one text: the tickers of 10,000 markets are some 140,000. */
export const JSON_VALUES_MAX = 250_000;

/** Whether a value is what JSON calls an object: fields by their names. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** JSON that is nested too deeply, or holds too many values, to be worth its memory. */
export class JsonBoundsError extends SyntaxError {
  override readonly name = 'JsonBoundsError';
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
/** `[` and `{` differ in one bit only, and so do `]` and `}`. */
const BRACKET_BIT = 0x20;
const OPENING = 0x7b;
const CLOSING = 0x7d;

/**
 * Refuses a text that JSON.parse would expand to many times its size, before it does. What is no JSON
 * passes: that is for JSON.parse to say.
 *
 * @param bytes the text in UTF-8
 * @param valuesMax most arrays, objects and further values of them
 * @throws JsonBoundsError
 */
export function checkJsonBounds(bytes: Uint8Array, valuesMax = JSON_VALUES_MAX): void {
  const { length } = bytes;
  let depth = 0;
  let values = 0;
  let at = 0;
  while (at < length) {
    // Every byte of every answer passes here; beyond the end it reads 0.
    let byte = bytes[at++] ?? 0;
    if (byte === QUOTE) {
      do {
        byte = bytes[at++] ?? 0;
        if (byte === BACKSLASH) {
          at += 1;
          byte = 0;
        }
      } while (byte !== QUOTE && at < length);
    } else if (byte > 0x5a) {
      byte |= BRACKET_BIT;
      if (byte === OPENING) {
        depth += 1;
        values += 1;
        if (depth > JSON_DEPTH_MAX) {
          throw new JsonBoundsError(`it is nested deeper than ${JSON_DEPTH_MAX} levels`);
        }
      } else if (byte === CLOSING) depth -= 1;
    } else if (byte === COMMA) values += 1;
  }
  if (values > valuesMax) throw new JsonBoundsError(`it holds more than ${valuesMax} values`);
}

const TEXT_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;

/**
 * Reads JSON with every number as the text that it was written as: `1E-7` stays `1E-7`, where a float would
 * round longer ones.
 *
 * @param text JSON that was read before, and so is within the bounds
 */
export function parseNumbersAsText(text: string): unknown {
  return JSON.parse(text.replaceAll(TEXT_OR_NUMBER, (one) => (one[0] === '"' ? one : `"${one}"`)));
}

/**
 * JSON from outside this process: bounded before it is parsed.
 *
 * @throws JsonBoundsError, or the SyntaxError of JSON.parse
 */
export function parseJson(text: string, valuesMax?: number): unknown {
  checkJsonBounds(Buffer.from(text), valuesMax);
  return JSON.parse(text);
}
