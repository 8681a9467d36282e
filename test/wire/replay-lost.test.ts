import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { FolderStorage } from '../../src/archive/cold/storage.js';
import { openArchive } from '../../src/archive/events/archive.js';
import { Past } from '../../src/archive/past.js';
import { systemClock } from '../../src/kernel/clock.js';
import { TapeSocket } from '../support/exchanges/tape-socket.js';
import { openTestStore, runSql } from '../support/postgres/postgres.js';
import { PostgresProxy } from '../support/postgres/postgres-proxy.js';
import { archiveDay } from '../support/worlds/cold-world.js';
import { makeFolder } from '../support/worlds/export-world.js';
import {
  covered,
  exactTrade,
  get,
  noonMs,
  openWorld,
  type Replayed,
  startReplay,
  state,
} from '../support/worlds/replayed-archive.js';

/** The database, or a file, is lost while it is read. */

const STATES = 500;

const ask = async (replay: Replayed, path: string) => {
  const { status, body } = await get(replay, path);
  return [status, body.message] as const;
};

/** An archive behind a wire that can be cut. */
async function openOverWire(t: TestContext) {
  const world = await openWorld();
  const [trades, states] = [await world.stream('trades'), await world.stream('states', 60)];
  await world.store.commit({
    trades: [exactTrade(1, 1), exactTrade(2, 2)],
    states: Array.from({ length: STATES }, (_, at) => state(at + 1, 1 + at)),
    claims: [covered(trades, 0, 600), covered(states, 0, 600)],
  });
  const proxy = new PostgresProxy(world.url);
  const url = await proxy.start();
  t.after(() => proxy.stop());
  return {
    ...{ world, url },
    /** Ends every connection, and refuses new ones until {@link back}. */
    lose: async () => {
      proxy.retarget(undefined);
      await runSql(
        world.url,
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()`,
      );
    },
    back: () => proxy.retarget(world.url),
  };
}

test('a replay whose database is lost says so, keeps its clients, and goes on when it is back', async (t) => {
  const { url, lose, back } = await openOverWire(t);
  const { store } = await openTestStore({ databaseUrl: url });
  const replay = await startReplay(t, store);
  const { server, backend, failures } = replay;
  const { clockControl } = backend;
  clockControl.seek(undefined, noonMs(1));
  assert.deepEqual(await ask(replay, 'history?market=BTC_USDT'), [200, '']);
  const client = await TapeSocket.open(t, server.realtimeUrl);
  await client.untilAnswered('state.subscribe', ['BTC_USDT', 60]);
  const next = async () => ((await client.next()).result as { last?: string }).last;
  const told = [await next()];

  await lose();
  const troubled = [503, 'the archive cannot be read now; ask again'] as const;
  assert.deepEqual(await ask(replay, 'depth/result?market=BTC_USDT'), troubled);
  assert.deepEqual(await ask(replay, 'history?market=BTC_USDT&limit=7'), [200, ''], 'it is loaded');
  clockControl.seek(undefined, noonMs(2));
  await clockControl.step(undefined, 590_000);
  assert.equal(client.end, undefined);
  assert.ok(failures.length > 0, 'the owner is told');
  back();
  while (told.at(-1) !== String(STATES)) told.push(await next());
  assert.deepEqual(
    told,
    Array.from({ length: STATES }, (_, at) => String(at + 1)),
    'nothing is lost, and nothing comes twice',
  );
  assert.deepEqual(await ask(replay, 'history?market=BTC_USDT&limit=7'), [200, '']);
});

test('events end with an error that says what happened; the next ones are whole', async (t) => {
  const { world, url, lose, back } = await openOverWire(t);
  // Far more than is read ahead.
  await runSql(
    world.url,
    `INSERT INTO market_state SELECT to_timestamp($1) + n * interval '10 ms', now(), 1, 1, 60, n,
       'update', w, w, w, w, w, w, w, NULL
     FROM generate_series(1, 40000) n, (SELECT repeat('7', 90)::numeric AS w) made`,
    [noonMs(0) / 1000],
  );
  const archive = await openArchive({ databaseUrl: url });
  t.after(() => archive.close());
  const span = { from: new Date(noonMs(0)), to: new Date(noonMs(600)) };
  const read = async (atFirst: () => Promise<void>) => {
    let count = 0;
    for await (const event of archive.events({ ...span, kinds: ['states'] })) {
      if (count === 0) await atFirst();
      assert.equal(event.kind, 'state');
      count += 1;
    }
    return count;
  };
  await assert.rejects(read(lose), { name: 'StoreError', action: 'retry' });
  await assert.rejects(archive.events(span).next(), { name: 'StoreError', action: 'retry' });
  back();
  assert.equal(await read(async () => undefined), 40_000 + STATES);
});

test('a replay one of whose files is gone answers everything else', async (t) => {
  const { world } = await openOverWire(t);
  const coldDir = await makeFolder(t, 'cold');
  const files = await archiveDay({ ...world, coldDir }, 'trades', '2026-01-15');
  for (const path of files) await rm(path);
  const past = new Past(world.store, { clock: systemClock, cold: new FolderStorage(coldDir) });
  const replay = await startReplay(t, world.store, { past });
  assert.deepEqual(await ask(replay, 'history?market=BTC_USDT'), [
    503,
    'what this asks for cannot be read; the log of the replay says why',
  ]);
  assert.match(String(replay.failures[0]), /\.parquet.*bring it back from a copy/i);
  assert.deepEqual(await ask(replay, 'markets'), [200, '']);
});
