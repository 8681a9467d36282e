import assert from 'node:assert/strict';
import { subscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { startTapeExchange } from '../support/exchanges/tape-exchange.js';
import { startTestStatus } from '../support/status-document.js';

/** Requests without end from few connections: what else the process does goes on, and memory is bounded. */

const HEAD_END = '\r\n\r\n';
const requestOf = (path: string) => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1${HEAD_END}`;

/** Connections that send the same request again and again at once. */
async function flood(t: TestContext, port: number, path: string, sockets: number, each: number) {
  const bytes = Buffer.from(requestOf(path).repeat(each));
  const open: Socket[] = [];
  t.after(() => {
    for (const socket of open) socket.destroy();
  });
  for (let at = 0; at < sockets; at += 1) {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    open.push(socket);
    await once(socket, 'connect');
  }
  for (const socket of open) socket.write(bytes);
  return open;
}

/** A client with a connection of its own, that sends a request when the one before is answered. */
async function ask(t: TestContext, port: number, path: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  t.after(() => socket.destroy());
  socket.write(requestOf(path));
  const [answer] = (await once(socket, 'data')) as [Buffer];
  socket.destroy();
  return answer.toString('latin1').split('\r\n')[0] ?? '';
}

for (const path of ['/readyz', '/status']) {
  test(`health is answered during 60,000 requests to ${path} on 30 connections`, {
    timeout: 60_000,
  }, async (t) => {
    let asked = 0;
    const server = await startTestStatus({ token: 'of-some-length' });
    t.after(() => server.stop());
    const sockets = await flood(t, server.port, path, 30, 2000);
    for (const socket of sockets) {
      socket.on('data', (bytes: Buffer) => {
        asked += bytes.toString('latin1').split('HTTP/1.1 ').length - 1;
      });
    }
    for (let at = 0; at < 10; at += 1) {
      assert.equal(await ask(t, server.port, '/healthz'), 'HTTP/1.1 200 OK');
    }
    t.diagnostic(`${asked} of 60,000 answered until health had been ten times`);
    assert.ok(asked < 10_000, `the flood was served first: ${asked} responses`);
    assert.equal(sockets.filter(({ closed }) => closed).length, 0);
  });
}

test('20,000 pages that nobody reads are made one by one as they are read', {
  timeout: 60_000,
}, async (t) => {
  const { server } = await startTapeExchange(t);
  let begun = 0;
  subscribe('http.server.request.start', () => {
    begun += 1;
  });
  const served = () => begun;
  const before = process.memoryUsage();
  const path = '/api/v1/public/history?market=BTC_USDT&limit=1000';
  const sockets = await flood(t, server.port, path, 20, 1000);
  // Each goes behind all that the flood may have of its turns.
  for (let at = 0; at < 300; at += 1) {
    assert.equal(await ask(t, server.port, '/api/v1/public/products'), 'HTTP/1.1 200 OK');
  }
  const after = process.memoryUsage();
  const grownMb = (after.rss - before.rss) / 1e6;
  t.diagnostic(`${served()} responses, memory grew by ${grownMb.toFixed(0)} MB`);
  assert.ok(served() - 300 < 2_000, `${served()} pages were made and nobody read them`);
  assert.ok(grownMb < 150, `memory grew by ${grownMb} MB`);
  // All that was asked for still comes.
  const [first] = sockets as [Socket];
  let pages = 0;
  let rest = '';
  first.on('data', (bytes: Buffer) => {
    const text = rest + bytes.toString('latin1');
    pages += text.split('HTTP/1.1 200 OK').length - 1;
    rest = text.slice(-14);
  });
  while (pages < 200) await once(first, 'data');
});
