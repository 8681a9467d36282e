import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import test, { type TestContext } from 'node:test';
import { openArchive } from '../../src/archive/events/archive.js';
import type { ArchiveEvent } from '../../src/archive/events/event.js';
import { MINUTE_MS, SECOND_MS } from '../../src/kernel/durations.js';
import { openTestStore, runSql } from '../support/postgres/postgres.js';
import { claim, NOON_S, revoke, trade } from '../support/postgres/postgres-rows.js';
import { startWriter } from '../support/postgres/started-child.js';
import { archiveDay } from '../support/worlds/cold-world.js';
import { makeFolder } from '../support/worlds/export-world.js';
import { BTC } from '../support/worlds/store-world.js';

/** Events that go on with what is committed. */

const NOON_MS = NOON_S * SECOND_MS;
const START = new Date(NOON_MS);

async function openWorld(t: TestContext, coldDir?: string) {
  const { store, url } = await openTestStore();
  await store.ensureMarkets([BTC], NOON_MS);
  const trades = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  const archive = await openArchive({
    databaseUrl: url,
    ...(coldDir === undefined ? {} : { coldDir }),
  });
  t.after(() => archive.close());
  return { store, url, trades, archive };
}

/** The next events, as few words each. */
async function next(events: AsyncIterator<ArchiveEvent>, count: number): Promise<string[]> {
  const texts: string[] = [];
  while (texts.length < count) {
    const { value } = await events.next();
    const event = value as ArchiveEvent;
    if (event.kind === 'trade') texts.push(`trade ${event.id}`);
    else if (event.kind === 'candle') texts.push(`candle ${event.close} ${event.revision}`);
    else if (event.kind === 'gap') {
      texts.push(`gap ${event.edge} ${event.atUs / 1e6 - NOON_S} ${event.reason}`);
    } else texts.push(event.kind);
  }
  return texts;
}

test('late rows, versions of candles and revoked time come in the order of commits', async (t) => {
  const { store, trades, archive } = await openWorld(t);
  const candles = await store.ensureStream({ kind: 'candles', marketId: 1, variant: 60 });
  const candle = (close: string, receivedAtMs: number) => ({
    ...{ marketId: 1, intervalS: 60, openAtS: NOON_S, open: '1', close, high: '3', low: '1' },
    ...{ volume: '1', quoteVolume: '2', receivedAtMs },
  });
  await store.commit({
    ...{ trades: [trade(5, 5), trade(9, 9)], klines: [candle('2', NOON_MS + 61_000)] },
    claims: [claim(trades, 0, 60), claim(candles, -60, 60)],
  });
  const kinds = ['trades', 'candles'] as const;
  const events = archive.events({ kinds, from: START, follow: true, gaps: 'mark' });
  assert.deepEqual(await next(events, 3), ['trade 5', 'trade 9', 'candle 2 0']);

  // Older than what came, received before it, and beside it in one page; and another that is older than `from`.
  const late = { receivedAtMs: NOON_MS - MINUTE_MS };
  await store.commit({ trades: [trade(1, -3 * 86_400, late), trade(4, 2, late), trade(5, 5)] });
  await store.commit({ trades: [trade(7, 7, late)], klines: [candle('2.5', NOON_MS + 90_000)] });
  assert.deepEqual(await next(events, 3), ['trade 4', 'trade 7', 'candle 2.5 1']);

  // The exact time of a trade that came is no news; a trade of the same response and second is.
  const exact = { executedAtUs: (NOON_S + 9) * 1e6 + 5 };
  await store.commit({ trades: [trade(9, 9, exact), trade(10, 9)] });
  assert.deepEqual(await next(events, 1), ['trade 10']);

  const span = { fromMs: NOON_MS + 20_000, toMs: NOON_MS + 30_000 };
  await revoke(store, trades, span, { reason: 'suspect', note: 'test', atMs: NOON_MS });
  await store.commit({ trades: [trade(20, 90)], claims: [claim(trades, 60, 91)] });
  assert.deepEqual(await next(events, 3), [
    'gap begin 20 suspect',
    'gap end 30 suspect',
    'trade 20',
  ]);
  await events.return();
});

test('a row that was archived before it was looked at comes out of its file', async (t) => {
  const coldDir = await makeFolder(t, 'cold');
  const { store, url, trades, archive } = await openWorld(t, coldDir);
  await store.commit({ trades: [trade(1, 1)], claims: [claim(trades, 0, 60)] });
  const events = archive.events({ kinds: ['trades'], from: START, follow: true });
  assert.deepEqual(await next(events, 1), ['trade 1']);
  await store.commit({ trades: [trade(2, 2)] });
  assert.deepEqual(await next(events, 1), ['trade 2'], 'and nothing is read any more');
  await store.commit({ trades: [trade(3, 3)] });
  await archiveDay({ store, url, coldDir }, 'trades', '2026-01-15');
  assert.deepEqual(await next(events, 1), ['trade 3']);
  await events.return();
});

test('every row of a writer that is killed and started again comes once', async (t) => {
  const { store, url, trades, archive } = await openWorld(t);
  await store.commit({ trades: [trade(1, 0)], claims: [claim(trades, 0, 1)] });
  const events = archive.events({ kinds: ['trades'], from: START, follow: true });
  const ids: number[] = [];
  const read = async (upTo: number) => {
    while ((ids.at(-1) ?? 0) < upTo) {
      const { value } = await events.next();
      assert.ok(value !== undefined);
      ids.push(value.id);
    }
  };
  for (const [seed, pages] of [5, 40, 9].entries()) {
    const child = startWriter(url, seed);
    t.after(() => child.kill('SIGKILL'));
    const exited = once(child, 'exit');
    let seen = 0;
    for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
      if (!line.startsWith('stored')) continue;
      seen += 1;
      if (seen % 4 === 0 && seen < pages) await read(Number(line.split(' ')[1]));
      if (seen === pages) child.kill('SIGKILL');
    }
    assert.equal((await exited)[1], 'SIGKILL');
  }
  const stored = await runSql<{ tid: number }>(
    url,
    'SELECT tid::float8 AS tid FROM trade ORDER BY tid',
  );
  await read(stored.at(-1)?.tid ?? 0);
  assert.deepEqual(
    ids,
    stored.map(({ tid }) => tid),
  );
  await events.return();
});

test('ends when its signal aborts, and says when it is too far behind', async (t) => {
  const { store, url, trades, archive } = await openWorld(t);
  await store.commit({ trades: [trade(1, 1)], claims: [claim(trades, 0, 60)] });
  const stop = new AbortController();
  const query = { kinds: ['trades'] as const, from: START, follow: true };
  const events = archive.events({ ...query, signal: stop.signal });
  assert.deepEqual(await next(events, 1), ['trade 1']);
  const waiting = events.next();
  stop.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  assert.deepEqual(await events.next(), { done: true, value: undefined });

  const behind = archive.events(query);
  assert.deepEqual(await next(behind, 1), ['trade 1']);
  await runSql(url, 'SELECT restart_journal()');
  await assert.rejects(behind.next(), { code: 'journal_behind', message: /read everything again/ });
  assert.throws(() => archive.events({ ...query, to: new Date() }), {
    code: 'bad_option',
    message: /to/,
  });
});

test('goes on after its connections were lost', async (t) => {
  const { store, url, trades, archive } = await openWorld(t);
  await store.commit({ trades: [trade(1, 1)], claims: [claim(trades, 0, 60)] });
  const events = archive.events({ kinds: ['trades'], from: START, follow: true });
  assert.deepEqual(await next(events, 1), ['trade 1']);
  const waiting = next(events, 1);
  await store.commit({ trades: [trade(2, 2)] });
  assert.deepEqual(await waiting, ['trade 2']);
  await runSql(
    url,
    'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
  );
  await store.commit({ trades: [trade(3, 3)] });
  assert.deepEqual(await next(events, 1), ['trade 3']);
  await events.return();
});
