import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTapeExchange } from '../support/exchanges/tape-exchange.js';
import { splitReplies, talkRaw } from '../support/fuzz/fuzz-http.js';

test('pages asked for in one go come in order, each whole and after its 100 Continue', async (t) => {
  const { server } = await startTapeExchange(t);
  const ask = (limit: number, more = '') =>
    Buffer.from(
      `GET /api/v1/public/history?market=BTC_USDT&limit=${limit} HTTP/1.1\r\nHost: here\r\n${more}\r\n`,
    );
  const expecting = 'Expect: 100-continue\r\n';
  const requests = Buffer.concat([ask(1000), ask(500, expecting), ask(2), ask(3, expecting)]);
  const replies = splitReplies(await talkRaw(server.port, [requests]));
  assert.deepEqual(
    replies.map(({ status }) => status),
    [200, 100, 200, 200, 100, 200],
  );
  const pages = replies.filter(({ status }) => status === 200);
  const rows = pages.map(
    ({ body }) => (JSON.parse(body.toString()) as { result: [] }).result.length,
  );
  assert.deepEqual(rows, [1000, 500, 2, 3]);
});
