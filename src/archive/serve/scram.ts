import { createHash, createHmac, pbkdf2, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { EndpointError, SQLSTATE } from './errors.js';

/** SCRAM-SHA-256 (RFC 5802, RFC 7677) as Postgres' clients speak it, without channel binding. */

export const MECHANISM = 'SCRAM-SHA-256';
const ITERATIONS = 4096;
const KEY_BYTES = 32;
const NONCE_BYTES = 18;
/** Headers without channel binding: the client has none, or saw that the server has none. */
const NO_BINDING = /^(?:n|y),(?:a=[^,]*)?,/;

const hmac = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest();
const derive = promisify(pbkdf2);

function malformed(): EndpointError {
  return new EndpointError(SQLSTATE.protocol, 'malformed SCRAM message', { isFatal: true });
}

/** Keys by which a password is checked; the password itself is not kept. */
export class Verifier {
  readonly #salt: Buffer;
  readonly #storedKey: Buffer;
  readonly #serverKey: Buffer;

  private constructor(salt: Buffer, saltedPassword: Buffer) {
    this.#salt = salt;
    this.#storedKey = createHash('sha256').update(hmac(saltedPassword, 'Client Key')).digest();
    this.#serverKey = hmac(saltedPassword, 'Server Key');
  }

  /** @param password printable ASCII, as logins are made: no other normal form to take */
  static async of(password: string): Promise<Verifier> {
    const salt = randomBytes(16);
    return new Verifier(salt, await derive(password, salt, ITERATIONS, KEY_BYTES, 'sha256'));
  }

  /** Begins a login. */
  login(): Login {
    return new Login(this.#salt, this.#storedKey, this.#serverKey);
  }
}

/** One login: its two steps, in this order. */
class Login {
  readonly #salt: Buffer;
  readonly #storedKey: Buffer;
  readonly #serverKey: Buffer;
  #header = '';
  #nonce = '';
  #begun = '';

  constructor(salt: Buffer, storedKey: Buffer, serverKey: Buffer) {
    this.#salt = salt;
    this.#storedKey = storedKey;
    this.#serverKey = serverKey;
  }

  /** Takes the client's first message and returns the server's. @throws EndpointError */
  challenge(clientFirst: string): string {
    const [header] = NO_BINDING.exec(clientFirst) ?? [];
    if (header === undefined) throw malformed();
    const bare = clientFirst.slice(header.length);
    const [, nonce] = /^n=[^,]*,r=([!-+\--~]{1,512})$/.exec(bare) ?? [];
    if (nonce === undefined) throw malformed();
    this.#header = header;
    this.#nonce = nonce + randomBytes(NONCE_BYTES).toString('base64');
    const first = `r=${this.#nonce},s=${this.#salt.toString('base64')},i=${ITERATIONS}`;
    this.#begun = `${bare},${first}`;
    return first;
  }

  /** Takes the client's last message. @returns the server's, or undefined if the password is wrong */
  finish(clientFinal: string): string | undefined {
    const [, plain, binding, nonce, proofText] =
      /^(c=([^,]*),r=([^,]*)),p=([A-Za-z0-9+/=]{44})$/.exec(clientFinal) ?? [];
    if (plain === undefined || binding === undefined || proofText === undefined) throw malformed();
    if (Buffer.from(binding, 'base64').toString() !== this.#header || nonce !== this.#nonce) {
      throw malformed();
    }
    const message = `${this.#begun},${plain}`;
    const signature = hmac(this.#storedKey, message);
    const proof = Buffer.from(proofText, 'base64');
    if (proof.length !== signature.length) throw malformed();
    const clientKey = Buffer.from(proof.map((byte, at) => byte ^ (signature[at] ?? 0)));
    const storedKey = createHash('sha256').update(clientKey).digest();
    if (!timingSafeEqual(storedKey, this.#storedKey)) return undefined;
    return `v=${hmac(this.#serverKey, message).toString('base64')}`;
  }
}
