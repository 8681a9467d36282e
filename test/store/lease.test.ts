import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { systemClock } from '../../src/kernel/clock.js';
import { Share } from '../../src/model/share.js';
import { FILLER, type Store } from '../../src/store/index.js';
import { makeDatabase, openTestStore, runSql } from '../support/postgres/postgres.js';
import { PostgresProxy } from '../support/postgres/postgres-proxy.js';

/** The hold of the writer's lock: its beat, and those that stand by. */

/** Calls back with each event, and lets a test wait until as many came as it wants. */
function counter() {
  let count = 0;
  let wake: () => void = () => undefined;
  return {
    raise: () => {
      count += 1;
      wake();
    },
    get count() {
      return count;
    },
    /** Resolves after so many more. */
    async more(wanted: number): Promise<void> {
      const until = count + wanted;
      while (count < until) await new Promise<void>((resolve) => (wake = resolve));
    },
  };
}

const HOLDER = { host: 'holder.example', pid: 815, version: '1.2.3' };

/** Holds the lock with a store, and shows it. */
async function hold(t: TestContext, store: Store) {
  await store.acquireWriterLock();
  const [beats, asked, lost] = [counter(), counter(), counter()];
  const lease = store.keepLease({
    facts: HOLDER,
    quietUntilMs: Number.NEGATIVE_INFINITY,
    onBeat: beats.raise,
    onAsked: asked.raise,
    onLost: lost.raise,
  });
  t.after(() => lease.stop());
  await beats.more(1);
  return { lease, beats, asked, lost };
}

function standBy(t: TestContext, store: Store) {
  const ending = new AbortController();
  const [looks, troubles, asked] = [counter(), counter(), counter()];
  const seen: string[] = [];
  const standing = store.standBy({
    facts: { host: 'spare.example', pid: 4711, version: '1.2.3' },
    signal: ending.signal,
    onLook: (heldBy) => {
      seen.push(heldBy);
      looks.raise();
    },
    onTrouble: troubles.raise,
    onAsked: asked.raise,
  });
  const free = standing.untilFree();
  free.catch(() => undefined);
  t.after(async () => {
    ending.abort();
    await standing.stop();
  });
  return { free, looks, asked, standing, seen };
}

test('a silent holder stops its requests, then loses the lock, and learns of it', async (t) => {
  const { store: spare, url } = await openTestStore();
  const proxy = new PostgresProxy(url);
  t.after(() => proxy.stop());
  const { store } = await openTestStore({ databaseUrl: await proxy.start() });
  const { lease, beats, lost } = await hold(t, store);
  const { free, looks } = standBy(t, spare);
  await looks.more(1);
  await beats.more(2);
  assert.deepEqual(lease.standbys, ['spare.example (process 4711)']);
  assert.equal(lease.maySend, true);
  proxy.retarget(undefined);
  proxy.goDead();
  const freed = await free;
  assert.equal(freed.cause, 'silent');
  assert.equal(lease.maySend, false, 'requests stopped before');
  assert.ok(freed.quietUntilMs <= systemClock.monotonicMs(), 'the standby need not wait for it');
  await spare.acquireWriterLock();
  assert.equal(lost.count, 0, 'it cannot know yet');
  proxy.retarget(url);
  await lost.more(1);
  assert.equal(lease.maySend, false);
});

test('who lives is not ended, however long a standby watches', async (t) => {
  const { store, url } = await openTestStore();
  const { store: spare } = await openTestStore({ databaseUrl: url });
  const { lost } = await hold(t, store);
  const { looks, seen } = standBy(t, spare);
  await looks.more(9);
  assert.equal(lost.count, 0);
  assert.match(seen.at(-1) ?? '', /^holder\.example \(process 815\), application .+, user .+$/);
  assert.equal((await spare.holders()).holders[0]?.machine, 'holder.example (process 815)');
  await assert.rejects(spare.acquireWriterLock(), {
    ...{ code: 'writer_lock_held', message: /, machine holder\.example \(process 815\), since / },
  });
  assert.equal(await spare.inspection.isWritten(), true);
  assert.deepEqual(
    (await spare.standbys()).map(({ host, pid, version }) => [host, pid, version]),
    [['spare.example', 4711, '1.2.3']],
  );
});

test('a standby ends when it meets a holder of another number of shares', async (t) => {
  const databaseUrl = await makeDatabase();
  const of = async (text: string) =>
    (await openTestStore({ databaseUrl, share: Share.parse(text) })).store;
  const second = await of('2/3');
  await hold(t, second);
  const { free, looks } = standBy(t, await of('2/3'));
  await looks.more(1);
  // As if all of three had lost the lock, and another number had it first.
  await runSql(
    databaseUrl,
    `UPDATE exclusive_lock SET shares = 2 WHERE name = 'writer' AND id = 0`,
  );
  await assert.rejects(free, { code: 'shares_differ', message: /which is divided into 2/ });
});

test('a holder that never beat, as a command that fills, is waited for', async (t) => {
  const { store, url } = await openTestStore();
  const { store: spare } = await openTestStore({ databaseUrl: url });
  await store.acquireWriterLock(FILLER);
  const { free, looks } = standBy(t, spare);
  await looks.more(9);
  assert.equal(await spare.inspection.isWritten(), true);
  await store.stop();
  const { cause, quietUntilMs } = await free;
  assert.equal(cause, 'free');
  assert.ok(quietUntilMs <= systemClock.monotonicMs());
});

test('a hold that is let go is free at once; one that ended may still send', async (t) => {
  const { store, url } = await openTestStore();
  const { store: spare } = await openTestStore({ databaseUrl: url });
  const { lease } = await hold(t, store);
  const first = standBy(t, spare);
  await first.looks.more(1);
  await lease.stop();
  await store.stop();
  const freed = await first.free;
  assert.deepEqual([freed.cause, freed.quietUntilMs <= systemClock.monotonicMs()], ['free', true]);
  await spare.acquireWriterLock();
  await first.standing.stop();

  const { store: third } = await openTestStore({ databaseUrl: url });
  const { lease: kept } = await hold(t, spare);
  const second = standBy(t, third);
  await second.looks.more(2);
  await runSql(url, `SELECT pg_terminate_backend(pid, 10000) FROM lock_holder('writer')`);
  const later = await second.free;
  assert.equal(later.cause, 'free');
  assert.ok(later.quietUntilMs > systemClock.monotonicMs(), 'its beat was answered just now');
  await kept.stop();
});

test('a lock that only a dead connection of the holder has is no loss', async (t) => {
  const { url } = await openTestStore();
  const proxy = new PostgresProxy(url);
  t.after(() => proxy.stop());
  const { store } = await openTestStore({ databaseUrl: await proxy.start() });
  const { lease, beats, lost } = await hold(t, store);
  const { store: spare } = await openTestStore({ databaseUrl: url });
  const { looks } = standBy(t, spare);
  await looks.more(1);
  proxy.goDead();
  await beats.more(4);
  assert.equal(lost.count, 0);
  assert.equal(lease.maySend, true);
});

test('a holder hears that a handover is asked, where a standby is there', async (t) => {
  const { store, url } = await openTestStore();
  const { store: spare } = await openTestStore({ databaseUrl: url });
  assert.equal(await spare.askHandover(Share.whole), undefined, 'it is free');
  const { lease, asked, beats } = await hold(t, store);
  assert.notEqual(await spare.askHandover(Share.whole), undefined);
  await beats.more(2);
  assert.equal(asked.count, 0, 'nobody would take it');
  const { asked: heard, standing } = standBy(t, spare);
  await asked.more(1);
  assert.equal(lease.maySend, false, 'it lets the standby ask from here on');
  await heard.more(1);
  standing.ready();
  await lease.untilReady(Number.POSITIVE_INFINITY);
});
