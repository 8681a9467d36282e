import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import test from 'node:test';
import * as errors from '../../src/client/index.js';
import { successEnvelope } from '../../src/contract/error-shapes.js';
import { startHttpStub, startTcpStub } from '../support/exchanges/stub-server.js';
import { makeStubClient } from '../support/exchanges/stub-server-client.js';

/** What answers may cost in memory, and that honest ones are within it. */

const JSON_TYPE = { 'content-type': 'application/json; charset=utf-8' };

test('what is nested deeply is refused', async (t) => {
  const bodyOf = (depth: number) => [
    `${'['.repeat(depth)}${']'.repeat(depth)}`,
    `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`,
  ];
  // More of it is refused before it is parsed, for the number of its values.
  const bodies = [...bodyOf(100_000), ...bodyOf(500_000)];
  const stub = await startHttpStub(t, (_request, response, index) => {
    response.writeHead(200, JSON_TYPE).end(bodies[index % bodies.length]);
  });
  const { client } = makeStubClient(t, stub.baseUrl);
  for (const _ of bodies) {
    await assert.rejects(client.depth({ market: 'BTC_USDT' }), (error) => {
      assert.ok(error instanceof errors.MalformedReplyError);
      assert.match(error.message, /nested deeper than 16 levels|more than 250000 values/);
      return true;
    });
  }
});

test('an answer of too many rows is refused as a whole, not row by row', async (t) => {
  const ones = Array.from({ length: 100_000 }, () => 1);
  const names = Object.fromEntries(ones.map((one, at) => [`k${at}`, one]));
  const stub = await startHttpStub(t, ({ url }, response) => {
    const answer = url.includes('depth')
      ? { asks: ones, bids: [] }
      : url.includes('tickers')
        ? successEnvelope(names)
        : ones;
    response.writeHead(200, JSON_TYPE).end(JSON.stringify(answer));
  });
  const { client } = makeStubClient(t, stub.baseUrl);
  const market = 'BTC_USDT';
  for (const ask of [
    () => client.historyResult({ market, since: 0, limit: 1000 }),
    () => client.depth({ market }),
    () => client.tickers(),
  ]) {
    await assert.rejects(ask(), (error) => {
      assert.ok(error instanceof errors.MalformedReplyError);
      assert.match(error.message, /more than 20000 rows/);
      return true;
    });
  }
});

test('the largest honest answers are read: tickers of 10,000 markets, and the longest pages', async (t) => {
  const digits = '1234567.123456789012345678';
  const figures = Object.fromEntries(
    ['bid', 'ask', 'open', 'high', 'low', 'last', 'vol', 'deal', 'change'].map((name) => [
      name,
      digits,
    ]),
  );
  const names = Array.from({ length: 10_000 }, (_, at) => `MARKET${at}_USDT`);
  const tickers = Object.fromEntries(
    names.map((name) => [name, { at: 1_790_138_674, ticker: { name, ...figures } }]),
  );
  const candle = { open: digits, close: digits, highest: digits, lowest: digits, volume: digits };
  const kline = Array.from({ length: 1440 }, (_, at) => {
    return { time: at * 60, ...candle, amount: digits, market: 'BTC_USDT' };
  });
  const trades = Array.from({ length: 1000 }, (_, at) => {
    return {
      tid: 1e12 - at,
      date: 1_790_138_674,
      price: digits,
      amount: digits,
      total: digits,
      type: 'buy',
    };
  });
  const levels = Array.from({ length: 1000 }, () => [digits, digits]);
  const stub = await startHttpStub(t, ({ url }, response) => {
    const result = { market: 'BTC_USDT', start: 0, end: 86_340, interval: 60, kline };
    const answer = url.includes('tickers')
      ? successEnvelope(tickers)
      : url.includes('kline')
        ? successEnvelope(result)
        : url.includes('history')
          ? trades
          : { asks: levels, bids: levels };
    response.writeHead(200, JSON_TYPE).end(JSON.stringify(answer));
  });
  const { client } = makeStubClient(t, stub.baseUrl);
  const market = 'BTC_USDT';
  const all = await Promise.all([
    client.tickers(),
    client.kline({ market, start: 0, end: 86_340, interval: 60 }),
    client.historyResult({ market, since: 0, limit: 1000 }),
    client.depth({ market, limit: 100 }),
  ]);
  const [{ data: read, bytes }, candles, page, depth] = all;
  assert.equal(Object.keys(read).length, 10_000);
  assert.ok(bytes > 3_000_000, `${bytes} bytes`);
  assert.deepEqual(
    [candles.data.kline.length, page.data.length, depth.data.asks.length],
    [1440, 1000, 1000],
  );
  for (const { rejected } of all) assert.equal(rejected.length, 0);
});

test('bodies that are read at once share a bound, and it is given back', async (t) => {
  const connections = 8;
  const held: ServerResponse[] = [];
  const big = Buffer.alloc(900_000, ' ');
  let isHostile = true;
  const stub = await startHttpStub(t, (_request, response) => {
    response.writeHead(200, JSON_TYPE);
    if (!isHostile) return response.end('{"asks":[],"bids":[]}');
    // Each is within its own limit; together they are not.
    held.push(response);
    return response.write(big);
  });
  const { client } = makeStubClient(t, stub.baseUrl, { maxBodyBytes: 1_000_000, connections });
  const asked = Array.from({ length: connections }, () =>
    client.depth({ market: 'BTC_USDT' }).then(
      () => 'answered',
      (error: Error) => error.message,
    ),
  );
  const first = await Promise.race(asked);
  assert.match(first, /the answers that are read at once are larger than 6097152 bytes/);
  isHostile = false;
  for (const response of held) response.end();
  const outcomes = await Promise.all(asked);
  const refused = outcomes.filter((text) => /at once/.test(text)).length;
  assert.ok(refused >= 1 && refused <= 2, `${refused} were refused`);
  for (let round = 0; round < 3; round += 1) {
    await Promise.all(asked.map(() => client.depth({ market: 'BTC_USDT' })));
  }
});

test('a body that comes byte by byte is read whole', async (t) => {
  const body = '{"asks":[["1","2"]],"bids":[]}';
  const stub = await startTcpStub(t, (socket) => {
    const chunks = [...body].map((letter) => `1\r\n${letter}\r\n`).join('');
    const head = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked';
    socket.write(`${head}\r\n\r\n${chunks}0\r\n\r\n`);
  });
  const { client } = makeStubClient(t, `http://127.0.0.1:${stub.port}`);
  const { data, bytes } = await client.depth({ market: 'BTC_USDT' });
  assert.deepEqual(data, { asks: [['1', '2']], bids: [] });
  assert.equal(bytes, body.length);
});

/** Spellings of JSON numbers, and the decimals that they are. */
const BARE = [
  ['1E-7', '0.0000001'],
  ['1e+2', '100'],
  ['0.0000001', '0.0000001'],
  ['12345678901234567890.123', '12345678901234567890.123'],
  ['61837.63000000', '61837.63000000'],
  ['5', '5'],
] as const;

test('amounts that are bare numbers are read by their digits, never by a float', async (t) => {
  const rows = BARE.map(
    ([price], at) =>
      `{"tid":${at + 1},"date":1700000000,"price":${price},"type":"buy","amount":${price},"total":-0}`,
  );
  const levels = `[${BARE.map(([price]) => `[${price}, ${price}]`).join(',')}]`;
  const stub = await startHttpStub(t, ({ url }, response) => {
    const body = url.includes('depth') ? `{"asks":${levels},"bids":[]}` : `[${rows.join(',')}]`;
    response.writeHead(200, JSON_TYPE).end(body);
  });
  const { client } = makeStubClient(t, stub.baseUrl);
  const market = 'BTC_USDT';
  const { data, rejected } = await client.historyResult({ market, since: 0, limit: 1000 });
  assert.deepEqual(rejected, []);
  assert.deepEqual(
    data.map(({ tid, date, price, amount, total }) => [tid, date, price, amount, total]),
    BARE.map(([, plain], at) => [at + 1, 1_700_000_000, plain, plain, '0']),
  );
  const depth = await client.depth({ market });
  assert.deepEqual(
    depth.data.asks,
    BARE.map(([, plain]) => [plain, plain]),
  );
});
