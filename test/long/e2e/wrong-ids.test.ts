import assert from 'node:assert/strict';
import test, { suite, type TestContext } from 'node:test';
import { runSql } from '../../support/postgres/postgres.js';
import type { Program } from '../../support/programs/program.js';
import { START_S, TapeProgram } from '../../support/programs/tape-program.js';

/**
 * An exchange that slips about ids, with real processes: collecting goes on, nothing false is stored or
 * claimed, over a restart as well; and a stream that stands is seen.
 */

/** What the archive claims of trades, in seconds of the tape. */
async function claims(world: TapeProgram): Promise<{ fromS: number; toS: number }[]> {
  return await runSql(
    world.databaseUrl,
    `SELECT extract(epoch FROM lower(span))::float8 - ${START_S} AS "fromS",
            extract(epoch FROM upper(span))::float8 - ${START_S} AS "toS"
     FROM coverage JOIN stream USING (stream_id, market_id) WHERE kind = 'trades'`,
  );
}

/** @param idOf the id that the exchange told of a trade */
async function assertHonest(
  world: TapeProgram,
  idOf: (id: number) => number = (id) => id,
): Promise<void> {
  const spans = await claims(world);
  const rows = await runSql<{ tid: number; atS: number }>(
    world.databaseUrl,
    `SELECT tid::float8 AS tid, extract(epoch FROM traded_at)::float8 - ${START_S} AS "atS" FROM trade`,
  );
  const stored = new Set(rows.map(({ tid, atS }) => `${atS} ${tid}`));
  const issued = new Map<string, number>(
    world.trades.map(({ id, timeMs }) => {
      const atS = Math.floor(timeMs / 1000) - START_S;
      return [`${atS} ${idOf(Number(id))}`, atS] as const;
    }),
  );
  for (const key of stored) assert.ok(issued.has(key), `${key} never was`);
  for (const [key, atS] of issued) {
    const isClaimed = spans.some(({ fromS, toS }) => fromS <= atS && atS < toS);
    assert.ok(!isClaimed || stored.has(key), `${key} is claimed and not stored`);
  }
}

async function coveredUntil(world: TapeProgram, daemon: Program, seconds: number): Promise<void> {
  await daemon.until(async () => {
    const [row] = await runSql<{ atS: number | null }>(
      world.databaseUrl,
      `SELECT min(at) AS "atS" FROM (
         SELECT max(extract(epoch FROM upper(span)))::float8 - ${START_S} AS at
         FROM stream LEFT JOIN coverage USING (stream_id, market_id)
         WHERE kind = 'trades' GROUP BY stream_id) newest`,
    );
    return (row?.atS ?? 0) >= seconds;
  });
}

/** Waits until nothing lies open between what is covered. */
async function gapsFilled(world: TapeProgram, daemon: Program): Promise<void> {
  await daemon.until(async () => (await claims(world)).length === 1);
}

async function open(
  t: TestContext,
  seed: number,
  fromS = 100,
): Promise<{ world: TapeProgram; daemon: Program }> {
  const world = await TapeProgram.make(t, seed);
  await world.openExchange(fromS, '--speed', '4');
  const daemon = await world.startDaemon();
  return { world, daemon };
}

suite('wrong ids', { concurrency: 2 }, () => {
  for (const [what, timeByS, seed] of [
    ['and the right time', 0, 61],
    ['and the time of yesterday', -86_400, 62],
    ['and a time 20 h ahead', 72_000, 63],
  ] as const) {
    test(`one row at the head with an id a million too large ${what}`, async (t) => {
      const { world, daemon } = await open(t, seed);
      const wrong = { kind: 'wrongHead', idBy: 1_000_000, timeByS, maxCount: 1 };
      await world.faults('PUT', [
        { ...wrong, id: 'result', where: 'historyResult' },
        { ...wrong, id: 'history', where: 'history' },
      ]);
      await daemon.until(async () => {
        const { result } = await world.faults('GET');
        return result.report.every(({ fired }) => fired === 1);
      });
      // A wrong time is refused; a right one with a wrong id is nothing that one answer could tell.
      const expected = timeByS === 0 ? 0 : 1;
      await daemon.until(async () => {
        const rows = await runSql(
          world.databaseUrl,
          "SELECT FROM quarantine WHERE reason LIKE 'its time %'",
        );
        return rows.length >= expected;
      });
      daemon.kill('SIGKILL');
      await daemon.ended();
      const again = world.start(['start']);
      await coveredUntil(world, again, 300);
      await assertHonest(world);
      await world.stop(again);
    });
  }

  test('a counter that begins anew is an epoch, over a restart too', async (t) => {
    const { world, daemon } = await open(t, 64, 200);
    const beginS = 440;
    const above = Math.max(
      ...world.trades
        .filter(({ timeMs }) => timeMs < (START_S + beginS) * 1000)
        .map(({ id }) => Number(id)),
    );
    await world.faults('PUT', [{ kind: 'idsAnew', above }]);
    await coveredUntil(world, daemon, 470);
    daemon.kill('SIGKILL');
    await daemon.ended();
    const again = world.start(['start']);
    await coveredUntil(world, again, 520);
    await assertHonest(world, (id) => (id > above ? id - above : id));
    const epochs = await runSql<{ last: number }>(
      world.databaseUrl,
      'SELECT last_id_before::float8 AS last FROM trade_epoch',
    );
    assert.deepEqual(
      epochs.map(({ last }) => last),
      [above],
    );
    assert.doesNotMatch(again.text('stderr'), /walk stopped/);
    await world.stop(again);
  });

  /** The last id of before so many seconds of the tape. */
  const lastBefore = (world: TapeProgram, seconds: number) =>
    Math.max(
      ...world.trades
        .filter(({ timeMs }) => timeMs < (START_S + seconds) * 1000)
        .map(({ id }) => Number(id)),
    );

  test('a counter that begins anew among trades that were shown already does not stop coverage', async (t) => {
    const { world, daemon } = await open(t, 66);
    await coveredUntil(world, daemon, 230);
    const above = lastBefore(world, 120);
    await world.faults('PUT', [{ kind: 'idsAnew', above }]);
    const begunAt = performance.now();
    await coveredUntil(world, daemon, 320);
    const tookS = (performance.now() - begunAt) / 1000;
    t.diagnostic(`covered again in ${tookS.toFixed(1)} s`);
    assert.ok(tookS < 60, `${tookS} s`);
    // It ends about when it would be listed as a gap: the log names it at once.
    assert.match(daemon.text('stderr'), /walk stopped: no progress/);
    await gapsFilled(world, daemon);
    await assertHonest(world, (id) => (id > above ? id - above : id));
    const epochs = await runSql<{ last: number }>(
      world.databaseUrl,
      'SELECT last_id_before::float8 AS last FROM trade_epoch',
    );
    assert.deepEqual(
      epochs.map(({ last }) => last),
      [above],
    );
    await world.stop(daemon);
  });

  test('trades that are shown under two ids for ten seconds are kept under the later one', async (t) => {
    const { world, daemon } = await open(t, 67);
    await coveredUntil(world, daemon, 230);
    const above = lastBefore(world, 120);
    await world.faults('PUT', [{ kind: 'idsAnew', above, firstS: 10 }]);
    await daemon.until(async () => {
      // Those of the tape are far higher.
      const rows = await runSql(world.databaseUrl, 'SELECT FROM trade WHERE tid < 1000000');
      return rows.length > 5;
    });
    await coveredUntil(world, daemon, 400);
    await gapsFilled(world, daemon);
    await assertHonest(world);
    await world.stop(daemon);
  });

  test('a stream of which every page is refused is a gap from the start on, and not ready', async (t) => {
    const world = await TapeProgram.make(t, 65);
    await world.openExchange(100);
    await world.faults('PUT', [
      { kind: 'badRows', where: 'historyResult', defect: 'notANumber', rows: 1000 },
      { kind: 'badRows', where: 'history', defect: 'notANumber', rows: 1000 },
    ]);
    const daemon = world.start(['start'], {
      TAPEKEEP_STREAMS_TRADES_HISTORY: 'all',
      TAPEKEEP_HTTP_NOT_READY_AFTER: '2s',
    });
    const url = await daemon.page();
    await daemon.until(async () => {
      const ready = await fetch(`${url}/readyz`);
      return ready.status === 503 && /trades for .*refused rows/.test(await ready.text());
    });
    await daemon.until(async () => {
      const gaps = await world.ask('gaps', '--all', '--kind', 'trades');
      // Either finding may be the newer one; readiness above named the refused rows.
      return /trades .* open +(refused rows|walk stalled)/.test(gaps.out);
    });
    assert.match((await world.ask('status')).out, /^Open: .*(refused rows|walk stalled)/m);
    assert.match(
      await (await fetch(`${url}/metrics`)).text(),
      /^tapekeep_standing_seconds\{.*trades/m,
    );
    await world.faults('DELETE');
    await daemon.until(async () => (await fetch(`${url}/readyz`)).status === 200);
    await world.stop(daemon);
  });
});
