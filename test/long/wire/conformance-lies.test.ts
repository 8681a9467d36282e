import assert from 'node:assert/strict';
import test, { suite, type TestContext } from 'node:test';
import { caseLines } from '../../conformance/report.js';
import { CASES } from '../../conformance/suite.js';
import {
  idsWith,
  judge,
  judgeOpenly,
  startJudged,
  startJudgedLive,
} from '../../support/conformance/conformance.js';
import {
  at,
  type Bend,
  listOf,
  type Row,
  startLiar,
} from '../../support/conformance/conformance-liar.js';
import { startRealtimeStub } from '../../support/exchanges/stub-server.js';

/** The conformance suite finds each lie of a server by the cases that look there, and by no others. */

/** Requests that get a lie (method, path and query), how the answer is bent, and the cases that must find it. */
type Lie = readonly [where: RegExp, bend: Bend, ...found: string[]];

const set = Object.assign;
const asTaken: Bend = (told) => {
  const body = { code: 200, success: true, message: '', result: {} };
  set(told, { status: 200, body });
};
/** Bends no refusal. */
const ofSuccess =
  (bend: Bend): Bend =>
  (told) =>
    told.body.success !== false && bend(told);
const ofCandles =
  (fields: object): Bend =>
  ({ rows }) =>
    listOf(rows.kline).map((candle) => set(candle, fields));

const ENVELOPES: Readonly<Record<string, Lie>> = {
  'another default limit': [
    /history\?market=\w+&lastId=0$/,
    ({ rows }) => rows.splice(40),
    'history.limit.default',
  ],
  'a limit of 1 that is not obeyed': [
    /book\?.*limit=1$/,
    ({ rows }) => listOf(rows.orders).push({ ...listOf(rows.orders)[0] }),
    'book.limit.1',
  ],
  'a limit of 0 that is obeyed': [
    /depth\/result\?.*limit=0$/,
    (told) => set(told, { status: 200, body: { asks: [], bids: [] } }),
    'depth.limit.0',
  ],
  'data for an unknown market': [/ticker\?market=NOSUCH/, asTaken, 'ticker.market.unknown'],
  'a failure of the server instead of a refusal': [
    /kline\?.*start=abc/,
    (told) => set(told, { status: 500 }),
    'kline.start.text',
  ],
  'a page where nothing is': [/nosuchpath/, (told) => set(told, { status: 200 }), 'path.unknown'],
  'a code that is not the status': [
    /products/,
    ({ body }) => set(body, { code: 201 }),
    ...['products.reply', 'products.signed'],
  ],
  'no message in the envelope': [
    /tickers/,
    ({ body }) => set(body, { message: null }),
    ...['tickers.reply', 'tickers.signed'],
  ],
  'a product that is missing': [/products/, ({ rows }) => rows.pop(), 'products.markets'],
  'a field that is missing': [
    /GET.*history\?.*limit=1000/,
    ({ rows }) => delete at(rows, 3).type,
    ...['history.fields', 'history.limit.1', 'history.limit.1000', 'history.limit.default'],
    ...['history.order', 'history.reply', 'history.totals', 'trades.views'],
  ],
  // The cases about authentication ask for balances, save those that go through all endpoints.
  'another text where nobody is established': [
    /POST.*balances/,
    asTaken,
    ...CASES.map(({ id }) => id).filter(
      (id) => id.startsWith('auth.') && !/^auth\.required\.(?!balances)/.test(id),
    ),
  ],
};

const BOOKS: Readonly<Record<string, Lie>> = {
  'a name that is not made of its currencies': [
    /markets/,
    ({ rows }) => set(at(rows, 0), { stock: 'XYZ' }),
    ...['markets.names', 'products.markets'],
  ],
  'milliseconds for seconds': [
    /tickers/,
    ({ rows }) =>
      (Object.values(rows) as Row[]).map((entry) => set(entry, { at: Number(entry.at) * 1000 })),
    'tickers.at',
  ],
  'a change of another sign': [
    /ticker\b/,
    ({ rows }) => set(rows, { change: '55' }),
    ...['ticker.change', 'ticker.tickers'],
  ],
  'a price as a number': [
    /GET.*ticker\?market=BTC_USDT/,
    ({ rows }) => set(rows, { last: 1.5 }),
    ...['ticker.change', 'ticker.fields', 'ticker.prices', 'ticker.reply', 'ticker.tickers'],
  ],
  'bids in no order': [
    /GET.*depth.*limit=1000/,
    ({ body: { bids } }) =>
      listOf(bids).splice(3, 2, listOf(bids)[4] as Row, listOf(bids)[3] as Row),
    'depth.bids',
  ],
  'a crossed book': [
    /GET.*depth.*limit=1000/,
    ({ body }) => listOf(body.bids).unshift(['99999999', '1'] as unknown as Row),
    'depth.crossed',
  ],
  'an order of the other side': [
    /GET.*book\?.*side=sell&offset=0&limit=1000/,
    ({ rows }) => set(listOf(rows.orders)[2] as Row, { side: 'buy' }),
    'book.rows.sell',
  ],
  'an offset that is not obeyed': [
    /GET.*book\?.*offset=4/,
    ({ rows }) => listOf(rows.orders).shift(),
    'book.paging',
  ],
};

const TRADES: Readonly<Record<string, Lie>> = {
  'a total that is not price times amount': [
    /history\?.*limit=1000/,
    ({ rows }) => set(at(rows, 5), { total: '1' }),
    ...['history.totals', 'trades.views'],
  ],
  'two trades in the wrong order': [
    /history\/result\?.*limit=1000/,
    ({ rows }) => rows.splice(20, 2, at(rows, 21), at(rows, 20)),
    'historyResult.order',
  ],
  'a trade told twice': [
    /history\?.*limit=1000/,
    ({ rows }) => rows.splice(7, 1, at(rows, 6)),
    'history.order',
  ],
  'a second that is not that of the time': [
    /history\/result\?.*limit=1000/,
    ({ rows }) => rows.map((row) => set(row, { date: Number(row.date) - 1 })),
    ...['kline.sums', 'trades.views'],
  ],
  'a trade that is missing between two pages': [
    /history\/result\?.*limit=10$/,
    ({ rows }) => rows.shift(),
    'historyResult.since.overlap',
  ],
  'since without any meaning': [
    /history\/result\?.*since=1&limit=1$/,
    ({ rows }) => set(at(rows, 0), { tid: 5 }),
    'historyResult.since.meaning',
  ],
  'a candle off the grid': [
    /GET.*kline\?.*interval=60/,
    ({ rows }) => {
      const kline = listOf(rows.kline);
      if (kline.length > 20) set(kline[3] as Row, { time: Number(kline[3]?.time) + 1 });
    },
    'kline.grid',
  ],
  'an end that is not inclusive': [
    /GET.*kline/,
    ({ rows }) => {
      if ('kline' in rows) rows.kline = listOf(rows.kline).filter(({ time }) => time !== rows.end);
    },
    ...['kline.end', 'kline.sums'],
  ],
  'a candle whose volume is not that of its trades': [
    /GET.*kline\?.*interval=60/,
    ofCandles({ volume: '0.5' }),
    'kline.sums',
  ],
  'a highest price below the close': [
    /GET.*kline\?.*interval=60/,
    ofCandles({ highest: '1' }),
    'kline.prices',
  ],
};

const ORDERS: Readonly<Record<string, Lie>> = {
  'an amount that is neither left nor executed': [
    /order\/new/,
    ofSuccess(({ rows }) => set(rows, { left: '0.00001' })),
    ...['orderNew.active', 'orderNew.signed'],
  ],
  'a price as a number': [
    /order\/new/,
    ofSuccess(({ rows }) => set(rows, { price: 31_000 })),
    ...['orderNew.active', 'orderNew.blocked', 'orderNew.freeze', 'orderNew.signed'],
  ],
  'an order of another market': [
    /order\/new/,
    ofSuccess(({ rows }) => set(rows, { market: 'ETH_BTC' })),
    ...['orderNew.active', 'orderNew.blocked', 'orderNew.freeze', 'orderNew.signed'],
  ],
  'an active order that is kept secret': [
    /v1\/orders/,
    ({ rows }) => Array.isArray(rows.result) && set(rows, { result: [] }),
    'orderNew.active',
  ],
  'another default limit': [
    /v1\/orders/,
    ({ rows }) => rows.limit === 50 && set(rows, { limit: 100 }),
    'orders.limit.default',
  ],
  'an active order without its side': [
    /v1\/orders/,
    ({ rows }) => listOf(rows.result).map((row) => delete row.side),
    ...['orderNew.active', 'orders.limit.1', 'orders.limit.default', 'orders.signed'],
    'orders.limit.asText',
  ],
  'money that is not frozen': [
    /balances/,
    ofSuccess(({ rows }) => set(rows, { USDT: { available: '1000', freeze: '0' } })),
    'orderNew.freeze',
  ],
  'a balance without what is frozen': [
    /balances/,
    ofSuccess(({ rows }) => set(rows, { USDT: { available: '1000' } })),
    ...['balances.signed', 'orderNew.active', 'orderNew.blocked', 'orderNew.freeze'],
    ...['orderNew.funds.money', 'orderNew.funds.stock', 'orderNew.signed'],
  ],
  'an order for nothing that is taken': [
    /order\/new/,
    (told) => told.body.success === false && asTaken(told),
    ...['amount', 'market', 'price', 'side'].flatMap((field) =>
      ['missing', 'malformed', 'empty'].map((kind) => `orderNew.${field}.${kind}`),
    ),
    ...['amount', 'price'].flatMap((field) =>
      ['negative', 'text', 'zero'].map((kind) => `orderNew.${field}.${kind}`),
    ),
    ...['amount.least', 'funds.money', 'funds.stock', 'market.unknown', 'side.unknown'].map(
      (rule) => `orderNew.${rule}`,
    ),
    ...['auth.required.orderNew', 'orderNew.blocked', 'orderNew.signed.nothing'],
  ],
};

/** Runs each lie by itself: it is told, only the cases that should find it do, and it is the server's. */
async function tellLies(t: TestContext, lies: Readonly<Record<string, Lie>>): Promise<void> {
  const isLive = lies === ORDERS;
  const { url } = isLive ? await startJudgedLive(t) : (await startJudged(t)).server;
  for (const [name, [where, bend, ...found]] of Object.entries(lies)) {
    await t.test(name, async (t) => {
      const liar = await startLiar(t, url, { where, bend });
      const result = await judge(liar.url, isLive ? { market: 'BTC_USDT' } : {});
      assert.ok(liar.told() > 0, 'the lie was told');
      const failed = result.cases.filter(({ verdict }) => verdict === 'fail');
      const shown = failed.flatMap(caseLines).join('\n');
      assert.deepEqual(idsWith('fail', result), found.sort(), shown);
      for (const { remarks, failed: sides } of failed) {
        assert.ok(remarks.length > 0, shown);
        assert.deepEqual(sides, ['server'], shown);
      }
    });
  }
}

/** Most of their time they wait. */
suite('lies are found by the cases that look there', { concurrency: 6 }, () => {
  test('envelopes, limits, refusals and keys', (t) => tellLies(t, ENVELOPES));
  test('markets, tickers and the book', (t) => tellLies(t, BOOKS));
  test('trades and candles', (t) => tellLies(t, TRADES));
  test('orders and balances', (t) => tellLies(t, ORDERS));

  test('the WebSocket', async (t) => {
    const { server } = await startJudged(t);
    const record = { period: 60, last: '1', open: '1', close: '1', high: '1', low: '1', deal: '1' };
    const { url } = await startRealtimeStub(t, {
      call: ({ send }, { method, id, params }) => {
        if (method === 'state.query') {
          // Without volume and change, and with other params than were sent.
          send({ id, params: [], result: record, error: null });
        } else if (method === 'server.ping') {
          send({ id, params, result: null, error: { code: 4, message: 'method not found' } });
        } else {
          send({ id, params, result: { status: 'done' }, error: null });
          send({ id: null, result: { ...record, volume: '1', change: '1' }, error: null });
        }
      },
    });
    const result = await judge(server.url, { realtimeUrl: url, only: 'realtime.' });
    assert.deepEqual(idsWith('fail', result), [
      'realtime.feed',
      'realtime.list',
      'realtime.method',
      'realtime.query',
      'realtime.query.echo',
      'realtime.query.market',
      'realtime.query.params',
      'realtime.query.periods',
      'realtime.subscribe',
      'realtime.trades.feed',
      'realtime.trades.history',
      'realtime.trades.subscribe',
      'realtime.trades.update',
      'realtime.unsubscribe',
      'realtime.update',
    ]);
    assert.deepEqual(idsWith('differs', result), ['realtime.ping']);
  });

  test('pushed trades', async (t) => {
    const { server } = await startJudged(t);
    const reply = await fetch(`${server.url}/api/v1/public/history?market=BTC_USDT&lastId=0`);
    const { result: history } = (await reply.json()) as { result: Record<string, unknown>[] };
    const [newest, second] = history;
    assert.ok(newest !== undefined && second !== undefined);
    const cases: [reason: RegExp, failed: string[], ...rows: object[][]][] = [
      [/comes after trade/, ['update'], [newest], [second]],
      [/twice in one update/, ['update'], [second, second], [newest]],
      [
        /in history/,
        ['history'],
        [{ ...newest, amount: '77' }],
        [{ ...newest, id: Number(newest.id) + 1 }],
      ],
      [/is no side/, ['feed', 'history', 'update'], [{ ...second, type: 'up' }], [newest]],
    ];
    for (const [reason, failed, first, next] of cases) {
      const { url } = await startRealtimeStub(t, {
        call: ({ send }, { method, id, params }) => {
          if (method !== 'deals.subscribe' || !(params.length > 0)) {
            send({ id, params, result: null, error: { code: 4, message: 'method not found' } });
            return;
          }
          send({ id, params: [], result: { status: 'success' }, error: null });
          for (const rows of [first, next]) {
            send({ id: null, method: 'deals.update', params: ['BTC_USDT', rows] });
          }
        },
      });
      const only = { only: 'realtime.trades.', market: 'BTC_USDT' };
      const result = await judgeOpenly(server.url, { realtimeUrl: url, ...only });
      const ids = failed.map((name) => `realtime.trades.${name}`);
      assert.deepEqual(idsWith('fail', result), ids, String(reason));
      const sides = new Set(result.cases.flatMap((row) => row.failed));
      assert.deepEqual([...sides], ['server'], String(reason));
      assert.match(result.cases.flatMap(({ remarks }) => remarks).join('\n'), reason);
    }
  });
});
