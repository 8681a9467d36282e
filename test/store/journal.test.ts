import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import test from 'node:test';
import { DAY_MS, SECOND_MS } from '../../src/kernel/durations.js';
import type { JournalEntry, Store } from '../../src/store/index.js';
import { openTestStore, runSql } from '../support/postgres/postgres.js';
import { loginAs } from '../support/postgres/postgres-logins.js';
import {
  claim,
  exposeTrades,
  journalFaults,
  NOON_S,
  revoke,
  ticker,
  trade,
} from '../support/postgres/postgres-rows.js';
import { openSql } from '../support/postgres/postgres-server.js';
import { startWriter } from '../support/postgres/started-child.js';
import { bringBack, FIRST_MS, live, openSealingWorld } from '../support/worlds/sealing-world.js';
import { BTC } from '../support/worlds/store-world.js';

/** What each transaction changed, in the order of commits. */

const NOON_MS = NOON_S * SECOND_MS;

async function openWorld() {
  const { store, url } = await openTestStore();
  await store.ensureMarkets([BTC], NOON_MS);
  const trades = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  return { store, url, trades };
}

/** Entries as `series change from to`, in seconds after noon. */
const texts = (entries: readonly JournalEntry[]) =>
  entries.map(({ series, change, span }) => {
    const [from, to] = [span.fromMs, span.toMs].map((ms) => (ms - NOON_MS) / SECOND_MS);
    return `${series} ${change} ${from} ${to}`;
  });

const since = async (store: Store, number: number) =>
  texts((await store.journal.changesSince(number)).entries);

test('a commit says which time ranges it changed, by market, series and day', async () => {
  const { store, url, trades } = await openWorld();
  await store.commit({
    trades: [trade(1, -86_400), trade(2, -86_390), trade(3, 1), trade(4, 4)],
    tickers: [ticker(1, 7)],
    claims: [claim(trades, 0, 5)],
  });
  const first = await store.journal.changesSince(0);
  assert.deepEqual(texts(first.entries), [
    'trade rows -86400 -86389',
    'trade rows 1 5',
    'ticker rows 7 7.001',
  ]);
  assert.deepEqual([first.upTo, first.isWhole, await store.journal.number()], [3, true, 3]);
  assert.deepEqual(
    first.entries.map(({ number, marketId, variant }) => [number, marketId, variant]),
    [1, 2, 3].map((number) => [number, 1, 0]),
  );
  assert.deepEqual(
    first.entries.map(({ received }) => received),
    [
      [-86_400, -86_390],
      [1, 4],
      [7, 7],
    ].map(([from = 0, to = 0], at) => {
      const offsetMs = at < 2 ? 250 : 0;
      return {
        fromMs: NOON_MS + from * 1000 + offsetMs,
        toMs: NOON_MS + to * 1000 + offsetMs + 1,
      };
    }),
  );
  // What is known already changes nothing; what learns its exact time does.
  await store.commit({ trades: [trade(3, 1)] });
  await store.commit({ trades: [trade(4, 4, { executedAtUs: (NOON_S + 4) * 1e6 + 5 })] });
  assert.deepEqual(await since(store, 3), ['trade rows 4 5']);
  assert.equal((await store.journal.changesSince(3)).entries[0]?.received, null);
  const part = await store.journal.changesSince(1, 2);
  assert.deepEqual([part.entries.length, part.upTo, part.isWhole], [2, 3, false]);
  assert.deepEqual(await journalFaults(url), []);
});

test('another version of a candle is a change of candles and of versions', async () => {
  const { store } = await openWorld();
  const candle = (close: string) => ({
    ...{ marketId: 1, intervalS: 60, openAtS: NOON_S, open: '1', close, high: '3', low: '1' },
    ...{ volume: '1', quoteVolume: '2', receivedAtMs: NOON_MS + 61_000 },
  });
  await store.commit({ klines: [candle('2')] });
  await store.commit({ klines: [candle('3')] });
  assert.deepEqual(await since(store, 0), [
    'kline rows 0 0.001',
    'kline_revision rows 0 0.001',
    'kline rows 0 0.001',
  ]);
});

test('revoked coverage and exposed trades are entries', async () => {
  const { store, trades } = await openWorld();
  await store.commit({ trades: [trade(1, 1), trade(2, 9)], claims: [claim(trades, 0, 60)] });
  const span = { fromMs: NOON_MS + 20_000, toMs: NOON_MS + 30_000 };
  await revoke(store, trades, span, { reason: 'suspect', note: 'test', atMs: NOON_MS });
  await exposeTrades(store, {
    ...{ marketId: 1, rows: [{ tid: 2, tradedAtS: NOON_S + 9 }], note: 'test', atMs: NOON_MS },
    span: { fromMs: NOON_MS + 8000, toMs: NOON_MS + 11_000 },
  });
  assert.deepEqual(await since(store, 1), [
    'trade revoked 20 30',
    'trade revoked 8 11',
    'trade exposed 9 10',
  ]);
});

test('a partition that leaves, comes back or expires is an entry', async (t) => {
  const world = await openSealingWorld(t);
  const { store, url } = world;
  const day = [FIRST_MS, FIRST_MS + DAY_MS];
  const start = await store.journal.number();
  const entries = async () => {
    const { entries: all } = await store.journal.changesSince(start);
    return all
      .filter(({ span }) => span.fromMs === FIRST_MS)
      .map(({ change, marketId, span }) => [change, marketId, span.fromMs, span.toMs]);
  };
  await live(world);
  assert.deepEqual(await entries(), [], 'sealing changes no rows');
  await live(world, { rules: { coldAfterMs: DAY_MS } });
  assert.deepEqual(await entries(), [['archived', null, ...day]]);
  await bringBack(world, {});
  assert.deepEqual((await entries()).at(-1), ['restored', null, ...day]);
  await runSql(url, `SELECT expire_partition('trade', '2026-01-13')`);
  assert.deepEqual((await entries()).at(-1), ['expired', null, ...day]);
  assert.equal((await entries()).length, 3);
});

test('entries become visible in the order of their numbers', async () => {
  const { store, url } = await openWorld();
  const other = await openSql(await loginAs(url, 'tapekeep_writer'));
  await other.run('BEGIN');
  await other.run(
    `INSERT INTO journal SELECT * FROM new_entries('rows', '{trade}', '{1}', '{0}', '{"[2026-01-15,2026-01-16)"}')`,
  );
  const committing = store.commit({ trades: [trade(1, 1)] });
  assert.equal(await store.journal.number(), 0);
  await other.run('COMMIT');
  await other.end();
  await committing;
  const { entries } = await store.journal.changesSince(0);
  assert.deepEqual(
    entries.map(({ number, span }) => [number, span.toMs - span.fromMs]),
    [
      [1, DAY_MS],
      [2, SECOND_MS],
    ],
  );
});

test('a follower whose entries are gone must read everything again', async () => {
  const { store, url } = await openWorld();
  await store.commit({ trades: [trade(1, 1)] });
  // As many as are kept, in one entry each.
  await runSql(
    url,
    `INSERT INTO journal SELECT * FROM new_entries('rows', array_fill('trade'::text, ARRAY[500000]), array_fill(1, ARRAY[500000]),
       array_fill(0, ARRAY[500000]), array_fill('[2026-01-15,2026-01-16)'::tstzrange, ARRAY[500000]))`,
  );
  await assert.rejects(store.journal.changesSince(0), {
    code: 'journal_behind',
    message: /entries 2 to 500001, and changes after 0 were asked for; read everything again/,
  });
  assert.equal((await store.journal.changesSince(500_000)).entries.length, 1);
  await assert.rejects(store.journal.changesSince(500_002), { code: 'journal_behind' });
  await runSql(url, 'SELECT restart_journal()');
  await assert.rejects(store.journal.changesSince(500_001), { code: 'journal_behind' });
  const number = await store.journal.number();
  const { entries } = await store.journal.changesSince(number - 1);
  assert.deepEqual(
    entries.map(({ change, series, span }) => [change, series, span.fromMs, span.toMs]),
    [['restarted', null, -Infinity, Infinity]],
  );
});

test('journal and rows are equal after the writer was killed', async () => {
  const { url } = await openWorld();
  for (const [seed, pages] of [3, 7, 12].entries()) {
    const child = startWriter(url, seed);
    const exited = once(child, 'exit');
    let seen = 0;
    for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
      if (line.startsWith('stored')) seen += 1;
      if (seen === pages) child.kill('SIGKILL');
    }
    assert.equal((await exited)[1], 'SIGKILL');
    assert.deepEqual(await journalFaults(url), []);
  }
});
