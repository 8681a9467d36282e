import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { WebSocket } from 'ws';
import { runSql } from '../../support/postgres/postgres.js';
import { COUNT_ROWS } from '../../support/postgres/postgres-rows.js';
import { startReplayServer } from '../../support/programs/replay-server-process.js';
import {
  control,
  covered,
  noonMs,
  openWorld,
  state,
} from '../../support/worlds/replayed-archive.js';

/** A thousand clients of one replay, some of whom stop reading. */

/** In the time that all share: who stop reading, who follow a quiet market, who ask by HTTP. */
const [STUCK, FOLLOWERS, LONERS, ASKERS] = [10, 480, 100, 400];
/** Those who do not read while time does not wait for them. */
const STUCK_IN_TIME = 8;
/** Each of the busy market's updates is some 700 bytes long: all of them are 40 MB. */
const BUSY = 60_000;
const QUIET = 100;
const OPENED_AT_ONCE = 60;
/** What a thousand clients and their sessions may cost, far less than the updates of one who is stuck. */
const MEMORY_MAX_MB = 260;

class Follower {
  readonly socket: WebSocket;
  updates = 0;
  /** Whether each came after the one before it. */
  isInOrder = true;
  isClosed = false;
  #wake: () => void = () => undefined;

  constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (data: Buffer) => this.#read(String(data)));
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.isClosed = true;
      this.#wake();
    });
  }

  #read(text: string): void {
    if (!text.endsWith('"id":null}')) {
      this.#wake();
      return;
    }
    const [, close] = /"close":"(\d+)"/.exec(text) ?? [];
    this.updates += 1;
    if (Number(close) !== this.updates) this.isInOrder = false;
    this.#wake();
  }

  async until(isTrue: () => boolean): Promise<void> {
    while (!isTrue()) {
      assert.ok(!this.isClosed, `closed after ${this.updates} updates`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

/** Opens connections, each with its subscription acknowledged. */
async function followAll(
  t: TestContext,
  url: (at: number) => string,
  market: string,
  count: number,
): Promise<Follower[]> {
  const all: Follower[] = [];
  const open = async (at: number) => {
    const socket = new WebSocket(url(at), { perMessageDeflate: false });
    t.after(() => socket.terminate());
    const follower = new Follower(socket);
    await once(socket, 'open');
    const acknowledged = once(socket, 'message');
    socket.send(JSON.stringify({ method: 'state.subscribe', params: [market, 60], id: 1 }));
    await acknowledged;
    return follower;
  };
  while (all.length < count) {
    const some = Array.from(
      { length: Math.min(OPENED_AT_ONCE, count - all.length) },
      (_, at) => at,
    );
    all.push(...(await Promise.all(some.map((at) => open(all.length + at)))));
  }
  return all;
}

test('a thousand clients are served, those who read as if those who do not were not there', async (t) => {
  const { store, url, stream } = await openWorld();
  const [busy, quiet] = [await stream('states', 60), await stream('states', 60, 2)];
  const trades = await stream('trades');
  await store.commit({
    states: Array.from({ length: QUIET }, (_, at) =>
      state(1, 1 + (598 * at) / QUIET, { marketId: 2, close: String(at + 1) }),
    ),
    claims: [busy, quiet, trades].map((one) => covered(one, 0, 600)),
  });
  await runSql(
    url,
    `INSERT INTO market_state (market_id, period_s, observed_at, seq, received_at, origin, session_id,
       close, last, open, high, low, quote_volume, volume)
     SELECT 1, 60, at, n, at, 'update', 1, n, wide, wide, wide, wide, wide, wide
     FROM (SELECT n, to_timestamp($1) + n * (interval '598 s' / $2) AS at,
                  repeat('7', 90)::numeric AS wide
           FROM generate_series(1, $2::int) n) made`,
    [noonMs(0) / 1000, BUSY],
  );
  await runSql(url, COUNT_ROWS);
  const span = { fromMs: noonMs(0), toMs: noonMs(600) };
  const server = await startReplayServer({ kind: 'replay', databaseUrl: url, ...span });
  t.after(() => server.stop());
  const { url: http, realtimeUrl, maxRssMb: emptyMb } = server.report;
  const steer = async (path: string, body?: object, session?: string) => {
    const { status, result } = await control({ server: { url: http } }, path, body, session);
    assert.equal(status, 200, path);
    return result as never;
  };
  await steer('pause', {});
  await steer('sessions', {}, 'paced');
  await steer('speed', { speed: 150 }, 'paced');
  await steer('pause', {}, 'paced');
  const shared = () => realtimeUrl;
  const stuck = await followAll(t, shared, 'BTC_USDT', STUCK);
  const late = await followAll(t, () => `${realtimeUrl}?session=paced`, 'BTC_USDT', STUCK_IN_TIME);
  for (const { socket } of [...stuck, ...late]) socket.pause();
  const [reader] = await followAll(t, shared, 'BTC_USDT', 1);
  const [paced] = await followAll(t, () => `${realtimeUrl}?session=paced`, 'ETH_USDT', 1);
  const followers = await followAll(t, shared, 'ETH_USDT', FOLLOWERS);
  assert.ok(reader !== undefined && paced !== undefined);

  await steer('resume', {});
  await steer('resume', {}, 'paced');
  const loners = followAll(t, (at) => `${realtimeUrl}?session=loner-${at}`, 'ETH_USDT', LONERS);
  const asked = Array.from({ length: ASKERS }, async (_, at) => {
    const headers = { 'x-tapekeep-session': `asker-${at}` };
    const path = at % 2 === 0 ? 'markets' : 'history?market=BTC_USDT';
    const reply = await fetch(`${http}/api/v1/public/${path}`, { headers });
    await reply.text();
    return reply.status;
  });
  assert.deepEqual(new Set(await Promise.all(asked)), new Set([200]));
  for (const follower of [...(await loners), ...followers, paced]) {
    await follower.until(() => follower.updates === QUIET);
    assert.ok(follower.isInOrder && !follower.isClosed);
  }
  await reader.until(() => reader.updates === BUSY);
  assert.ok(reader.isInOrder && !reader.isClosed);

  interface Reading {
    readonly session: string | null;
    readonly connections: number;
  }
  const connections = async (name: string | null) => {
    const sessions: readonly Reading[] = await steer('sessions');
    return sessions.find(({ session }) => session === name)?.connections;
  };
  // Those who did not read are gone, and nobody else.
  assert.equal(await connections(null), FOLLOWERS + 1);
  assert.equal(await connections('paced'), 1);
  for (const one of [...stuck, ...late]) {
    one.socket.resume();
    await one.until(() => one.isClosed);
    assert.ok(one.updates < BUSY);
  }
  const { maxRssMb } = await server.ask();
  t.diagnostic(`memory ${Math.round(emptyMb)} MB, at most ${Math.round(maxRssMb)} MB`);
  assert.ok(maxRssMb - emptyMb < MEMORY_MAX_MB, `${maxRssMb - emptyMb} MB more`);

  for (const { socket } of [...followers, reader]) socket.terminate();
  while ((await connections(null)) !== 0);
});
