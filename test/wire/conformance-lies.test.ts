import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { WebSocketServer } from 'ws';
import { caseLines } from '../conformance/report.js';
import { idsWith, judge, startJudged } from '../support/conformance.js';
import { startHttpStub } from '../support/stub-server.js';

type Row = Record<string, unknown>;
type Bare = Row & Row[];

/** A body that is bent before it is told on; `rows` is the payload, without its envelope. */
interface Told {
  status: number;
  body: Row;
  rows: Bare;
}

/** One lie: which requests it is told to, how, and the cases that must find it, and no others. */
interface Lie {
  readonly name: string;
  readonly where: RegExp;
  readonly bend: (told: Told) => void;
  readonly found: readonly string[];
}

const at = (rows: Bare, index: number): Row => rows[index] ?? {};

/** The rows of a field; none where the answer has no such field, as a refusal. */
function listOf(field: unknown): Row[] {
  return Array.isArray(field) ? (field as Row[]) : [];
}

const lies: readonly Lie[] = [
  {
    name: 'a total that is not price times amount',
    where: /history\?.*limit=1000/,
    bend: ({ rows }) => {
      at(rows, 5).total = '1';
    },
    found: ['history.totals', 'trades.views'],
  },
  {
    name: 'two trades in the wrong order',
    where: /history\/result\?.*limit=1000/,
    bend: ({ rows }) => {
      rows.splice(20, 2, at(rows, 21), at(rows, 20));
    },
    found: ['historyResult.order'],
  },
  {
    name: 'a trade told twice',
    where: /history\?.*limit=1000/,
    bend: ({ rows }) => {
      rows.splice(7, 1, at(rows, 6));
    },
    found: ['history.order'],
  },
  {
    name: 'a second that is not that of the time',
    where: /history\/result\?.*limit=1000/,
    bend: ({ rows }) => {
      for (const row of rows) row.date = Number(row.date) - 1;
    },
    found: ['kline.sums', 'trades.views'],
  },
  {
    name: 'a trade that is missing between two pages',
    where: /history\/result\?.*limit=10$/,
    bend: ({ rows }) => {
      rows.shift();
    },
    found: ['historyResult.since.overlap'],
  },
  {
    name: 'since without any meaning',
    where: /history\/result\?.*since=1&limit=1$/,
    bend: ({ rows }) => {
      at(rows, 0).tid = 5;
    },
    found: ['historyResult.since.meaning'],
  },
  {
    name: 'another default limit',
    where: /history\?market=\w+&lastId=0$/,
    bend: ({ rows }) => {
      rows.splice(40);
    },
    found: ['history.limit.default'],
  },
  {
    name: 'a limit of 1 that is not obeyed',
    where: /book\?.*limit=1$/,
    bend: ({ rows }) => {
      listOf(rows.orders).push({ ...listOf(rows.orders)[0] });
    },
    found: ['book.limit.1'],
  },
  {
    name: 'a limit of 0 that is obeyed',
    where: /depth\/result\?.*limit=0$/,
    bend: (told) => {
      told.status = 200;
      told.body = { asks: [], bids: [] };
    },
    found: ['depth.limit.0'],
  },
  {
    name: 'data for an unknown market',
    where: /ticker\?market=NOSUCH/,
    bend: (told) => {
      told.status = 200;
      told.body = { code: 200, success: true, message: '', result: {} };
    },
    found: ['ticker.market.unknown'],
  },
  {
    name: 'a failure of the server instead of a refusal',
    where: /kline\?.*start=abc/,
    bend: (told) => {
      told.status = 500;
    },
    found: ['kline.start.text'],
  },
  {
    name: 'a page where nothing is',
    where: /nosuchpath/,
    bend: (told) => {
      told.status = 200;
    },
    found: ['path.unknown'],
  },
  {
    name: 'a code that is not the status',
    where: /products/,
    bend: ({ body }) => {
      body.code = 201;
    },
    found: ['products.reply', 'products.signed'],
  },
  {
    name: 'no message in the envelope',
    where: /tickers/,
    bend: ({ body }) => {
      body.message = null;
    },
    found: ['tickers.reply', 'tickers.signed'],
  },
  {
    name: 'a name that is not made of its currencies',
    where: /markets/,
    bend: ({ rows }) => {
      at(rows, 0).stock = 'XYZ';
    },
    found: ['markets.names', 'products.markets'],
  },
  {
    name: 'a product that is missing',
    where: /products/,
    bend: ({ rows }) => {
      rows.pop();
    },
    found: ['products.markets'],
  },
  {
    name: 'milliseconds for seconds',
    where: /tickers/,
    bend: ({ rows }) => {
      for (const entry of Object.values(rows) as Row[]) entry.at = Number(entry.at) * 1000;
    },
    found: ['tickers.at'],
  },
  {
    name: 'a change of another sign',
    where: /ticker\b/,
    bend: ({ rows }) => {
      rows.change = '55';
    },
    found: ['ticker.change', 'ticker.tickers'],
  },
  {
    name: 'a price as a number',
    where: /GET.*ticker\?market=BTC_USDT/,
    bend: ({ rows }) => {
      rows.last = 1.5;
    },
    found: ['ticker.change', 'ticker.fields', 'ticker.prices', 'ticker.tickers'],
  },
  {
    name: 'a field that is missing',
    where: /GET.*history\?.*limit=1000/,
    bend: ({ rows }) => {
      delete at(rows, 3).type;
    },
    found: [
      ...['history.fields', 'history.limit.1', 'history.limit.1000', 'history.limit.default'],
      ...['history.order', 'history.totals', 'trades.views'],
    ],
  },
  {
    name: 'a candle off the grid',
    where: /GET.*kline\?.*interval=60/,
    bend: ({ rows }) => {
      const kline = listOf(rows.kline);
      if (kline.length > 20) (kline[3] as Row).time = Number(kline[3]?.time) + 1;
    },
    found: ['kline.grid'],
  },
  {
    name: 'an end that is not inclusive',
    where: /GET.*kline/,
    bend: ({ rows }) => {
      if ('kline' in rows) rows.kline = listOf(rows.kline).filter(({ time }) => time !== rows.end);
    },
    found: ['kline.end', 'kline.sums'],
  },
  {
    name: 'a candle whose volume is not that of its trades',
    where: /GET.*kline\?.*interval=60/,
    bend: ({ rows }) => {
      for (const candle of listOf(rows.kline)) candle.volume = '0.5';
    },
    found: ['kline.sums'],
  },
  {
    name: 'a highest price below the close',
    where: /GET.*kline\?.*interval=60/,
    bend: ({ rows }) => {
      for (const candle of listOf(rows.kline)) candle.highest = '1';
    },
    found: ['kline.prices'],
  },
  {
    name: 'bids in no order',
    where: /GET.*depth.*limit=1000/,
    bend: ({ body }) => {
      listOf(body.bids).splice(3, 2, listOf(body.bids)[4] as Row, listOf(body.bids)[3] as Row);
    },
    found: ['depth.bids'],
  },
  {
    name: 'a crossed book',
    where: /GET.*depth.*limit=1000/,
    bend: ({ body }) => {
      listOf(body.bids).unshift(['99999999', '1'] as unknown as Row);
    },
    found: ['depth.crossed'],
  },
  {
    name: 'an order of the other side',
    where: /GET.*book\?.*side=sell&offset=0&limit=1000/,
    bend: ({ rows }) => {
      (listOf(rows.orders)[2] as Row).side = 'buy';
    },
    found: ['book.rows.sell'],
  },
  {
    name: 'an offset that is not obeyed',
    where: /GET.*book\?.*offset=4/,
    bend: ({ rows }) => {
      listOf(rows.orders).shift();
    },
    found: ['book.paging'],
  },
  {
    name: 'another text where nobody is established',
    where: /POST.*balances/,
    bend: (told) => {
      told.status = 200;
      told.body = { code: 200, success: true, message: '', result: {} };
    },
    found: [
      ...['auth.nonce', 'auth.path', 'auth.signature'],
      ...['auth.x-txc-apikey', 'auth.x-txc-payload', 'auth.x-txc-signature'],
    ],
  },
];

/** A server that passes on what another one says, and bends it here and there. */
async function startLiar(t: TestContext, truth: string, { where, bend }: Lie) {
  let told = 0;
  const stub = await startHttpStub(t, (request, response) => {
    void (async () => {
      const {
        host: _host,
        connection: _link,
        'content-length': _size,
        ...headers
      } = request.headers;
      const answer = await fetch(truth + request.url, {
        method: request.method,
        headers: headers as Record<string, string>,
        ...(request.method === 'POST' ? { body: request.body } : {}),
      });
      const text = await answer.text();
      const type = answer.headers.get('content-type') ?? '';
      const reply: Told = { status: answer.status, body: {}, rows: [] as unknown as Bare };
      let sent = text;
      if (type.startsWith('application/json') && where.test(`${request.method} ${request.url}`)) {
        reply.body = JSON.parse(text) as Row;
        reply.rows = (reply.body.result ?? reply.body) as Bare;
        bend(reply);
        sent = JSON.stringify(reply.body);
        told += 1;
      }
      const date = answer.headers.get('date') ?? '';
      response.writeHead(reply.status, { 'content-type': type, date });
      response.end(sent);
    })();
  });
  return { url: stub.baseUrl, told: () => told };
}

test('each lie is found by the cases that look there, and by no others', async (t) => {
  const { server } = await startJudged(t);
  for (const lie of lies) {
    await t.test(lie.name, async (t) => {
      const liar = await startLiar(t, server.url, lie);
      const result = await judge(liar.url);
      assert.ok(liar.told() > 0, 'the lie was told');
      const failed = result.cases.filter(({ verdict }) => verdict === 'fail');
      const told = failed.flatMap(caseLines).join('\n');
      assert.deepEqual(idsWith('fail', result), [...lie.found].sort(), told);
      assert.ok(failed.every(({ remarks }) => remarks.length > 0));
    });
  }
});

interface Call {
  readonly method: string;
  readonly params: unknown;
  readonly id: number;
}

/** A WebSocket server that answers calls as a test likes, and ignores what is not JSON. */
async function startRealtimeLiar(
  t: TestContext,
  answer: (send: (frame: object) => void, call: Call) => void,
): Promise<string> {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  await once(server, 'listening');
  server.on('connection', (socket) => {
    socket.on('error', () => {});
    socket.on('message', (data) => {
      const text = String(data);
      if (!text.endsWith('}')) return;
      answer((frame) => socket.send(JSON.stringify(frame)), JSON.parse(text) as Call);
    });
  });
  t.after(() => {
    for (const client of server.clients) client.terminate();
    server.close();
  });
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('lies over the WebSocket are found', async (t) => {
  const { server } = await startJudged(t);
  const record = { period: 60, last: '1', open: '1', close: '1', high: '1', low: '1', deal: '1' };
  const url = await startRealtimeLiar(t, (send, { method, id, params }) => {
    if (method === 'state.query') {
      // Without volume and change, and with other params than were sent.
      send({ id, params: [], result: record, error: null });
    } else if (method === 'server.ping') {
      send({ id, params, result: null, error: { code: 4, message: 'method not found' } });
    } else {
      send({ id, params, result: { status: 'done' }, error: null });
      send({ id: null, result: { ...record, volume: '1', change: '1' }, error: null });
    }
  });
  const result = await judge(server.url, { realtimeUrl: url, only: 'realtime.' });
  assert.deepEqual(idsWith('fail', result), [
    'realtime.method',
    'realtime.query',
    'realtime.query.echo',
    'realtime.query.market',
    'realtime.query.params',
    'realtime.query.periods',
    'realtime.subscribe',
    'realtime.unsubscribe',
    'realtime.update',
  ]);
  assert.deepEqual(idsWith('differs', result), ['realtime.ping']);
});
