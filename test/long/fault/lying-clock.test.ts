import assert from 'node:assert/strict';
import test, { suite } from 'node:test';
import { STATUS } from '../../../src/console/status-document.js';
import { runCommand } from '../../support/programs/commands.js';
import { LyingWorld, MARKET } from '../../support/worlds/lying-world.js';

/**
 * The exchange's clock, or a cache before the exchange, lies for a while: what is claimed is compared
 * with all that the exchange really did, also of the time in which no collector ran.
 */
const KINDS = ['trades', 'depth', 'tickers', 'states'] as const;
const ahead = (byS: number, more: object) => ({ kind: 'wrongDate', byS, ...more });

async function collectAWhile(world: LyingWorld) {
  const daemon = world.start();
  const startedMs = Date.now();
  await daemon.until(async () => {
    const ends = await Promise.all(KINDS.map((kind) => world.coveredUntil(kind)));
    return ends.every((endMs) => endMs > startedMs);
  });
  return daemon;
}

suite('an exchange that lies about its time', { concurrency: 2 }, () => {
  test('its Date is a minute ahead for eight seconds, and the daemon away after it: nothing of the future, nothing of the pause', async (t) => {
    const world = await LyingWorld.open(t);
    const daemon = await collectAWhile(world);
    await world.faults([ahead(60, { firstS: 8 })]);
    const lieEndsMs = Date.now() + 8000;
    await daemon.until(async () => {
      await world.assertNoFuture();
      return Date.now() > lieEndsMs && (await world.coveredUntil('trades')) > lieEndsMs;
    });
    const [fired = 0] = await world.faults();
    assert.ok(fired > 10, `the Date was wrong in ${fired} answers`);
    await daemon.line((line) => line.includes('responses contradict the exchange time'));
    await world.stop(daemon);
    const stoppedMs = Date.now();

    await world.untilTime(stoppedMs + 25_000);
    const restartedMs = Date.now();
    assert.deepEqual(await world.claimedAndMissing(), []);
    for (const { kind, toMs } of await world.covered()) assert.ok(toMs <= stoppedMs + 1, kind);
    const at = new Date(stoppedMs + 10_000).toISOString();
    const explained = await runCommand(['gaps', 'explain', MARKET, 'trades', at], world.env);
    assert.doesNotMatch(explained.out, /all is covered/);

    const again = world.start();
    await again.until(async () => {
      const ends = await Promise.all(KINDS.map((kind) => world.coveredUntil(kind)));
      return ends.every((endMs) => endMs > restartedMs + 3000);
    });
    await world.stop(again);
    assert.deepEqual(await world.claimedAndMissing(), []);
    const ofMoments = (await world.covered()).filter(
      ({ kind }) => kind in { depth: 1, ticker: 1, state: 1 },
    );
    for (const { kind, fromMs, toMs } of ofMoments) {
      const isOfPause = fromMs < restartedMs && toMs > stoppedMs + 1;
      assert.ok(!isOfPause, `${kind} is covered while nothing ran`);
    }
  });

  test('one answer in ten, or three, has a wrong Date: nothing of the future, and collecting goes on', async (t) => {
    const world = await LyingWorld.open(t);
    const daemon = await collectAWhile(world);
    for (const [byS, probability] of [
      [3600, 0.1],
      [60, 0.33],
      [-3600, 0.1],
    ] as const) {
      await world.faults([ahead(byS, { probability })]);
      const beganMs = Date.now();
      await daemon.until(async () => {
        await world.assertNoFuture();
        const ends = await Promise.all(KINDS.map((kind) => world.coveredUntil(kind)));
        const [fired = 0] = await world.faults();
        return fired > 5 && ends.every((endMs) => endMs > beganMs + 8000);
      });
    }
    await world.stop(daemon);
    assert.deepEqual(await world.claimedAndMissing(), []);
  });

  test('answers without any Date: what is claimed rests on the local clock, and status says so', async (t) => {
    const world = await LyingWorld.open(t);
    await world.faults([{ kind: 'wrongDate', form: 'missing' }]);
    const daemon = await collectAWhile(world);
    await world.assertNoFuture();
    assert.deepEqual(await world.claimedAndMissing(), []);
    const url = await daemon.page();
    const status = STATUS.parse(await (await fetch(`${url}/status`)).json());
    assert.equal(status.daemon?.timeBasis, 'local');
    await world.stop(daemon);
  });

  test('a cache keeps old pages of history under a fresh Date: noticed within two polls, and claimed no further than they reach', async (t) => {
    const world = await LyingWorld.open(t);
    const daemon = await collectAWhile(world);
    const stale = { kind: 'stale', ms: 10_000, oldDate: false };
    await world.faults([
      { ...stale, where: 'history' },
      { ...stale, where: 'historyResult' },
    ]);
    const beganMs = Date.now();
    /** Answers of each endpoint when a trade was first seen missing. */
    const since = new Map<number, readonly number[]>();
    await daemon.until(async () => {
      // Answers come while is looked: none of those counts as one after it, nor as one that was seen by then.
      const fired = await world.faults();
      const missing = await world.claimedAndMissing();
      const then = await world.faults();
      for (const id of since.keys()) if (!missing.includes(id)) since.delete(id);
      for (const id of missing) if (!since.has(id)) since.set(id, then);
      // A poll may be under way at the first look; the second one after it has noticed.
      const lasting = [...since].filter(([, then]) =>
        fired.every((n, at) => n > (then[at] ?? n) + 2),
      );
      assert.deepEqual(lasting, [], `${Date.now() - beganMs} ms after the begin`);
      return fired.every((n) => n > 3) && (await world.coveredUntil('trades')) > beganMs + 25_000;
    });
    await daemon.line((line) => line.includes('stale page of newest trades'));
    await world.stop(daemon);
    t.diagnostic(`${since.size} trades missing in claimed time at the last look`);
  });
});
