import assert from 'node:assert/strict';
import { test } from 'node:test';
import { idsWith, judge, judgeOpenly, startJudged } from '../../support/conformance/conformance.js';
import { startRealtimeStub } from '../../support/exchanges/stub-server.js';

test('lies over the WebSocket are found', async (t) => {
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
