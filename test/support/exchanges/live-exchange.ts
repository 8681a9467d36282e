import type { TestContext } from 'node:test';
import { AUTH_HEADERS, encodePayload, sign } from '../../../src/contract/signing.js';
import type { ServerVariants } from '../../../src/contract/variants.js';
import type { LiveBackend } from '../../../src/sandbox/live/live-backend.js';
import type { LiveOptions } from '../../../src/sandbox/live/open-live.js';
import { openLive } from '../../../src/sandbox/live/open-live.js';
import type { MarketDescription } from '../../../src/sandbox/markets.js';
import { FakeClock } from '../fake-clock.js';
import { type Served, serve } from './served.js';

/** A time in the middle of a session. */
export const LIVE_START_MS = Date.UTC(2026, 5, 1, 12, 20);

/** A market without trades for years, but those of a test. */
export const STILL_MARKET: MarketDescription = {
  name: 'AAA_ZZZ',
  stockPrec: 4,
  moneyPrec: 2,
  minAmount: '0.5',
  basePrice: '100',
  usualAmount: '10',
  activity: 1e-9,
};

/** Opens a live exchange that ends with the test. */
export async function openTestLive(
  t: TestContext,
  options: LiveOptions = {},
  clock: FakeClock = new FakeClock(),
): Promise<LiveBackend> {
  const backend = await openLive({ startMs: LIVE_START_MS, ...options }, clock);
  t.after(() => backend.stop());
  return backend;
}

export interface LiveServer extends Served<LiveBackend> {
  readonly clock: FakeClock;
}

/** A live exchange on a free port. */
export async function startTestLive(
  t: TestContext,
  options: LiveOptions = {},
  variants: Partial<ServerVariants> = {},
  control = false,
): Promise<LiveServer> {
  const clock = new FakeClock();
  const backend = await openTestLive(t, options, clock);
  return { ...(await serve(t, backend, clock, { variants, control })), clock };
}

export interface SignedReply {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

/** Headers of a signed request whose body is `text` (contract, Authentication). */
export function signedHeaders(key: string, secret: string, text: string): Record<string, string> {
  return {
    'content-type': 'application/json',
    [AUTH_HEADERS.apiKey]: key,
    [AUTH_HEADERS.payload]: encodePayload(text),
    [AUTH_HEADERS.signature]: sign(secret, text),
  };
}

/** Sends signed requests for one key, each with a greater nonce. */
export class Trader {
  readonly #url: string;
  readonly #key: string;
  readonly #secret: string;
  #nonce: number;

  /** @param nonce the next one is greater; by default those of any clock of these years */
  constructor(url: string, key: string, secret: string, nonce = 1_800_000_000_000) {
    this.#url = url;
    this.#key = key;
    this.#secret = secret;
    this.#nonce = nonce;
  }

  async post(path: string, fields: object = {}): Promise<SignedReply> {
    this.#nonce += 1;
    const text = JSON.stringify({ request: path, nonce: this.#nonce, ...fields });
    const response = await fetch(this.#url + path, {
      method: 'POST',
      body: text,
      headers: signedHeaders(this.#key, this.#secret, text),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  }

  /** Result of an order; fails with the reply when it was refused. */
  async order(market: string, side: string, price: string, amount: string) {
    const reply = await this.post('/api/v1/order/new', { market, side, price, amount });
    if (reply.status !== 200) throw new Error(JSON.stringify(reply));
    return reply.body.result as Record<string, string | number>;
  }

  async balances(): Promise<Record<string, { available: string; freeze: string }>> {
    const reply = await this.post('/api/v1/account/balances');
    return reply.body.result as Record<string, { available: string; freeze: string }>;
  }

  async orders(market: string) {
    const reply = await this.post('/api/v1/orders', { market });
    return reply.body.result as { total: number; result: Array<Record<string, string | number>> };
  }
}
