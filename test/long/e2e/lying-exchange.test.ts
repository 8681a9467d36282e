import assert from 'node:assert/strict';
import test, { suite, type TestContext } from 'node:test';
import { runSql } from '../../support/postgres/postgres.js';
import type { Program } from '../../support/programs/program.js';
import { TapeProgram } from '../../support/programs/tape-program.js';

/**
 * An exchange that lies for a while, or for good: the daemon notices by itself, asks again, and says
 * what came of it. The exchange's time runs fast, because the pauses between its tries are in it.
 */

const LYING_CANDLES = {
  ...{ id: 'candles', kind: 'conflictRows', where: 'kline' },
  ...{ place: 'instead', rows: 1000 },
};
/** Pages of trades with gaps in them, which nothing but the candles can tell. */
const LYING_TRADES = { id: 'trades', kind: 'missingRows', where: 'historyResult', rows: 5 };
const ENV = {
  TAPEKEEP_STREAMS_TRADES_HISTORY: 'all',
  TAPEKEEP_STREAMS_CANDLES_HISTORY: '1h',
  TAPEKEEP_STREAMS_CANDLES_SCHEDULE: '* * * * * *',
  TAPEKEEP_VERIFICATION_ENABLED: 'true',
};

/** After the end of the tape there are some candles to collect, and no more trades come. */
async function start(
  t: TestContext,
  seed: number,
  speed: number,
  rules: readonly object[],
  env: Readonly<Record<string, string>> = {},
) {
  const world = await TapeProgram.make(t, seed);
  await world.openExchange(605, '--speed', String(speed));
  await world.faults('PUT', rules);
  const daemon = world.start(['start'], { ...ENV, ...env });
  const url = await daemon.page();
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
  readonly waiting: number;
  readonly settled: number;
  readonly tries: number;
}

async function verdicts(world: TapeProgram): Promise<Verdicts> {
  const [row] = await runSql<Verdicts>(
    world.databaseUrl,
    `SELECT count(*) FILTER (WHERE outcome = 'mismatch' AND next_try_at IS NOT NULL)::int AS waiting,
            count(*) FILTER (WHERE outcome = 'mismatch' AND next_try_at IS NULL)::int AS settled,
            coalesce(max(tries), 0)::int AS tries
     FROM candle_check`,
  );
  return row ?? { waiting: 0, settled: 0, tries: 0 };
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

/**
 * Every whole minute of the tape matches. No mismatch alone is not enough: a minute whose trades are
 * not all there yet is judged later, with a candle that lied when it was read.
 */
async function settleWhole(world: TapeProgram, daemon: Program) {
  const times = world.trades.map(({ timeMs }) => timeMs);
  const from = Math.ceil(Math.min(...times) / 60_000) * 60;
  const to = Math.floor(Math.max(...times) / 60_000) * 60 + 60;
  await daemon.until(async () => {
    const [row] = await runSql<{ whole: boolean }>(
      world.databaseUrl,
      `SELECT coalesce(range_agg(span) FILTER (WHERE outcome = 'match')
                       @> tstzrange(to_timestamp($1), to_timestamp($2)), false)
              AND count(*) FILTER (WHERE outcome = 'mismatch') = 0 AS whole
       FROM candle_check`,
      [from, to],
    );
    return row?.whole === true;
  });
}

/** Trades of the tape within what was judged that are not stored. */
async function missingIds(world: TapeProgram): Promise<string[]> {
  const url = world.databaseUrl;
  const stored = await runSql<{ tid: string }>(url, 'SELECT tid::text FROM trade');
  const ids = new Set(stored.map(({ tid }) => tid));
  const [judged] = await runSql<{ fromMs: number; toMs: number }>(
    url,
    `SELECT extract(epoch FROM min(lower(span)))::float8 * 1000 AS "fromMs",
            extract(epoch FROM max(upper(span)))::float8 * 1000 AS "toMs" FROM candle_check`,
  );
  assert.ok(judged !== undefined);
  return world.trades
    .filter(({ timeMs }) => judged.fromMs <= timeMs && timeMs < judged.toMs)
    .map(({ id }) => String(id))
    .filter((id) => !ids.has(id));
}

/** Most of their time they wait. */
suite('an exchange that lies', { concurrency: 3 }, () => {
  test('candles that lie for a while are found, fetched again with their trades, and match in the end', async (t) => {
    const { world, daemon, mismatches } = await start(t, 41, 10, [LYING_CANDLES]);
    await daemon.line((line) => line.includes('mismatch of trades and candle'));
    // The candles are fetched again three times at most, and the exchange's time runs fast.
    await daemon.until(async () => (await suspects(world, 'candles')).length > 0);
    const before = await suspects(world, 'trades');
    assert.ok(before.length > 0, 'both are doubted');
    await world.faults('DELETE');
    for (const { note } of before) assert.match(note, /volume|trades and candles disagree/);
    await settleWhole(world, daemon);
    await mismatches((count) => count === 0);
    await daemon.until(async () => {
      const all = [...(await suspects(world, 'trades')), ...(await suspects(world, 'candles'))];
      return all.every(({ state }) => state === 'filled');
    });
    const after = await suspects(world, 'candles');
    assert.ok(
      after.some(({ note }) => /it adds up after \d refetches; before: .*volume/.test(note)),
    );
    // Lying candles beside a true one were refused, which is another gap than a suspect one.
    await daemon.until(async () => {
      const [open] = await runSql<{ refused: number }>(
        world.databaseUrl,
        `SELECT count(*)::int AS refused FROM gap JOIN stream USING (stream_id, market_id)
         WHERE reason = 'refused rows' AND kind = 'candles' AND state <> 'filled'`,
      );
      return open?.refused === 0;
    });
    const proven = await world.ask('verify');
    assert.equal(proven.code, 0, proven.out + proven.err);
    await world.stop(daemon);
  });

  test('pages of trades that leave some out are told by the candles, fetched again, and whole in the end', async (t) => {
    // The other endpoint would bring what this one leaves out.
    const alone = { TAPEKEEP_STREAMS_TRADES_EXACT_TIMES: 'false' };
    const { world, daemon, mismatches } = await start(t, 43, 15, [LYING_TRADES], alone);
    await daemon.line((line) => line.includes('mismatch of trades and candle'));
    await daemon.until(async () => (await suspects(world, 'trades')).length > 0);
    assert.ok((await missingIds(world)).length > 0, 'what was left out is not stored');

    await world.faults('DELETE');
    await settleWhole(world, daemon);
    await mismatches((count) => count === 0);
    await daemon.until(async () =>
      (await suspects(world, 'trades')).every(({ state }) => state === 'filled'),
    );
    const after = await suspects(world, 'trades');
    assert.ok(
      after.some(({ note }) => /it adds up after \d refetches; before: .*volume/.test(note)),
    );
    // What is not covered yet cannot be judged, and is no mismatch.
    await daemon.until(async () => (await missingIds(world)).length === 0);
    await world.stop(daemon);
  });

  test('candles that go on lying are fetched again three times, then the mismatch stands by name', async (t) => {
    const { world, daemon, mismatches } = await start(t, 42, 60, [LYING_CANDLES]);
    await settle(world, daemon, ({ settled, waiting }) => settled > 0 && waiting === 0);
    assert.equal((await verdicts(world)).tries, 3);
    await daemon.until(async () => {
      const all = await suspects(world, 'candles');
      return all.some(({ state, note }) => state === 'filled' && /not add up after 3/.test(note));
    });
    const { result } = await world.faults('GET');
    const [asked = 0] = result.report.map(({ fired }) => fired);
    assert.ok(asked >= 4, `asked for ${asked} times, with three refetches`);
    await mismatches((count) => count > 0);
    const doubtful = await world.ask('verify');
    assert.equal(doubtful.code, 6, doubtful.out + doubtful.err);
    assert.match(doubtful.out, /MISMATCH .*volume: trades .*, candle /);
    await world.stop(daemon);
  });
});
