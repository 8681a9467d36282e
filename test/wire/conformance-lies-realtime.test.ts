import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { WebSocketServer } from 'ws';
import { idsWith, judge, judgeOpenly, startJudged } from '../support/conformance/conformance.js';

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

test('lies about pushed trades are found', async (t) => {
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
    const url = await startRealtimeLiar(t, (send, { method, id, params }) => {
      const isSubscription = method === 'deals.subscribe' && (params as string[]).length > 0;
      if (!isSubscription) {
        send({ id, params, result: null, error: { code: 4, message: 'method not found' } });
        return;
      }
      send({ id, params: [], result: { status: 'success' }, error: null });
      for (const rows of [first, next]) {
        send({ id: null, method: 'deals.update', params: ['BTC_USDT', rows] });
      }
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
