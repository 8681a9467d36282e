import assert from 'node:assert/strict';
import test from 'node:test';
import { codeOf } from '../../src/kernel/errors.js';
import type { StreamRef } from '../../src/model/batch.js';
import { Share } from '../../src/model/share.js';
import type { Store } from '../../src/store/index.js';
import { makeDatabase, openTestStore, runSql } from '../support/postgres/postgres.js';
import {
  claim,
  exposeTrades,
  journalFaults,
  NOON_S,
  revoke,
  trade,
} from '../support/postgres/postgres-rows.js';
import { openSql } from '../support/postgres/postgres-server.js';
import {
  ALL_AT_ONCE,
  live,
  openSealingWorld,
  tradePartitions,
} from '../support/worlds/sealing-world.js';
import { BTC } from '../support/worlds/store-world.js';

/** Several writers of one archive, each with a share of its markets. */

const NOON_MS = NOON_S * 1000;

/** @param text such as 2/3; empty: all markets; undefined: a command */
async function open(url: string, text: string | undefined): Promise<Store> {
  const share = text === undefined ? undefined : (Share.parse(text) ?? Share.whole);
  return (await openTestStore({ databaseUrl: url, share })).store;
}

const holdersOf = async (store: Store) =>
  (await store.holders()).holders.map(({ share }) => share).join();

/** Code of the refusal, or `held`. */
const hold = async (store: Store): Promise<string> => {
  return await store.acquireWriterLock().then(() => 'held', codeOf);
};

test('a share excludes itself, all markets, and shares of another number', async () => {
  const [held, busy, differ] = ['held', 'writer_lock_held', 'shares_differ'];
  const cases = [
    ['1/3', '1/3', busy],
    ['1/3', '2/3', held],
    ['1/3', '3/3', held],
    ['1/3', '2/2', differ],
    ['1/3', '', differ],
    ['1/3', undefined, busy],
    ['', '1/3', differ],
    ['', '', busy],
    ['', undefined, busy],
    [undefined, '', busy],
    [undefined, undefined, busy],
  ] as const;
  for (const [first, second, expected] of cases) {
    const url = await makeDatabase();
    const one = await open(url, first);
    const other = await open(url, second);
    assert.equal(await hold(one), 'held');
    assert.equal(await hold(other), expected, `${first} then ${second}`);
    // To take it again changes nothing, and once the first has ended the other may.
    assert.equal(await hold(one), 'held');
    await one.stop();
    assert.equal(await hold(other), 'held', `${second} after ${first}`);
  }
});

test('a command that holds the archive is waited for, and leaves its division', async () => {
  const url = await makeDatabase();
  const second = await open(url, '2/3');
  await second.acquireWriterLock();
  await second.stop();
  const command = await open(url, undefined);
  await command.acquireWriterLock();
  const third = await open(url, '3/3');
  assert.equal(await hold(third), 'writer_lock_held');
  assert.equal(await hold(await open(url, '1/2')), 'writer_lock_held', 'it divides nothing');
  await command.stop();
  assert.equal(await hold(third), 'held');
  assert.deepEqual((await third.holders()).shares, 3);
  await assert.rejects((await open(url, '1/2')).acquireWriterLock(), {
    code: 'shares_differ',
    message:
      /^this daemon collects 1\/2 \(collector\.share\), and another one holds the archive \(share 3\/3, user .*\), which is divided into 3: give all daemons/,
  });
});

test('of many that start at one instant exactly the allowed ones hold', async () => {
  const url = await makeDatabase();
  const texts = ['1/3', '2/3', '3/3', '1/2', '2/2', '', undefined] as const;
  const stores = await Promise.all(
    Array.from({ length: 28 }, async (_, n) => {
      const text = texts[n % texts.length];
      return { text, store: await open(url, text) };
    }),
  );
  for (let round = 0; round < 3; round += 1) {
    // The first to ask differs from round to round.
    const order = stores.map((_, n) => stores[(n * 5 + round * 11) % stores.length]);
    const started = await Promise.all(
      order.flatMap((one) =>
        one === undefined ? [] : [hold(one.store).then((end) => ({ ...one, end }))],
      ),
    );
    const held = started.filter(({ end }) => end === 'held').map(({ text }) => text ?? 'command');
    const allowed = [['1/3', '2/3', '3/3'], ['1/2', '2/2'], [''], ['command']];
    assert.ok(
      allowed.some((set) => set.join() === [...held].sort().join()),
      `round ${round}: ${held.join()}`,
    );
    await runSql(url, `SELECT pg_terminate_backend(pid, 10000) FROM lock_holders('writer')`);
  }
});

/** Two shares that hold, and the trades of a market of each. */
async function openTwo() {
  const url = await makeDatabase();
  const [first, second] = [await open(url, '1/2'), await open(url, '2/2')];
  const listed = [BTC, { ...BTC, name: 'ETH_USDT' }];
  const { ids } = await first.ensureMarkets(listed, NOON_MS);
  // ETH_USDT is of share 1, BTC_USDT of share 2.
  const streamOf = async (market: string): Promise<StreamRef> => {
    return await first.ensureStream({ kind: 'trades', marketId: ids.get(market) ?? 0, variant: 0 });
  };
  const streams = [await streamOf('ETH_USDT'), await streamOf('BTC_USDT')] as const;
  for (const store of [first, second]) await store.acquireWriterLock();
  return { url, first, second, streams };
}

test('entries of two writers are in the order of commits, and a follower misses none', async () => {
  const { url, first, second, streams } = await openTwo();
  const writers = [first, second].map(async (store, at) => {
    const stream = streams[at];
    if (stream === undefined) throw new Error('no stream');
    const { marketId } = stream;
    for (let n = 0; n < 60; n += 1) {
      const trades = [0, 1, 2].map((k) => trade(n * 3 + k + 1, n * 3 + k, { marketId }));
      await store.commit({ trades, claims: [claim(stream, n * 3, n * 3 + 3)] });
      const span = { fromMs: NOON_MS + n * 3000, toMs: NOON_MS + n * 3000 + 1000 };
      const why = { reason: 'suspect', note: 'test', atMs: NOON_MS } as const;
      if (n % 5 === 4) await revoke(store, stream, span, why);
      const rows = [{ tid: n * 3 + 1, tradedAtS: NOON_S + n * 3 }];
      if (n % 10 === 9)
        await exposeTrades(store, { marketId, rows, span, note: 'x', atMs: NOON_MS });
      // Stored with other content: a row for quarantine, which both count.
      if (n % 4 === 3)
        await store.commit({ trades: [trade(n * 3 + 2, n * 3 + 1, { marketId, price: '1' })] });
    }
  });
  let isDone = false;
  const all = Promise.all(writers).finally(() => {
    isDone = true;
  });
  const follower = (await openTestStore({ databaseUrl: url })).store;
  const seen: number[] = [];
  let upTo = 0;
  for (let isLast = false; !isLast; ) {
    isLast = isDone;
    const changes = await follower.journal.changesSince(upTo);
    seen.push(...changes.entries.map(({ number }) => number));
    upTo = changes.upTo;
  }
  await all;
  assert.deepEqual(
    seen,
    seen.map((_, at) => at + 1),
  );
  assert.equal(seen.length, await follower.journal.number());
  assert.deepEqual(
    (await journalFaults(url)).filter((one) => !JSON.stringify(one).includes('entry without')),
    [],
  );
  const [row] = await runSql<{ n: number }>(
    url,
    'SELECT deadlocks::int AS n FROM pg_stat_database WHERE datname = current_database()',
  );
  assert.equal(row?.n, 0, 'none waited in a circle');
});

test('a commit of one share does not wait for one of another', async (t) => {
  const { url, first, second, streams } = await openTwo();
  await second.commit({ trades: [trade(1, 1, { marketId: streams[1].marketId })] });
  const [before] = await commitNumbers(url);
  const held = await openSql(url);
  t.after(() => held.end());
  await held.run('BEGIN');
  await held.run('SELECT FROM writer_commit WHERE share = 1 FOR UPDATE');
  const waiting = first.commit({ trades: [trade(1, 1, { marketId: streams[0].marketId })] });
  await second.commit({ trades: [trade(2, 2, { marketId: streams[1].marketId })] });
  await held.run('COMMIT');
  await waiting;
  assert.deepEqual(await commitNumbers(url), [before === undefined ? 1 : before + 1, 2]);
});

const commitNumbers = async (url: string) =>
  (
    await runSql<{ n: number }>(
      url,
      'SELECT commit_no::int AS n FROM writer_commit WHERE share IN (1, 2) ORDER BY share',
    )
  ).map(({ n }) => n);

test('a writer that lost its share to another division reads the ledger again', async () => {
  const { url, first, second, streams } = await openTwo();
  await first.commit({ trades: [trade(1, 1, { marketId: streams[0].marketId })] });
  await runSql(url, `SELECT pg_terminate_backend(pid, 10000) FROM lock_holders('writer')`);
  const command = await open(url, undefined);
  await command.acquireWriterLock();
  assert.equal(await holdersOf(command), '0');
  await command.stop();
  assert.equal(first.era(), 0);
  await first.commit({ trades: [trade(2, 2, { marketId: streams[0].marketId })] });
  await second.commit({ trades: [trade(2, 2, { marketId: streams[1].marketId })] });
  assert.deepEqual([first.era(), second.era()], [1, 1], 'another has written in between');
});

test('a partition that is made again makes every share read its ledger', async () => {
  const { url, first, second, streams } = await openTwo();
  for (const [at, store] of [first, second].entries()) {
    const marketId = streams[at]?.marketId ?? 0;
    await store.commit({ trades: [trade(1, 1, { marketId })], claims: [] });
  }
  await runSql(url, 'DROP TABLE trade_20260115');
  assert.deepEqual(await first.replaceRemovedPartitions(NOON_MS), ['trade_20260115']);
  for (const [at, store] of [first, second].entries()) {
    const marketId = streams[at]?.marketId ?? 0;
    await store.commit({ trades: [trade(2, 2, { marketId })] });
    assert.equal(store.era(), 1);
  }
});

test('only the successor of a share closes its sessions and its run', async () => {
  const { url, first, second, streams } = await openTwo();
  const facts = { host: 'a', version: '1', configHash: 'a'.repeat(64) };
  for (const [at, store] of [first, second].entries()) {
    const stream = streams[at];
    if (stream !== undefined) await store.openSession(stream, NOON_MS);
    await store.noteRun(facts);
  }
  const sessions = async () =>
    (
      await runSql<{ name: string }>(
        url,
        `SELECT m.name FROM session JOIN market m USING (market_id) WHERE closed_at IS NULL`,
      )
    ).map(({ name }) => name);
  const runs = async () =>
    (
      await runSql<{ share: number }>(
        url,
        'SELECT share::int FROM run WHERE ended_at IS NULL ORDER BY share',
      )
    ).map(({ share }) => share);
  assert.equal(await first.closeOrphanSessions(), 1);
  await first.noteRun(facts);
  assert.deepEqual(await sessions(), ['BTC_USDT']);
  assert.deepEqual(await runs(), [1, 2]);
  await Promise.all([first.stop(), second.stop()]);
  const whole = await open(url, '');
  await whole.acquireWriterLock();
  assert.equal(await whole.closeOrphanSessions(), 1);
  await whole.noteRun(facts);
  assert.deepEqual(await runs(), [0]);
});

test('a share revokes beyond the present what is its own', async () => {
  const { url, second, first, streams } = await openTwo();
  await runSql(url, `UPDATE stream SET collect_from = now() - interval '1 day'`);
  const nowMs = Date.now();
  const at = Math.floor((nowMs - 60_000) / 1000) - NOON_S;
  for (const [place, store] of [first, second].entries()) {
    const stream = streams[place];
    if (stream !== undefined) await store.commit({ claims: [claim(stream, at, at + 30)] });
  }
  await runSql(url, 'INSERT INTO archive (name, base_url, is_sandbox) VALUES ($1, $1, false)', [
    'x',
  ]);
  const revoked = await first.revokeBeyond((NOON_S + at + 10) * 1000, { isStart: true });
  assert.deepEqual(
    revoked.map(({ market }) => market),
    ['ETH_USDT'],
  );
});

test('nothing is sealed or dropped that another share has not covered', async (t) => {
  const world = await openSealingWorld(t);
  const { store, url } = world;
  const first = await open(url, '1/2');
  await first.acquireWriterLock();
  // BTC_USDT is of share 2, which has lost a minute of the first day.
  const [btc] = await runSql<{ id: number }>(
    url,
    `SELECT stream_id AS id FROM stream JOIN market USING (market_id) WHERE name = 'BTC_USDT'`,
  );
  await runSql(
    url,
    `UPDATE coverage SET span = tstzrange(lower(span) + interval '1 min', upper(span)) WHERE stream_id = $1`,
    [btc?.id],
  );
  await runSql(url, `UPDATE stream SET collect_from = '2026-01-13Z'`);
  const retentionMs = { trade: 1 };
  const rules = { ...ALL_AT_ONCE, needsChecks: false };
  const states = async () => (await tradePartitions(store)).map(({ state }) => state);
  const kept = await live(world, { rules: { ...rules, retentionMs } });
  assert.deepEqual(await states(), ['hot', 'hot', 'hot']);
  assert.match(
    String(kept.outcomes[0]?.note),
    /^an open gap of trades of BTC_USDT from 2026-01-13/,
  );
  await live(world, { rules });
  assert.deepEqual(await states(), ['hot', 'sealed', 'sealed']);

  // A market whose daemon has never begun has no gap that could say so.
  await runSql(url, `DELETE FROM coverage; UPDATE stream SET collect_from = now()`);
  const marketId = (
    await store.ensureMarkets([BTC, { ...BTC, name: 'NEW_USDT' }], NOON_MS)
  ).ids.get('NEW_USDT');
  const { outcomes } = await live(world, { rules });
  assert.match(
    String(outcomes[0]?.note),
    /^trades of NEW_USDT are not collected yet: start the daemon/,
  );
  await store.ensureStream({
    kind: 'trades',
    marketId: marketId ?? 0,
    variant: 0,
    collectFromMs: NOON_MS,
  });
  const markets = { wanted: ['BTC_USDT'], max: 10 };
  await live(world, { rules: { ...rules, markets } });
  assert.deepEqual(await states(), ['sealed', 'sealed', 'sealed']);
});
