import assert from 'node:assert/strict';
import test from 'node:test';
import { z } from 'zod';
import {
  createExchangeClient,
  createExchangeClock,
  ExchangeError,
} from '../../src/client/index.js';
import { type EndpointName, endpoints } from '../../src/contract/endpoints.js';
import { bookHeader } from '../../src/contract/resources.js';
import {
  bookOrderWithoutFees,
  marketOfAnyPrecision,
  tickerEntryOfFewer,
  tickerOfFewer,
} from '../../src/contract/tolerance.js';
import { RequestBudget } from '../../src/kernel/budget.js';
import { systemClock as clock, startDeadline } from '../../src/kernel/clock.js';
import type { Random } from '../../src/kernel/random.js';
import { startTcpStub } from '../support/exchanges/stub-server.js';
import { startTapeExchange } from '../support/exchanges/tape-exchange.js';
import { mutateBytes, mutateValue, pick, startFuzzing } from '../support/fuzz/fuzz.js';
import { noTelemetry } from '../support/no-telemetry.js';

const CASES = 400;
/** The client's own deadline, and how long after it a call counts as hanging. */
const TIMEOUT_MS = 300;
const HANG_MS = 10_000;

const market = 'BTC_USDT';
const questions = {
  markets: {},
  products: {},
  tickers: {},
  ticker: { market },
  kline: { market, start: 1_780_272_000, end: 1_780_273_000 },
  history: { market, limit: 5 },
  historyResult: { market, since: 0, limit: 5 },
  depth: { market, limit: 5 },
  book: { market, side: 'buy', limit: 3 },
} as const satisfies Partial<Record<EndpointName, object>>;
type Question = keyof typeof questions;
const names = Object.keys(questions) as Question[];

const HEADERS = [
  ...['Content-Type: text/html', 'Content-Type: application/json', 'Content-Type: \xff'],
  ...[
    'Content-Length: 3',
    'Content-Length: -1',
    'Content-Length: 99999999999',
    'Content-Length: x',
  ],
  ...['Transfer-Encoding: chunked', 'Content-Encoding: gzip', 'Content-Encoding: identity'],
  ...[
    'Date: yesterday',
    'Date: Thu, 01 Jan 1970 00:00:00 GMT',
    'Retry-After: 1e9',
    'Retry-After: -5',
  ],
  ...['X-Ratelimit-Remaining: 0\r\nX-Ratelimit-Reset: 60', 'Location: http://127.0.0.1:1/'],
  ...['Connection: upgrade\r\nUpgrade: websocket', 'Trailer: a', `X-Long: ${'x'.repeat(20_000)}`],
  ...['x-tapekeep-exchange: \x01', `x-tapekeep-exchange: ${'i'.repeat(300)}`, ': no name', 'bare'],
];
const STATUSES = [100, 101, 103, 200, 204, 206, 301, 304, 400, 401, 404, 429, 500, 503, 999];

interface Reply {
  readonly status: number;
  readonly headers: readonly string[];
  readonly body: Buffer;
}

function bytesOf({ status, headers, body }: Reply): Buffer {
  const head = [`HTTP/1.1 ${status} Some Text`, ...headers, '', ''].join('\r\n');
  return Buffer.concat([Buffer.from(head, 'latin1'), body]);
}

/** A reply with something wrong in its JSON, its head or its bytes, or in none of them. */
function spoil(random: Random, text: string): Buffer {
  const what = random();
  let body: Buffer = Buffer.from(text);
  if (what < 0.4) body = Buffer.from(JSON.stringify(mutateValue(random, JSON.parse(text))));
  else if (what < 0.6) body = mutateBytes(random, body);
  const headers = ['Content-Type: application/json', `Content-Length: ${body.length}`];
  const status = random() < 0.15 ? pick(random, STATUSES) : 200;
  if (what > 0.6 && what < 0.8) {
    if (random() < 0.5) headers.splice(Math.floor(random() * 2), 1);
    headers.push(pick(random, HEADERS));
  }
  const bytes = bytesOf({ status, headers, body });
  return what > 0.8 ? mutateBytes(random, bytes) : bytes;
}

/** Where the client reads more than the contract has, what it gives is of this form. */
const TOLERATED: Readonly<Partial<Record<Question, z.ZodType>>> = {
  markets: z.array(marketOfAnyPrecision),
  book: bookHeader.extend({ orders: z.array(bookOrderWithoutFees) }),
  ticker: tickerOfFewer,
  tickers: z.record(z.string(), tickerEntryOfFewer),
};

test('whatever comes back, a call ends with rows that fit or with a typed error', async (t) => {
  const { random, count } = startFuzzing(t, CASES);
  const { server } = await startTapeExchange(t);
  const open = (baseUrl: string) =>
    createExchangeClient({
      ...{ baseUrl, clock, random, telemetry: noTelemetry.client, timeoutMs: TIMEOUT_MS },
      budget: new RequestBudget({ clock, ratePerS: 1e6, burst: 1e6, maxWaiting: 10 }),
      exchangeClock: createExchangeClock({ clock }),
      maxBodyBytes: 1024 * 1024,
    });
  const texts = new Map<Question, string>();
  for (const name of names) {
    const query = new URLSearchParams();
    for (const [field, value] of Object.entries(questions[name])) query.set(field, String(value));
    const reply = await fetch(`${server.url}${endpoints[name].path}?${query.toString()}`);
    assert.equal(reply.status, 200, name);
    texts.set(name, await reply.text());
  }
  let bytes: Buffer = Buffer.alloc(0);
  const stub = await startTcpStub(t, (socket) => {
    // Now and then the rest never comes.
    if (random() < 0.02) socket.write(bytes.subarray(0, bytes.length >>> 1));
    else socket.end(bytes);
  });
  const outcomes: Record<string, number> = {};
  for (let index = 0; index < count; index += 1) {
    const name = pick(random, names);
    bytes = spoil(random, texts.get(name) ?? '');
    const client = open(`http://127.0.0.1:${stub.port}`);
    const hang = startDeadline(clock, HANG_MS, () => new Error(`${name} hangs`));
    const hanging = new Promise<never>((_resolve, reject) => {
      hang.signal.addEventListener('abort', () => reject(hang.signal.reason as Error));
    });
    const told = () => `${name} on ${bytes.subarray(0, 400).toString('latin1')}`;
    let outcome = 'ok';
    try {
      const reply = await Promise.race([client.call(name, questions[name]), hanging]);
      const schema = TOLERATED[name] ?? (endpoints[name].result.schema as z.ZodType);
      assert.ok(schema.safeParse(reply.data).success, `rows that do not fit: ${told()}`);
      if (reply.rejected.length > 0) outcome = 'rejected rows';
    } catch (error) {
      assert.ok(error instanceof ExchangeError, `${String(error)} from ${told()}`);
      assert.ok(error.message.length < 1500, told());
      outcome = error.code;
    }
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    hang.clear();
    await client.close();
    for (const socket of stub.sockets.splice(0)) socket.destroy();
  }
  t.diagnostic(JSON.stringify(outcomes));
  assert.ok((outcomes.ok ?? 0) > 0 && (outcomes.malformed_reply ?? 0) > 0, 'both ends were seen');
});
