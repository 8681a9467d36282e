import { createHash } from 'node:crypto';

/** Texts of JSON that end with a checksum of themselves: of what comes before it, closed in the same way. */
const OWN_SUM = /,\n {2}"sha256": "([0-9a-f]{64})"\n\}\n$/;

/** SHA-256 of a text, hex. */
export const sumOf = (text: string) => createHash('sha256').update(text).digest('hex');

/** Makes the text of a document with its own checksum. */
export function withOwnSum(document: object): { readonly text: string; readonly sha256: string } {
  const body = `${JSON.stringify(document, null, 2)}\n`;
  const sha256 = sumOf(body);
  return { text: body.replace(/\n\}\n$/, `,\n  "sha256": "${sha256}"\n}\n`), sha256 };
}

/** Returns the checksum that a text carries of itself; undefined if it has none, or another. */
export function ownSumOf(text: string): string | undefined {
  const [end, sum] = OWN_SUM.exec(text) ?? [];
  if (end === undefined) return undefined;
  return sumOf(`${text.slice(0, -end.length)}\n}\n`) === sum ? sum : undefined;
}
