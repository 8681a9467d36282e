import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { runSql } from '../support/postgres.js';
import type { Program } from '../support/program.js';
import { TapeProgram } from '../support/tape-program.js';

/**
 * An exchange that lies for a while: the daemon notices by itself, asks again, and says
 * what came of it. The exchange's time runs fast, because the pauses between its tries are in it.
 */

const LYING_CANDLES = {
  ...{ id: 'candles', kind: 'conflictRows', where: 'kline' },
  ...{ place: 'instead', rows: 1000 },
};
const ENV = {
  TAPEKEEP_STREAMS_TRADES_HISTORY: 'all',
  TAPEKEEP_STREAMS_KLINES_HISTORY: '9m',
  TAPEKEEP_STREAMS_KLINES_SCHEDULE: '* * * * * *',
  TAPEKEEP_STREAMS_KLINES_REREADS: '0',
  TAPEKEEP_VERIFICATION_ENABLED: 'true',
  TAPEKEEP_VERIFICATION_EVERY: '1s',
};

/** After the end of the tape there are some candles to collect, and no more trades come. */
async function start(t: TestContext, seed: number, speed: number, rules: readonly object[]) {
  const world = await TapeProgram.make(t, seed);
  await world.openExchange(605, '--speed', String(speed));
  await world.faults('PUT', rules);
  const daemon = world.start(['start'], ENV);
  const told = await daemon.line((line) => line.includes('/metrics') || line.includes('"status'));
  const url = /http:\/\/127\.0\.0\.1:\d+/.exec(told)?.[0] ?? '';
  /** The mismatches that the metrics show, once they show `isExpected` many. */
  const mismatches = async (isExpected: (count: number) => boolean) => {
    await daemon.until(async () => {
      const text = await (await fetch(`${url}/metrics`)).text();
      const [, count] = /^tapekeep_mismatches\{[^}]*\} (\d+)$/m.exec(text) ?? [];
      return count !== undefined && isExpected(Number(count));
    });
  };
  return { world, daemon, mismatches };
}

interface Verdicts {
  readonly matches: number;
  readonly waiting: number;
  readonly settled: number;
  readonly tries: number;
}

async function verdicts(world: TapeProgram): Promise<Verdicts> {
  const [row] = await runSql<Verdicts>(
    world.databaseUrl,
    `SELECT count(*) FILTER (WHERE outcome = 'match')::int AS matches,
            count(*) FILTER (WHERE outcome = 'mismatch' AND next_try_at IS NOT NULL)::int AS waiting,
            count(*) FILTER (WHERE outcome = 'mismatch' AND next_try_at IS NULL)::int AS settled,
            coalesce(max(tries), 0)::int AS tries
     FROM verdict`,
  );
  return row ?? { matches: 0, waiting: 0, settled: 0, tries: 0 };
}

/** Coverage that was taken back because of a doubt, by kind of stream. */
async function suspects(world: TapeProgram, kind: string) {
  return await runSql<{ state: string; attempts: number; note: string }>(
    world.databaseUrl,
    `SELECT state, attempts, note FROM gap JOIN stream USING (stream_id, market_id)
     WHERE reason = 'suspect' AND kind = $1`,
    [kind],
  );
}

async function settle(world: TapeProgram, daemon: Program, isDone: (now: Verdicts) => boolean) {
  await daemon.until(async () => isDone(await verdicts(world)));
}

test('candles that lie for a while are found, fetched again with their trades, and match in the end', async (t) => {
  const { world, daemon, mismatches } = await start(t, 41, 10, [LYING_CANDLES]);
  await daemon.line((line) => line.includes('trades and candle differ'));
  const doubtful = await world.run('verify');
  assert.equal(doubtful.code, 6, doubtful.out + doubtful.err);
  assert.match(doubtful.out, /MISMATCH .*volume: trades .*, candle /);
  await daemon.until(async () => (await suspects(world, 'kline')).length > 0);
  const before = await suspects(world, 'trades');
  assert.ok(before.length > 0, 'both are doubted');
  for (const { note } of before) assert.match(note, /volume|trades and candles disagree/);

  await world.faults('DELETE');
  await settle(world, daemon, ({ waiting, settled }) => waiting + settled === 0);
  await mismatches((count) => count === 0);
  await daemon.until(async () => {
    const all = [...(await suspects(world, 'trades')), ...(await suspects(world, 'kline'))];
    return all.every(({ state }) => state === 'filled');
  });
  const after = await suspects(world, 'kline');
  assert.ok(after.some(({ note }) => /it adds up after \d refetches; before: .*volume/.test(note)));
  const proven = await world.run('verify');
  assert.equal(proven.code, 0, proven.out + proven.err);
  await world.stop(daemon);
});
