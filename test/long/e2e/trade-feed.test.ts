import assert from 'node:assert/strict';
import test, { suite, type TestContext } from 'node:test';
import { runSql } from '../../support/postgres/postgres.js';
import { START_S, TapeProgram } from '../../support/programs/tape-program.js';

/**
 * Pages of a hundred rows from a cache of five seconds, a market that bursts beyond them, and connections
 * that are cut again and again: pushed trades make the archive whole.
 */

const BEGIN_S = 20;
/** Collected for so long: a daemon may take a minute to start on a busy machine, while the tape goes on. */
const LENGTH_S = 50;
/** Most frames are those of trades, twenty a second at most: a cut every ten seconds or so. */
const FRAMES_PER_CUT = 150;

/** A machine that is busy may take a trade for one that was not pushed: what follows on it proves nothing for a moment. */
const LATE_S = 3;

interface Covered {
  readonly fromS: number;
  readonly toS: number;
}

async function covered({ databaseUrl }: TapeProgram): Promise<Covered[]> {
  return await runSql(
    databaseUrl,
    `SELECT extract(epoch FROM lower(span))::float8 - ${START_S} AS "fromS",
            extract(epoch FROM upper(span))::float8 - ${START_S} AS "toS"
     FROM coverage JOIN stream USING (stream_id, market_id)
     WHERE kind = 'trades' ORDER BY 1`,
  );
}

const BROKEN = [
  { id: 'stale', kind: 'stale', where: 'history', ms: 5000, oldDate: false },
  { id: 'cut', kind: 'dropSocket', every: FRAMES_PER_CUT },
];

const UNREADABLE = { id: 'garbage', kind: 'garbageFrame', place: 'instead', probability: 0.03 };

/**
 * What pushed rows say that is not so; one and the same market trades about ten times a second. Rows are not left out:
 * one that is neither pushed nor on any page shows by its id only, and these ids leave out numbers.
 */
const LIES = [
  { id: 'bad', kind: 'badRows', where: 'realtime', probability: 0.02 },
  { id: 'false', kind: 'wrongHead', where: 'realtime', probability: 0.01 },
  { id: 'other', kind: 'conflictRows', place: 'instead', where: 'realtime', probability: 0.01 },
  { id: 'behind', kind: 'conflictRows', where: 'realtime', probability: 0.01 },
  { id: 'late', kind: 'reorderFrames', probability: 0.02 },
  { id: 'storm', kind: 'duplicateFrames', copies: 300, probability: 0.01 },
  { id: 'old', kind: 'stale', where: 'realtime', ms: 5000 },
];

async function collect(
  t: TestContext,
  feed: 'auto' | 'never',
  faults: readonly object[],
  lengthS = LENGTH_S,
) {
  const world = await TapeProgram.make(t, 5);
  await world.openExchange(BEGIN_S, '--like', 'whitebit', '--control');
  await world.faults('PUT', faults);
  const daemon = world.start(['start'], {
    TAPEKEEP_EXCHANGE_DIALECT: 'whitebit',
    TAPEKEEP_STREAMS_TRADES_FEED: feed,
  });
  await daemon.until(async () => {
    const ranges = await covered(world);
    return (ranges.at(-1)?.toS ?? 0) - (ranges[0]?.fromS ?? 0) >= lengthS;
  });
  const { result } = await world.faults('GET');
  await world.stop(daemon);
  const fired = new Map(result.report.map(({ rule, fired }) => [rule, fired]));
  return { world, ranges: await covered(world), fired, log: daemon.text('stderr') };
}

/** Seconds between the first and the last range. */
function uncoveredS(own: readonly Covered[]): number {
  const covered = own.reduce((sum, { fromS, toS }) => sum + toS - fromS, 0);
  return (own.at(-1)?.toS ?? Number.NaN) - (own[0]?.fromS ?? Number.NaN) - covered;
}

/** Trades of covered time that are not stored with their exact time. */
async function missing(world: TapeProgram, ranges: readonly Covered[]): Promise<string[]> {
  const found: string[] = [];
  for (const { fromS, toS } of ranges) {
    const stored = new Set(await world.storedBetween(fromS, toS, true));
    found.push(...world.idsBetween(fromS, toS).filter((id) => !stored.has(id)));
  }
  return found;
}

suite('pushed trades', { concurrency: 3 }, () => {
  test('whole over cuts, with a few requests for history', async (t) => {
    const { world, ranges, fired } = await collect(t, 'auto', BROKEN);
    assert.ok(uncoveredS(ranges) <= LATE_S, JSON.stringify(ranges));
    assert.deepEqual(await missing(world, ranges), []);
    const cuts = fired.get('cut') ?? 0;
    assert.ok(cuts >= 2, 'connections were cut');
    // What each connection begins with has to be met, and what was traded between two of them.
    const asked = fired.get('stale') ?? 0;
    assert.ok(asked <= 6 * (cuts + 1), `${asked} requests for history over ${cuts} cuts`);
  });

  test('frames that cannot be read', async (t) => {
    const { world, ranges, fired } = await collect(t, 'auto', [...BROKEN, UNREADABLE]);
    t.diagnostic(JSON.stringify({ ranges, fired: [...fired] }));
    assert.deepEqual(await missing(world, ranges), []);
    assert.ok((fired.get('garbage') ?? 0) >= 5, 'frames were lost');
  });

  test('rows that lie', async (t) => {
    const { world, ranges, fired } = await collect(t, 'auto', [...BROKEN, ...LIES]);
    assert.ok(ranges.length > 1, JSON.stringify(ranges));
    assert.deepEqual(await missing(world, ranges), []);
    const refused = await runSql<{ reason: string; rows: number }>(
      world.databaseUrl,
      'SELECT reason, count(*)::int AS rows FROM quarantine GROUP BY 1',
    );
    t.diagnostic(JSON.stringify({ ranges, refused, fired: [...fired] }));
    const rowsOf = (part: RegExp) =>
      refused.reduce((sum, { reason, rows }) => sum + (part.test(reason) ? rows : 0), 0);
    assert.ok(rowsOf(/^(id|price|amount|time)/) > 0, 'rows that cannot be read are kept');
    assert.ok(rowsOf(/^conflict$/) > 0, 'as are those that say something else of a known trade');
    assert.ok((fired.get('old') ?? 0) > 0, 'newest trades came from a cache');
  });

  test('a connection that answers and pushes nothing any more is given up for another', async (t) => {
    const half = { id: 'half', kind: 'halfOpen', answers: 'requests', after: 40, maxCount: 1 };
    const { world, ranges, fired, log } = await collect(t, 'auto', [half], 110);
    assert.equal(fired.get('half'), 1);
    assert.match(log, /"reason":"stalled"/);
    // From the first page that meets the pushes of the new connection on, all is whole again.
    const begin = ranges.findLastIndex(
      ({ fromS }, at) => fromS - (ranges[at - 1]?.toS ?? 0) > LATE_S,
    );
    const since = ranges.slice(begin);
    const lengthS = (since.at(-1)?.toS ?? 0) - (since[0]?.fromS ?? 0);
    assert.ok(lengthS >= 30 && uncoveredS(since) <= LATE_S, JSON.stringify(ranges));
    assert.deepEqual(await missing(world, ranges), []);
  });

  test('without them most is lost, and nothing false is claimed', async (t) => {
    const { world, ranges } = await collect(t, 'never', BROKEN);
    // How many depends on the machine; with pushed trades it is one.
    assert.ok(ranges.length >= 3, JSON.stringify(ranges));
    assert.deepEqual(await missing(world, ranges), []);
  });
});
