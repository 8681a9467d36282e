import { NONCE_DIGITS } from '../../contract/limits.js';

/** The pieces of valid JSON: texts, brackets and signs between, and all other values. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]:,]|[^\s"{}[\]:,]+/gs;

const DIGITS = new RegExp(`^\\d{${NONCE_DIGITS}}$`);

/**
 * How a body writes its nonce: `1.9e12` is the number 1900000000000, but not the number of 13
 * characters that the contract asks for, and only the text tells them apart.
 *
 * @param json a JSON object, known to be valid
 * @returns the digits as they stand there, without the quotes of a text; undefined without a nonce
 */
export function nonceTextOf(json: string): string | undefined {
  let depth = 0;
  let key: string | undefined;
  let before = '';
  let found: string | undefined;
  for (const [token] of json.matchAll(TOKEN)) {
    if (token === '{' || token === '[') depth += 1;
    else if (token === '}' || token === ']') depth -= 1;
    else if (depth === 1 && token === ':') key = readText(before);
    else if (depth === 1 && token === ',') key = undefined;
    // Of several the last counts, as everywhere in JSON.
    else if (depth === 1 && key === 'nonce') found = readText(token);
    before = token;
  }
  return found;
}

function readText(token: string): string {
  return token.startsWith('"') ? (JSON.parse(token) as string) : token;
}

/** Whether a nonce is written as the contract says (Limits): in 13 digits, nothing else. */
export function isNonceText(text: string | undefined): boolean {
  return text !== undefined && DIGITS.test(text);
}
