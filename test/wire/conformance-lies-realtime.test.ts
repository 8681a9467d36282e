import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { WebSocketServer } from 'ws';
import { idsWith, judge, startJudged } from '../support/conformance/conformance.js';

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
