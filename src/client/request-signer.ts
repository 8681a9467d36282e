import { NONCE_DIGITS } from '../contract/limits.js';
import { AUTH_HEADERS, encodePayload, type SignedContent, sign } from '../contract/signing.js';
import type { Clock } from '../kernel/clock.js';
import { TapekeepError } from '../kernel/errors.js';
import { NonceError } from './errors.js';
import type { Credentials, NonceStore } from './exchange-client.js';

const MIN_NONCE = 10 ** (NONCE_DIGITS - 1);
const MAX_NONCE = 10 ** NONCE_DIGITS - 1;

/**
 * A key and secret that requests can carry. What is not set, or was read from a file with the end of
 * its line, would come back as a broken connection or a wrong signature.
 *
 * @throws TapekeepError `bad_option`, without the value
 */
export function checkCredentials(credentials: Credentials): Credentials {
  for (const name of ['apiKey', 'secret'] as const) {
    const given: unknown = credentials[name];
    if (typeof given === 'string' && /^[\x21-\x7e]+$/.test(given)) continue;
    const isSet = given !== undefined && given !== null && given !== '';
    const fault = isSet
      ? 'has other characters than visible ASCII, such as a space or the end of a line'
      : 'is not set';
    const advice = 'give the text that the exchange issued, and nothing else';
    throw new TapekeepError('bad_option', `credentials.${name} ${fault}: ${advice}`);
  }
  return credentials;
}

/** A signed request, ready to send: the signature is over exactly these bytes. */
export interface SignedRequest {
  readonly body: Buffer;
  readonly headers: Readonly<Record<string, string>>;
  /** Lets others sign with the key. To be called once the answer is there; never fails. */
  readonly release: () => Promise<void>;
}

/**
 * Signs requests of one key (contract, Authentication; field notes, Signing). Nonces are the wall
 * clock's milliseconds, but always greater than the one before, also after a restart if a store
 * keeps them and after the wall clock was set back.
 *
 * One request at a time: the caller serialises {@link RequestSigner.sign} with the sending, because
 * a server that sees two nonces in the wrong order refuses the lower one. Between processes the
 * store's lock does the same.
 */
export class RequestSigner {
  readonly #credentials: Credentials;
  readonly #content: SignedContent;
  readonly #clock: Clock;
  readonly #store: NonceStore | undefined;
  #lastNonce = 0;

  /** @throws what {@link checkCredentials} throws */
  constructor(
    credentials: Credentials,
    clock: Clock,
    content: SignedContent = 'payload',
    store?: NonceStore,
  ) {
    this.#credentials = checkCredentials(credentials);
    this.#clock = clock;
    this.#content = content;
    this.#store = store;
  }

  /**
   * Builds and signs the body: the parameters, then `request` and `nonce`.
   *
   * @throws NonceError when no 13-digit nonce is left, and whatever the nonce store throws
   */
  async sign(
    path: string,
    params: Readonly<Record<string, unknown>>,
    signal?: AbortSignal,
  ): Promise<SignedRequest> {
    const release = (await this.#store?.lock?.(signal)) ?? (() => Promise.resolve());
    try {
      const nonce = await this.#nextNonce();
      const body = Buffer.from(JSON.stringify({ ...params, request: path, nonce }), 'utf8');
      const { apiKey, secret } = this.#credentials;
      const headers = {
        'content-type': 'application/json',
        [AUTH_HEADERS.apiKey]: apiKey,
        [AUTH_HEADERS.payload]: encodePayload(body),
        [AUTH_HEADERS.signature]: sign(secret, body, this.#content),
      };
      return { body, headers, release };
    } catch (error) {
      await release();
      throw error;
    }
  }

  async #nextNonce(): Promise<number> {
    const lastNonce = Math.max(this.#lastNonce, (await this.#store?.load()) ?? 0);
    const nonce = Math.max(Math.floor(this.#clock.wallMs()), lastNonce + 1);
    if (!(nonce >= MIN_NONCE && nonce <= MAX_NONCE)) {
      throw new NonceError(nonce, this.#store?.place);
    }
    await this.#store?.save(nonce);
    this.#lastNonce = nonce;
    return nonce;
  }
}
