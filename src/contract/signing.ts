import { createHmac, timingSafeEqual } from 'node:crypto';

/** The three headers of a signed request (contract, Authentication), in lower case. */
export const AUTH_HEADERS = {
  apiKey: 'x-txc-apikey',
  payload: 'x-txc-payload',
  signature: 'x-txc-signature',
} as const;

/**
 * Text that the signature is computed over. `payload`: the base64 text, as servers of this family do
 * (field notes, Signing); `body`: the JSON text itself, the contract's literal wording.
 */
export type SignedContent = 'payload' | 'body';

/** The `X-TXC-PAYLOAD` of a body: base64 of exactly the bytes that are sent. */
export function encodePayload(body: string | Uint8Array): string {
  return Buffer.from(body).toString('base64');
}

/** Lower-case hex HMAC-SHA512 under the secret key. */
export function sign(
  secret: string,
  body: string | Uint8Array,
  content: SignedContent = 'payload',
): string {
  const message = content === 'payload' ? encodePayload(body) : body;
  return createHmac('sha512', secret).update(message).digest('hex');
}

/**
 * Checks a received request: the payload header must decode to the received bytes, and the
 * signature must match. Compares in constant time, so that a signature cannot be guessed by timing.
 */
export function isSignedBy(
  secret: string,
  body: Uint8Array,
  payload: string,
  signature: string,
  content: SignedContent = 'payload',
): boolean {
  if (payload !== encodePayload(body)) return false;
  const expected = Buffer.from(sign(secret, body, content), 'utf8');
  const given = Buffer.from(signature.toLowerCase(), 'utf8');
  return expected.length === given.length && timingSafeEqual(expected, given);
}
