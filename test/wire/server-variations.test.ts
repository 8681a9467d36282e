import assert from 'node:assert/strict';
import test from 'node:test';
import { ExchangeClient } from '../../src/client/index.js';
import type { ServerVariants } from '../../src/contract/variants.js';
import { KNOWN_EXCHANGES, knownExchanges } from '../../src/contract/variants.js';
import { systemClock } from '../../src/kernel/clock.js';
import { startFaultyExchange } from '../support/exchanges/faulty-exchange.js';
import { startTapeExchange } from '../support/exchanges/tape-exchange.js';

/** Each variant as the sandbox shows it on the wire; the default keeps to the contract. */

const M = 'market=BTC_USDT';
type Body = Record<string, unknown>;
type Row = Record<string, unknown>;

interface Case {
  readonly variants: Partial<ServerVariants>;
  readonly path: string;
  /** What of the body is looked at. */
  readonly look: (body: unknown, status: number) => unknown;
  /** By default, and with the variants. */
  readonly expected: readonly [unknown, unknown];
}

const rowsOf = (body: unknown) => (body as { result: Row[] }).result;
const has = (row: unknown, name: string) => Object.hasOwn(row as object, name);

const cases: readonly Case[] = [
  {
    variants: { historyTotal: 'omitted' },
    path: `history?${M}&limit=2`,
    look: (body) => rowsOf(body).map((row) => has(row, 'total')),
    expected: [
      [true, true],
      [false, false],
    ],
  },
  {
    variants: { tickerName: 'omitted' },
    path: `ticker?${M}`,
    look: (body) => has((body as Body).result, 'name'),
    expected: [true, false],
  },
  {
    variants: { tickerName: 'omitted' },
    path: 'tickers',
    look: (body) => {
      const { result } = body as { result: Record<string, { ticker: object }> };
      return Object.values(result).some(({ ticker }) => has(ticker, 'name'));
    },
    expected: [true, false],
  },
  {
    variants: { precisions: 'text' },
    path: 'markets',
    look: (body) => typeof rowsOf(body)[0]?.stockPrec,
    expected: ['number', 'string'],
  },
  {
    variants: { bookFees: 'omitted' },
    path: `book?${M}&side=buy&limit=1`,
    look: (body) => {
      const [order] = (body as { result: { orders: Row[] } }).result.orders;
      return [has(order, 'takerFee'), has(order, 'makerFee'), has(order, 'left')];
    },
    expected: [
      [true, true, true],
      [false, false, true],
    ],
  },
  {
    variants: { envelopes: 'swapped' },
    path: `history/result?${M}&since=0`,
    look: (body) => [Array.isArray(body), (body as Body).success],
    expected: [
      [true, undefined],
      [false, true],
    ],
  },
  {
    variants: { envelopes: 'swapped' },
    path: `history?${M}`,
    look: (body) => Array.isArray(body),
    expected: [false, true],
  },
  ...[`history?${M}&lastId=0`, `history/result?${M}&since=0`].map((path) => ({
    variants: { sinceMin: 1 } as const,
    path,
    look: (body: unknown, status: number) => [status, Object.keys(Object((body as Body).message))],
    expected: [
      [200, []],
      [400, [path.includes('since') ? 'since' : 'lastId']],
    ] as const,
  })),
  {
    variants: { errorShapes: 'ok' },
    path: 'ticker?market=NO_SUCH',
    look: (body, status) => [status, (body as Body).success, typeof (body as Body).message],
    expected: [
      [400, false, 'string'],
      [200, false, 'object'],
    ],
  },
];

for (const { variants, path, look, expected } of cases) {
  test(`${JSON.stringify(variants)} on ${path}`, async (t) => {
    for (const [at, own] of [{}, variants].entries()) {
      const { server } = await startTapeExchange(t, {}, own);
      const response = await fetch(`${server.url}/api/v1/public/${path}`);
      assert.deepEqual(look(await response.json(), response.status), expected[at]);
    }
  });
}

test('whatever the variants, the client reads the same of them as of the contract', async (t) => {
  const every: Partial<ServerVariants> = {
    ...{ historyTotal: 'omitted', tickerName: 'omitted', precisions: 'text', envelopes: 'swapped' },
  };
  const read = async (variants: Partial<ServerVariants>) => {
    const { server } = await startTapeExchange(t, {}, variants);
    const client = new ExchangeClient({ baseUrl: server.url, requestsPerS: 1000, burst: 100 });
    t.after(() => client.close());
    const market = 'BTC_USDT';
    const [startS] = [Math.floor((Date.UTC(2026, 5, 1) + 3_000_000) / 1000)];
    return [
      (await client.markets()).data,
      (await client.tickers()).data,
      (await client.ticker(market)).data,
      (await client.history({ market, limit: 100 })).data,
      (await client.historyResult({ market, since: 0, limit: 100 })).data,
      (await client.depth({ market })).data,
      (await client.kline({ market, start: startS, end: startS + 600 })).data,
    ].map((data) => JSON.parse(JSON.stringify(data)) as unknown);
  };
  assert.deepEqual(await read(every), await read({}));
});

test('a cache that tells its time: the answer is older, and says so', async (t) => {
  const { server } = await startFaultyExchange(t, {
    rules: [{ kind: 'stale', where: 'depth', ms: 3_600_000, oldDate: false, cacheTime: true }],
    clock: systemClock,
  });
  const client = new ExchangeClient({ baseUrl: server.url, requestsPerS: 1000, burst: 100 });
  t.after(() => client.close());
  const replies = [
    await client.depth({ market: 'BTC_USDT' }),
    await client.depth({ market: 'BTC_USDT' }),
  ];
  assert.equal(replies[0]?.cachedAtMs, null);
  assert.equal(typeof replies[1]?.cachedAtMs, 'number');
  assert.ok((replies[1]?.sentAtMs ?? Infinity) <= (replies[1]?.cachedAtMs ?? 0));
});

test('every known exchange is one that the settings and the command line can name', () => {
  assert.deepEqual(knownExchanges, [
    'contract',
    'earnbit',
    'pointpay',
    'coinsbit',
    'c-patex',
    'localtrade',
    'whitebit',
    'p2b',
  ]);
  assert.deepEqual(KNOWN_EXCHANGES.contract, {});
});
