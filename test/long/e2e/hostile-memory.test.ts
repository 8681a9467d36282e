import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import test, { type TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import { WebSocketServer } from 'ws';
import { successEnvelope } from '../../../src/contract/error-shapes.js';
import { makeDatabase } from '../../support/postgres/postgres.js';
import { Program } from '../../support/programs/program.js';

/**
 * A daemon whose exchange answers with all that makes a reader run out of memory: it lives in a
 * container of 512 MB, its own Postgres apart. What counts is the most that it ever held.
 */

const PEAK_MAX_MB = 320;
/** How often each mood must have been served; each fills its body limit at least so often. */
const ROUNDS = 2;
const MB = 1024 * 1024;
const JSON_TYPE = { 'content-type': 'application/json' };

/** Writes `piece` again and again until `most` bytes have left, or the reader has had enough. */
function pour(response: ServerResponse, piece: Buffer | string, most: number): Promise<void> {
  return new Promise((resolve) => {
    let left = most;
    const { socket } = response;
    const go = () => {
      while (left > 0) {
        if (socket === null || socket.destroyed) return resolve();
        left -= piece.length;
        if (!socket.write(piece)) {
          socket.once('drain', go);
          return;
        }
      }
      socket?.destroy();
      resolve();
    };
    socket?.once('close', () => resolve());
    go();
  });
}

const sized = (response: ServerResponse, body: Buffer | string, headers = {}) =>
  new Promise<void>((resolve) => {
    response.once('close', () => resolve());
    response.writeHead(200, { ...JSON_TYPE, ...headers }).end(body);
  });
const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n';
const letters = (count: number, letter: string) => Buffer.alloc(count, letter);
const LEVELS = 1_000_000;
const deepObject = `${'{"a":'.repeat(LEVELS)}1${'}'.repeat(LEVELS)}`;
const nearLimit = 4 * MB - 1000;
const wide = (piece: string) => `[${piece.repeat(Math.floor(nearLimit / piece.length))}1]`;

const MOODS: Readonly<Record<string, (response: ServerResponse) => Promise<void>>> = {
  'deep arrays, 14 MB': (response) => sized(response, letters(14 * MB, '[')),
  'deep arrays, just within the limit': (response) => sized(response, letters(nearLimit, '[')),
  'deep arrays, 200 kB': (response) => sized(response, letters(200_000, '[')),
  'deep objects, a million levels': (response) => sized(response, deepObject),
  'deep objects, just within the limit': (response) =>
    sized(response, '{"a":'.repeat(Math.floor(nearLimit / 5))),
  'a million empty objects': (response) => sized(response, wide('{},')),
  'two million numbers': (response) => sized(response, wide('1,')),
  'half a million names': (response) => {
    const names = Array.from({ length: 300_000 }, (_, at) => `"k${at}":1`);
    return sized(response, `{${names.join(',')}}`);
  },
  'numbers of 60,000 digits': (response) => {
    const digits = '9'.repeat(60_000);
    const levels = Array.from({ length: 30 }, () => [digits, digits]);
    return sized(response, JSON.stringify({ asks: levels, bids: levels }));
  },
  'a gzip bomb': (response) => sized(response, BOMB, { 'content-encoding': 'gzip' }),
  'a body of 1 GB': (response) => {
    response.socket?.write(`${HEAD}content-length: ${1024 * MB}\r\n\r\n`);
    return pour(response, letters(MB, ' '), 1024 * MB);
  },
  'a body of single bytes': (response) => {
    response.socket?.write(`${HEAD}transfer-encoding: chunked\r\n\r\n`);
    return pour(response, '1\r\n \r\n'.repeat(10_000), 12 * MB);
  },
  'a head of 100 MB': (response) => {
    response.socket?.write(HEAD);
    return pour(response, `x-filler: ${'y'.repeat(8000)}\r\n`, 100 * MB);
  },
  'interim answers without end': (response) =>
    pour(response, 'HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n'.repeat(1000), 20 * MB),
};
const BOMB = gzipSync(Buffer.alloc(200 * MB));

const market = (name: string) => ({
  ...{
    name,
    stock: 'BTC',
    money: 'USDT',
    stockPrec: 8,
    moneyPrec: 2,
    feePrec: 4,
    minAmount: '0.1',
  },
});

interface HostileExchange {
  readonly url: string;
  readonly realtimeUrl: string;
  readonly served: Map<string, number>;
  frames: number;
}

/** Lists its markets honestly, so that everything else is asked for, and is hostile in turn. */
async function startHostile(t: TestContext): Promise<HostileExchange> {
  const served = new Map(Object.keys(MOODS).map((name) => [name, 0]));
  const moods = Object.entries(MOODS);
  let next = 0;
  const server = createServer((request, response) => {
    response.on('error', () => undefined);
    if (request.url?.includes('/markets') === true) {
      const listed = ['AAA_USDT', 'BTC_USDT', 'CCC_USDT', 'DDD_USDT'].map(market);
      response.writeHead(200, JSON_TYPE).end(JSON.stringify(successEnvelope(listed)));
      return;
    }
    const [name, answer] = moods[next % moods.length] ?? assert.fail();
    next += 1;
    void answer(response).then(() => served.set(name, (served.get(name) ?? 0) + 1));
  });
  const exchange = { url: '', realtimeUrl: '', served, frames: 0 };
  const sockets = new WebSocketServer({ server, path: '/ws', perMessageDeflate: false });
  sockets.on('connection', (socket) => {
    exchange.frames += 1;
    socket.on('error', () => undefined);
    if (exchange.frames % 2 === 0) return socket.send(letters(30 * MB, ' '));
    // Fragments without end, until the reader has had enough.
    const fragment = () => {
      if (socket.readyState !== socket.OPEN) return;
      for (let count = 0; count < 100; count += 1) socket.send('[', { fin: false });
      socket.send('[', { fin: false }, fragment);
    };
    return fragment();
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  t.after(() => {
    for (const client of sockets.clients) client.terminate();
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return Object.assign(exchange, {
    url: `http://127.0.0.1:${port}`,
    realtimeUrl: `ws://127.0.0.1:${port}/ws`,
  });
}

/** The most that a process ever held in memory, MB, as the kernel counted it. */
function peakMb(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? Number.NaN) / 1024;
}

const EVERY_SECOND = '* * * * * *';

test('no answer of an exchange makes the daemon hold more than a container has', {
  skip: process.platform !== 'linux' && 'peak memory is read from /proc',
}, async (t) => {
  const exchange = await startHostile(t);
  const daemon = new Program(['--log-level', 'warn', '--log-format', 'json', 'start'], {
    env: {
      TAPEKEEP_EXCHANGE_URL: exchange.url,
      TAPEKEEP_REALTIME_URL: exchange.realtimeUrl,
      TAPEKEEP_DATABASE_URL: await makeDatabase(),
      TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '50',
      TAPEKEEP_HTTP_PORT: '0',
      TAPEKEEP_STREAMS_TRADES_SCHEDULE: EVERY_SECOND,
      TAPEKEEP_STREAMS_DEPTH_SCHEDULE: EVERY_SECOND,
      TAPEKEEP_STREAMS_TICKERS_SCHEDULE: EVERY_SECOND,
      TAPEKEEP_STREAMS_CANDLES_SCHEDULE: EVERY_SECOND,
    },
  });
  t.after(() => daemon.dispose());
  await daemon.until(async () => [...exchange.served.values()].every((count) => count >= ROUNDS));
  assert.ok(exchange.frames >= 4, `${exchange.frames} connections were flooded`);
  const peak = peakMb(daemon.pid);
  t.diagnostic(`peak ${Math.round(peak)} MB`);
  assert.ok(peak < PEAK_MAX_MB, `the daemon held ${Math.round(peak)} MB`);
  assert.equal((await fetch(`${await daemon.page()}/healthz`)).status, 200);
});
