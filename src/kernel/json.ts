/** Deepest nesting that is read: the contract's own answers reach four levels, fault scripts five. */
export const JSON_DEPTH_MAX = 16;
/** Most values of one text: the tickers of 10,000 markets are some 140,000. */
export const JSON_VALUES_MAX = 250_000;

/** Returns true if a value is what JSON calls an object: fields by their names. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** JSON that is nested too deeply, or holds too many values, to be worth its memory. */
export class JsonBoundsError extends SyntaxError {
  override readonly name = 'JsonBoundsError';
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
 * JSON from outside this process, bounded. Its nesting shows quickest in the parsed value; a text that could hold too
 * many values is counted before it is parsed.
 *
 * @param valuesMax most arrays, objects and further values of them
 * @throws JsonBoundsError, or the SyntaxError of JSON.parse
 */
export function parseJson(text: string, valuesMax = JSON_VALUES_MAX): unknown {
  // Each value but the first has a character of its own.
  if (text.length > valuesMax && valuesIn(text) > valuesMax) {
    throw new JsonBoundsError(`it holds more than ${valuesMax} values`);
  }
  const value: unknown = JSON.parse(text);
  if (!isBranch(value) || isWithin(value, JSON_DEPTH_MAX)) return value;
  throw new JsonBoundsError(`it is nested deeper than ${JSON_DEPTH_MAX} levels`);
}

/** Commas and opening brackets outside of texts. */
function valuesIn(json: string): number {
  let values = 0;
  let isInText = false;
  for (let at = 0; at < json.length; at += 1) {
    const char = json[at];
    if (char === '"') isInText = !isInText;
    else if (isInText) at += char === '\\' ? 1 : 0;
    else if (char === ',' || char === '[' || char === '{') values += 1;
  }
  return values;
}

const isBranch = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** Every value of every answer passes here: scalars are told apart without a call, and lists read by place. */
function isWithin(branch: object, levels: number): boolean {
  if (levels === 0) return false;
  if (Array.isArray(branch)) {
    for (let at = 0; at < branch.length; at += 1) {
      const value: unknown = branch[at];
      if (isBranch(value) && !isWithin(value, levels - 1)) return false;
    }
    return true;
  }
  for (const name in branch) {
    const value = (branch as Record<string, unknown>)[name];
    if (isBranch(value) && !isWithin(value, levels - 1)) return false;
  }
  return true;
}
