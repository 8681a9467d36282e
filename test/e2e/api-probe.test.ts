import assert from 'node:assert/strict';
import test from 'node:test';
import { type DialectName, dialectNames } from '../../src/contract/dialects.js';
import {
  KNOWN_EXCHANGES,
  type KnownExchange,
  knownExchanges,
  type ServerVariants,
} from '../../src/contract/variants.js';
import { systemClock } from '../../src/kernel/clock.js';
import { blocksOf, readDocument } from '../support/documents/documents.js';
import { sendJson, startHttpStub, startRealtimeStub } from '../support/exchanges/stub-server.js';
import { startTapeExchange } from '../support/exchanges/tape-exchange.js';
import { runCommand } from '../support/programs/commands.js';
import { Program, startSandbox } from '../support/programs/program.js';

/** What is asked of an exchange before it is trusted. */

interface Departing {
  readonly outcome: string;
  readonly detail: string;
  readonly departures: ReadonlyArray<{ readonly what: string; readonly fields: string[] }>;
}

interface Probed {
  readonly fits: DialectName | null;
  readonly findings: ReadonlyArray<
    Departing & { readonly dialect: DialectName; readonly endpoint: string }
  >;
  readonly remarks: ReadonlyArray<{ readonly dialect: DialectName; readonly remark: string }>;
  readonly realtime: {
    readonly isFollowed: boolean;
    readonly findings: ReadonlyArray<Departing & { readonly step: string; readonly sent: string }>;
  } | null;
}

/** Each departure as a line that begins with where it was found. */
const linesOf = <F extends Departing>(findings: readonly F[], nameOf: (finding: F) => string) =>
  findings.flatMap((finding) =>
    finding.departures.map(
      ({ what, fields }) => `${nameOf(finding)}: ${what}: ${fields.join(', ')}`,
    ),
  );

/** In a process of its own, so that several can wait at the same time. */
async function probed(args: readonly string[]): Promise<Probed & { readonly code: number | null }> {
  const program = new Program(['api', 'probe', '--json', ...args]);
  const { code } = await program.ended();
  const out = program.text('stdout');
  assert.notEqual(out, '', program.text('stderr'));
  return { code, ...(JSON.parse(out) as Probed) };
}

for (const dialect of dialectNames) {
  test(`an exchange that is asked as ${dialect}: that is found, and what it does not tell`, async (t) => {
    const { server, record } = await startTapeExchange(t, {}, KNOWN_EXCHANGES[dialect]);
    const { code, out, err } = await runCommand(['api', 'probe', '--url', server.url, '--json']);
    assert.equal(code, 0, out + err);
    const { fits, findings, remarks, realtime } = JSON.parse(out) as Probed;
    assert.equal(fits, dialect);
    assert.equal(realtime, null);
    const lost = findings.filter((one) => one.endpoint === 'markets' && one.outcome === 'failed');
    const ended = remarks.filter(({ remark }) => remark === 'nothing else is asked in it');
    assert.deepEqual(
      ended.map((one) => one.dialect),
      lost.map((one) => one.dialect),
    );
    assert.ok(lost.length > 0);
    const tickers = findings.find((one) => one.dialect === dialect && one.endpoint === 'tickers');
    assert.equal(tickers?.detail.includes('kept as null: open'), dialect !== 'contract');
    assert.ok(findings.some((one) => one.dialect !== dialect && one.outcome === 'failed'));
    const { requests } = record;
    assert.ok(requests.length <= findings.length + dialectNames.length, 'each is asked once');

    const spoken = ['--dialect', dialect];
    const url = ['--url', server.url];
    const candles = [
      'api',
      'kline',
      'BTC_USDT',
      '--start',
      '-10m',
      '--end',
      'now',
      '--interval',
      '60',
    ];
    const asked = await runCommand([...candles, ...url, ...spoken, '--json']);
    assert.equal(asked.code, 0, asked.err);
    assert.match(asked.out, /"highest"/);
    const watched = ['api', 'watch', 'BTC_USDT', '--realtime-url', server.realtimeUrl];
    const seen = await runCommand([...watched, ...spoken, '--for', '1s', '--json']);
    assert.equal(seen.code, 0, seen.err);
    assert.match(seen.out, /"last"/, seen.out);
    if (dialect === 'contract') return;
    const hour = await runCommand([...watched, ...spoken, '--period', '3600']);
    assert.equal(hour.code, 2, hour.err);
    assert.match(hour.err, /^tapekeep: --period 3600: .*--period 86400/m);
  });
}

const NO_TOTAL = 'history: left out: total';
const BIDS = 'depth: in the opposite order, descending is due: bids';
const FEWER_FIGURES = 'tickers: left out: ticker.name, ticker.open';
const ARRAYS = 'kline: an array of arrays where an object is due: result';

/** How each departs from the contract over HTTP, everything. */
const DEPARTURES: Readonly<Record<KnownExchange, readonly string[]>> = {
  contract: [],
  earnbit: [BIDS],
  pointpay: [NO_TOTAL],
  coinsbit: [NO_TOTAL],
  'c-patex': [NO_TOTAL],
  localtrade: [NO_TOTAL],
  whitebit: [
    'markets: text where a number is due: stockPrec, moneyPrec, feePrec',
    FEWER_FIGURES,
    'ticker: left out: name',
    'kline: asked with: interval=1m, limit=1440',
    ARRAYS,
    'history: asked with: lastId=1',
    NO_TOTAL,
  ],
  p2b: [
    'markets: asked at: /api/v2/public/markets',
    'markets: left out: stockPrec, moneyPrec, feePrec, minAmount',
    'markets: not in the contract: precision, limits',
    "markets: once in the contract's form, text where a number is due: stockPrec, moneyPrec, feePrec",
    'tickers: asked at: /api/v2/public/tickers',
    FEWER_FIGURES,
    'ticker: asked at: /api/v2/public/ticker',
    'ticker: left out: name',
    'kline: asked at: /api/v2/public/market/kline',
    'kline: asked with: interval=1m, offset=0, limit=50',
    'kline: asked without: start, end',
    ARRAYS,
    'history: asked at: /api/v2/public/history',
    'history: asked with: lastId=1',
    NO_TOTAL,
    'depth: asked at: /api/v2/public/depth/result',
    'depth: in an envelope, none is due: result',
    'book: asked at: /api/v2/public/book',
    'book: left out: orders.takerFee, orders.makerFee',
  ],
};

const dialectOfKnown = (name: KnownExchange): DialectName => {
  const { dialect = 'contract' }: Partial<ServerVariants> = KNOWN_EXCHANGES[name];
  return dialect;
};

test('each known exchange fits, and all its departures are told', async (t) => {
  const probes = knownExchanges.map(async (name) => {
    const { server } = await startTapeExchange(t, {}, KNOWN_EXCHANGES[name]);
    const dialect = dialectOfKnown(name);
    const { code, fits, findings } = await probed(['--url', server.url, '--dialect', dialect]);
    assert.deepEqual([code, fits], [0, dialect], name);
    const lines = linesOf(findings, ({ endpoint }) => endpoint);
    assert.deepEqual(lines, DEPARTURES[name], name);
    const isRaised = findings.some(({ detail }) => detail.includes('an offset of 1 was sent'));
    assert.equal(isRaised, !['contract', 'earnbit'].includes(name), name);
  });
  await Promise.all(probes);
});

test('the page on adding an exchange shows what is printed', async (t) => {
  const { program, ready } = await startSandbox(['--like', 'whitebit', '--market', 'BTC_USDT']);
  t.after(() => program.dispose());
  const { url, realtimeUrl } = ready;
  // For a trade to come.
  const probe = ['api', 'probe', '--url', url, '--realtime-url', realtimeUrl, '--wait', '2m'];
  const { code, out } = await runCommand(probe);
  assert.equal(code, 0, out);
  const shown = blocksOf(readDocument('docs/adding-an-exchange.md').text, 'text');
  assert.equal(shown.length, 2);
  const printed = new Set(out.split('\n'));
  const lines = shown.flatMap((block) => block.trimEnd().split('\n'));
  const others = lines.filter((line) => !printed.has(line));
  assert.deepEqual(others, [], out);
});

const NAMED = ['beside the record, which alone is due: method', 'not in the contract: change'];
const DAY = '["BTC_USDT",86400]';
const LIST = '["BTC_USDT"]';

/** What is asked of the real-time interface of some, how it is answered, and how that departs. */
const REALTIME: Readonly<
  Partial<Record<KnownExchange, { asked: readonly string[]; departures: readonly string[] }>>
> = {
  contract: {
    asked: [
      'connect ok',
      'ping ok server.ping []',
      `subscribe ok state.subscribe ${DAY}`,
      'update ok',
      `query ok state.query ${DAY}`,
      `trades refused deals.subscribe ${LIST}`,
    ],
    departures: [],
  },
  earnbit: {
    asked: [
      'connect ok',
      'ping ok server.ping []',
      `subscribe refused state.subscribe ${DAY}`,
      `subscribe ok state.subscribe ${LIST}`,
      'update ok',
      `query ok state.query ${DAY}`,
      `trades ok deals.subscribe ${LIST}`,
      'pushed trades ok',
    ],
    departures: NAMED.map((line) => `update: ${line}`),
  },
  whitebit: {
    asked: [
      'connect ok',
      'ping refused server.ping []',
      'ping ok ping []',
      `subscribe refused state.subscribe ${DAY}`,
      `subscribe refused state.subscribe ${LIST}`,
      `subscribe ok market_subscribe ${LIST}`,
      'update ok',
      `query refused state.query ${DAY}`,
      `query ok market_request ${DAY}`,
      `trades ok trades_subscribe ${LIST}`,
      'pushed trades ok',
      'newest trades ok trades_request ["BTC_USDT",10,0]',
    ],
    departures: [
      ...NAMED.map((line) => `update: ${line}`),
      ...['pushed trades', 'newest trades'].map((step) => `${step}: left out: total`),
    ],
  },
  p2b: {
    asked: [
      'connect ok',
      'ping ok server.ping []',
      `subscribe refused state.subscribe ${DAY}`,
      `subscribe ok state.subscribe ${LIST}`,
      'update ok',
      `query ok state.query ${DAY}`,
      'trades not asked',
    ],
    departures: NAMED.map((line) => `update: ${line}`),
  },
};

test('real time is asked in the known ways until one is answered, over one connection', async (t) => {
  const probes = Object.entries(REALTIME).map(async ([name, { asked, departures }]) => {
    const known = name as KnownExchange;
    const { server, record } = await startTapeExchange(
      t,
      { pace: 5 },
      KNOWN_EXCHANGES[known],
      systemClock,
    );
    const { code, realtime } = await probed([
      ...['--url', server.url, '--realtime-url', server.realtimeUrl, '--wait', '60s'],
      ...['--dialect', dialectOfKnown(known)],
    ]);
    assert.deepEqual([code, realtime?.isFollowed], [0, true], name);
    const findings = realtime?.findings ?? [];
    assert.deepEqual(
      findings.map(({ step, outcome, sent }) => `${step} ${outcome} ${sent}`.trim()),
      asked,
      name,
    );
    assert.deepEqual(
      linesOf(findings, ({ step }) => step),
      departures,
      name,
    );
    const code4 = findings.filter(({ detail }) => detail === 'code 4, method not found');
    assert.equal(code4.length, { contract: 1, whitebit: 4 }[name] ?? 0, name);
    assert.ok(record.closings.length + record.open === 1, name);
  });
  await Promise.all(probes);
});

test('a market that is not available is left for the next one, and that is said', async (t) => {
  const exchanges = (['contract', 'earnbit'] as const).map(async (name) => {
    const { backend, server } = await startTapeExchange(t, {}, KNOWN_EXCHANGES[name]);
    const hasMarket = backend.hasMarket.bind(backend);
    backend.hasMarket = (market) => market !== 'BTC_USDT' && hasMarket(market);
    const { code, fits, remarks, findings } = await probed([
      ...['--url', server.url, '--dialect', 'contract'],
    ]);
    assert.deepEqual([code, fits], [0, 'contract'], name);
    const [first, ...others] = remarks.map(({ remark }) => remark);
    assert.match(first ?? '', /^BTC_USDT is not available, \w+ is asked about$/);
    assert.deepEqual(others, []);
    assert.ok(findings.every(({ outcome }) => outcome === 'ok'));
  });
  await Promise.all(exchanges);
});

test('where no market is available, no dialect is judged by that', async (t) => {
  const { backend, server } = await startTapeExchange(t, {}, KNOWN_EXCHANGES.earnbit);
  const names = backend.markets().map(({ name }) => name);
  backend.hasMarket = () => false;
  const asked = ['api', 'probe', '--url', server.url, '--dialect', 'contract'];
  const none = await runCommand(asked);
  assert.equal(none.code, 4);
  const unasked = /^contract +not available: (.+); not asked therefore: kline, .+ book$/m;
  const [, refused = ''] = unasked.exec(none.out) ?? [];
  assert.deepEqual(new Set(refused.split(', ')), new Set(names), none.out);
  assert.match(none.out, /^contract +ticker +market_unavailable: /m);
  assert.match(none.out, /^Which dialect fits cannot be said: no market could be asked about\.$/m);
  assert.match(none.out, /^Real time was not asked: add --realtime-url ADDRESS/m);
});

test('an exchange that lists no market is asked nothing of one, and one line says so', async (t) => {
  const { backend, server } = await startTapeExchange(t);
  backend.markets = () => [];
  const asked = ['api', 'probe', '--url', server.url, '--dialect', 'contract'];
  const realtime = ['--realtime-url', server.realtimeUrl];
  const { code, out } = await runCommand([...asked, ...realtime]);
  assert.equal(code, 4);
  const told = out.split('\n').filter((line) => line.startsWith('contract'));
  assert.deepEqual(told.slice(3), [
    'contract  no market is listed; not asked therefore: ticker, kline, history, historyResult, depth, book',
  ]);
  assert.match(out, /^ping +ok; server.ping \[\]$/m);
  assert.match(out, /^subscribe +not asked: there is no market to ask about$/m);
});

test('a real-time connection that ends is not made anew, and what is left is not asked', async (t) => {
  const { backend, server } = await startTapeExchange(t);
  backend.hasMarket = () => false;
  const stub = await startRealtimeStub(t, {
    call: ({ socket }) => socket.close(4001),
  });
  const asked = ['api', 'probe', 'BTC_USDT', '--url', server.url, '--dialect', 'contract'];
  const ended = await runCommand([...asked, '--realtime-url', stub.url]);
  assert.equal(ended.code, 4);
  assert.match(
    ended.out,
    /^connect +failed: the connection ended: remote, code 4001; the rest was not asked$/m,
  );
  assert.match(ended.out, /^States cannot be followed/m);
  assert.deepEqual([stub.connections, stub.calls.length], [1, 1]);

  const wrong = await runCommand([...asked, '--realtime-url', server.url]);
  assert.deepEqual([wrong.code, wrong.out], [2, ''], wrong.err);
});

test('what neither answers nor updates is silent, and what steers a terminal is shown', async (t) => {
  const row = { stockPrec: 1, moneyPrec: 1, feePrec: 1, minAmount: '1', '\u001b[31m': 1 };
  const market = { name: 'A_B', stock: 'A', money: 'B', ...row };
  const http = await startHttpStub(t, (request, response) => {
    const isList = request.url === '/api/v1/public/markets';
    const result = isList ? [market] : { A_B: { at: 1, ticker: {} } };
    const body = { success: true, message: null, result, cache_time: 1_700_000_000 };
    sendJson(response, body, isList ? 200 : 404);
  });
  const stub = await startRealtimeStub(t, {
    call: ({ send }, { method, id }) => {
      if (method !== 'state.subscribe') return;
      send({ id, result: { status: 'success' }, error: null });
    },
  });
  const asked = ['api', 'probe', '--url', http.baseUrl, '--dialect', 'contract'];
  const { code, out } = await runCommand([...asked, '--realtime-url', stub.url, '--wait', '1s']);
  assert.equal(code, 4);
  assert.ok(out.includes('not in the contract: \\u001b[31m'), out);
  assert.ok(out.includes('null in the envelope where "" is due: message'), out);
  assert.ok(out.includes('not in the contract, in the envelope: cache_time'), out);
  assert.match(out, /^ping +silent; server.ping/m);
  assert.match(out, /^subscribe +ok; state.subscribe \["A_B",86400\]\n +left out: params$/m);
  assert.match(out, /^update +silent$/m);
  assert.match(out, /^query +silent; state.query/m);
  assert.match(out, /^trades +silent; deals.subscribe \["A_B"\]$/m);
  assert.equal(stub.connections, 1);
});

test('where nothing fits, that is said, and the end is that of an exchange that cannot be used', async (t) => {
  const { server } = await startTapeExchange(t, {}, KNOWN_EXCHANGES.p2b);
  const asked = ['api', 'probe', '--url', server.url, '--dialect', 'whitebit'];
  const { code, out } = await runCommand(asked);
  assert.equal(code, 4);
  assert.match(out, /^whitebit +markets +wrong_dialect: .*set the dialect .* to p2b/m);
  assert.match(out, /^No dialect fits/m);
});
