import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import {
  normalizeSpans,
  type Span,
  subtractSpans,
  totalLengthMs,
} from '../../../src/kernel/span.js';
import type { StreamRef } from '../../../src/model/batch.js';
import { readTape } from '../../support/oracle/tape-world.js';
import { makeDatabase, runSql } from '../../support/postgres/postgres.js';
import { NOON_S, ticker } from '../../support/postgres/postgres-rows.js';
import { Program } from '../../support/programs/program.js';
import {
  depth,
  exactTrade,
  kline,
  noonMs,
  openWorld,
  startReplay,
  state,
  type World,
} from '../../support/worlds/replayed-archive.js';

/**
 * What is collected from the replay of an archive is that archive: its rows, and no more coverage than it
 * has itself. `CLOSED_LOOP_TAPE=trades.csv` takes a recorded tape as the trades of one market.
 */
const path = process.env.CLOSED_LOOP_TAPE;
const tape = path === undefined ? [] : readTape(path);

const MARKETS = [1, 2];
/** Names take any letters: also of two bytes, two columns or two code points, and an emoji. */
const STOCKS: [string, string] = ['ÄTH', '🚀e\u0301柴犬'];
/** Half an hour lies behind when the replay begins. */
const PAST_S = 1800;
const LIVE_S = path === undefined ? 16 : 40;
/** As fast as it was recorded: a busy machine still sees each observation before the next. */
const SPEED = 1;
const SESSION = 'again';
/** How far the collector may misjudge the time of the replay, which it follows some seconds after a pause. */
const CLOCK_S = 5;

/** What the archive does not have of the time before the replay; seconds after noon. Trades are stored all the same. */
const GAPS = {
  trades: [
    [-1500, -1200],
    [-300, -299],
  ],
  candles: [[-1200, -900]],
  depth: [[-100, -50]],
  tickers: [[-100, -50]],
  states: [[-100, -50]],
} as const;

type Kind = keyof typeof GAPS;

/** A gap besides these. */
interface Missing {
  readonly kind: Kind;
  readonly span: readonly [number, number];
}

const spanOf = ([fromS, toS]: readonly [number, number]) => ({
  fromMs: noonMs(fromS),
  toMs: noonMs(toS),
});

const isIn = (kind: Kind, atS: number) => GAPS[kind].some(([from, to]) => from <= atS && atS < to);

/** Of some trades only the second is known. */
const isUntimed = (atS: number) => -900 <= atS && atS < -600;

interface Made {
  readonly atS: number;
  readonly price: string;
  readonly amount: string;
  readonly side: 'buy' | 'sell';
}

/** The trades of a market: a tape as far as it goes, with its end in the time that is still to come. */
function tradesOf(marketId: number): Made[] {
  const last = tape.at(-1);
  if (last !== undefined && marketId === 1) {
    return tape.map(({ timeMs, ...trade }) => {
      return { ...trade, atS: LIVE_S - 5 + (timeMs - last.timeMs) / 1000 };
    });
  }
  const old = Array.from({ length: PAST_S / 9 }, (_, at) => 9 * at - PAST_S + 0.25 * marketId);
  const live = Array.from({ length: 28 }, (_, at) => 2.000_417 + 0.4 * at);
  return [...old, ...live].map((atS, at) => {
    const side = at % 2 === 0 ? 'buy' : 'sell';
    return { atS, side, price: digits(marketId, at), amount: '0.10' };
  });
}

const digits = (marketId: number, at: number) =>
  `${100 + marketId}.${String(at % 97).padStart(2, '0')}`;

/** All series of two markets, but what is missing; observations stand far enough apart for all of them to be seen. */
async function fill({ store, stream }: World, missing: readonly Missing[] = []): Promise<void> {
  const streams: StreamRef[] = [];
  const kinds = [
    ['trades', 0],
    ['depth', 0],
    ['tickers', 0],
    ['candles', 60],
    ['states', 60],
  ] as const;
  const seen = [
    -5,
    4,
    ...Array.from({ length: Math.floor((LIVE_S - 12) / 4) }, (_, at) => 12 + 4 * at),
  ];
  let tid = 1;
  for (const marketId of MARKETS) {
    for (const [kind, variant] of kinds) streams.push(await stream(kind, variant, marketId));
    const late = Array.from({ length: Math.ceil((LIVE_S - 12) / 1.5) }, (_, at) => 12 + 1.5 * at);
    const pushed = [-5, 2, 3.5, ...late];
    await store.commit({
      trades: tradesOf(marketId).map(({ atS, price, amount, side }, at) => {
        tid += 1 + (at % 3);
        const own = { marketId, side, price, amount, total: '9' };
        const exact = exactTrade(tid, atS, own);
        return isUntimed(atS) ? { ...exact, executedAtUs: null } : exact;
      }),
      klines: Array.from({ length: PAST_S / 60 }, (_, at) => 60 * at - PAST_S)
        .filter((openS) => !isIn('candles', openS))
        .map((openS, at) => kline(openS, { marketId, close: digits(marketId, at) })),
      tickers: seen.map((atS, at) =>
        ticker(marketId, atS, { last: digits(marketId, at), volume: '1.50' }),
      ),
      depths: seen.map((atS, at) =>
        depth(atS, { marketId, askPrices: [digits(marketId, at), '300', '301'] }),
      ),
      states: pushed.map((atS, at) => state(at + 1, atS, { marketId, last: digits(marketId, at) })),
      claims: [],
    });
  }
  const all = spanOf([-PAST_S, LIVE_S]);
  const claims = streams.flatMap((one) => {
    const gaps: readonly (readonly [number, number])[] = GAPS[one.kind as Kind];
    const more = missing.flatMap(({ kind, span }) => (kind === one.kind ? [span] : []));
    return subtractSpans(all, normalizeSpans([...gaps, ...more].map(spanOf))).map((span) => {
      return { stream: one, span, evidence: {} };
    });
  });
  await store.commit({ claims });
}

interface Stream {
  readonly kind: Kind;
  readonly name: string;
  readonly covered: Span[];
}

/** What each stream covers, newest last. */
async function coverageOf(url: string): Promise<Stream[]> {
  return await runSql(
    url,
    `SELECT kind, name, json_agg(json_build_object(
       'fromMs', extract(epoch FROM lower(span)) * 1000,
       'toMs', extract(epoch FROM upper(span)) * 1000) ORDER BY span) AS covered
     FROM coverage JOIN stream USING (stream_id, market_id) JOIN market USING (market_id)
     GROUP BY kind, name ORDER BY kind, name`,
  );
}

/** How far the time of an observation, which the collector estimates, may lie beyond the end; milliseconds. */
const GUESS_MS = 1000;

/** Nothing is covered that the source does not cover, and hardly anything is lost on the way. */
async function compareCoverage(t: TestContext, source: string, again: string): Promise<void> {
  const [sources, collected] = [await coverageOf(source), await coverageOf(again)];
  const nameOf = ({ kind, name }: Stream) => `${kind} ${name}`;
  assert.deepEqual(collected.map(nameOf), sources.map(nameOf));
  for (const [at, { covered: had }] of sources.entries()) {
    const found = collected[at];
    assert.ok(found !== undefined);
    const { kind, covered: has } = found;
    const isMoment = kind === 'depth' || kind === 'tickers' || kind === 'states';
    const excess = has.flatMap((span) => subtractSpans(span, had));
    const excessMs = totalLengthMs(excess);
    const told = excess.map(({ fromMs, toMs }) => [fromMs, toMs].map((ms) => ms / 1000 - NOON_S));
    const text = `${nameOf(found)} is covered where its source is not: ${JSON.stringify(told)}`;
    assert.ok(
      excess.every(({ fromMs, toMs }) => toMs - fromMs <= (isMoment ? GUESS_MS : 0)),
      text,
    );
    // Of moments only the time of the replay can be seen; of trades and candles what lies behind the last gap.
    const pastS = path === undefined && kind === 'candles' ? -900 : -280;
    const seen = spanOf([isMoment ? 0 : pastS, isMoment ? LIVE_S : -1]);
    const within = subtractSpans(seen, subtractSpans(seen, had));
    const lost = within.flatMap((span) => subtractSpans(span, has));
    t.diagnostic(`${nameOf(found)}: ${excessMs} ms too much, ${totalLengthMs(lost)} ms lost`);
    if (!isMoment) assert.deepEqual(lost, [], `${nameOf(found)}: could have been covered`);
    else assert.ok(totalLengthMs(lost) < totalLengthMs(within), nameOf(found));
  }
}

const SHOWN = {
  trade: `traded_at >= to_timestamp(${NOON_S - 299})`,
  kline: `open_at >= to_timestamp(${NOON_S - 900})`,
} as const;
const ROWS = `SELECT name, (to_jsonb(r) - 'market_id' - 'received_at' - 'revision')::text AS row`;
const OF = (table: string) => `FROM ${table} r JOIN market USING (market_id)`;

/** Rows of both archives that have to be the same to the letter: those behind the last gap before the replay. */
async function exactRows(url: string, table: 'trade' | 'kline', order: string): Promise<object[]> {
  return await runSql(url, `${ROWS} ${OF(table)} WHERE ${SHOWN[table]} ORDER BY name, ${order}`);
}

interface Observation {
  readonly name: string;
  readonly atS: number;
  readonly row: string;
}

/** Observations in their order, from the last one before the replay on, without their moments. */
async function observations(url: string, table: string): Promise<Observation[]> {
  const isState = table === 'market_state';
  const dropped = ['observed_at', ...(isState ? ['seq', 'session_id'] : [])];
  return await runSql(
    url,
    `SELECT name, extract(epoch FROM observed_at)::float8 - ${NOON_S} AS "atS", (to_jsonb(r)
       - 'market_id' - 'received_at' ${dropped.map((one) => `- '${one}'`).join(' ')})::text AS row
     ${OF(table)} ${isState ? `WHERE origin = 'update'` : ''} ORDER BY name, observed_at${isState ? ', seq' : ''}`,
  );
}

const COUNTS = `SELECT (SELECT count(*) FROM trade WHERE ${SHOWN.trade} AND executed_at IS NOT NULL)::int AS trades,
  (SELECT count(*) FROM kline WHERE ${SHOWN.kline})::int AS klines, (SELECT count(*) FROM ticker)::int AS tickers,
  (SELECT count(*) FROM depth)::int AS depths,
  (SELECT count(*) FROM market_state WHERE origin = 'update')::int AS states`;

/** Rows and coverage of the time that the replay must not show. */
const BEHIND = `SELECT (SELECT count(*) FROM trade WHERE NOT ${SHOWN.trade})::int AS trades,
  (SELECT count(*) FROM kline WHERE NOT ${SHOWN.kline})::int AS klines`;

/** What the daemon is told of the replay and its own archive. */
const settings = (url: string, realtimeUrl: string, again: string) => ({
  TAPEKEEP_EXCHANGE_URL: url,
  TAPEKEEP_REALTIME_URL: realtimeUrl,
  TAPEKEEP_DATABASE_URL: again,
  TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '100',
  TAPEKEEP_STREAMS_TRADES_SCHEDULE: '* * * * * *',
  TAPEKEEP_STREAMS_DEPTH_SCHEDULE: '* * * * * *',
  TAPEKEEP_STREAMS_TICKERS_SCHEDULE: '* * * * * *',
  TAPEKEEP_STREAMS_CANDLES_SCHEDULE: '* * * * * *',
  TAPEKEEP_STREAMS_CANDLES_INTERVALS_S: '60',
  TAPEKEEP_STREAMS_CANDLES_GRACE: '1s',
  TAPEKEEP_STREAMS_STATES_PERIODS_S: '60',
  TAPEKEEP_VERIFICATION_ENABLED: 'false',
  TAPEKEEP_HTTP_PORT: '0',
});

test('an archive collected from the replay of another one equals it, row by row', async (t) => {
  const world = await openWorld(STOCKS);
  await fill(world);
  const span = { fromMs: noonMs(0), toMs: noonMs(LIVE_S) };
  const replay = await startReplay(t, world.store, { span, speed: SPEED, allowsGaps: false });
  const { clockControl } = replay.backend;
  // The daemon has a time of its own there, which one of its addresses names.
  clockControl.begin(SESSION);
  clockControl.pause(SESSION);
  const again = await makeDatabase('empty');
  const daemon = new Program(['--log-level', 'debug', '--log-format', 'json', 'start'], {
    env: settings(`${replay.server.url}/?session=${SESSION}`, replay.server.realtimeUrl, again),
  });
  t.after(() => daemon.dispose());
  // Everybody is there before time goes on.
  await daemon.until(async () => {
    const [counts] = await runSql<{ tickers: number; depths: number; states: number }>(
      again,
      COUNTS,
    ).catch(() => []);
    const { tickers = 0, depths = 0, states = 0 } = counts ?? {};
    return tickers === 2 && depths === 2 && states === 2;
  });
  assert.equal(clockControl.read(SESSION).connections, 2);
  clockControl.resume(SESSION);
  const [expected] = await runSql(world.url, COUNTS);
  await daemon.until(async () => {
    const [counts] = await runSql(again, COUNTS);
    return JSON.stringify(counts) === JSON.stringify(expected);
  });
  daemon.kill('SIGTERM');
  assert.deepEqual(await daemon.ended(), { code: 0, signal: null }, daemon.dump());

  for (const [table, order] of [
    ['trade', 'traded_at, tid'],
    ['kline', 'interval_s, open_at'],
  ] as const) {
    const rows = await exactRows(world.url, table, order);
    assert.deepEqual(await exactRows(again, table, order), rows);
    assert.ok(rows.length >= 30);
  }
  for (const table of ['ticker', 'depth', 'market_state']) {
    const [recorded, collected] = [
      await observations(world.url, table),
      await observations(again, table),
    ];
    const without = (all: readonly Observation[]) => all.map(({ name, row }) => ({ name, row }));
    assert.deepEqual(without(collected), without(recorded), table);
    for (const [at, { atS, name }] of recorded.entries()) {
      if (atS < 0) continue;
      // How late a look comes is up to the machine; what is polled is seen before it is another one.
      const next = recorded[at + 1];
      const isReplaced = table !== 'market_state' && next?.name === name;
      const seenS = collected[at]?.atS ?? Number.NaN;
      const isInTime =
        seenS >= atS - CLOCK_S && seenS <= (isReplaced ? next.atS : LIVE_S) + CLOCK_S;
      assert.ok(isInTime, `${table} ${at} of ${atS} s: seen at ${seenS} s`);
    }
  }
  await compareCoverage(t, world.url, again);
  assert.deepEqual(await runSql(again, BEHIND), [{ trades: 0, klines: 0 }]);
  t.diagnostic(`${JSON.stringify(expected)} rows are equal`);
  assert.deepEqual(replay.failures, []);
  assert.deepEqual(replay.record.failures, []);
});

test('a replay with gaps is refused, and so is a kind with a gap in the range, by its name', async (t) => {
  const world = await openWorld(STOCKS);
  await fill(world, [
    { kind: 'depth', span: [5, 6] },
    { kind: 'states', span: [5, 6] },
  ]);
  const span = { fromMs: noonMs(0), toMs: noonMs(LIVE_S) };
  for (const [allowsGaps, said] of [
    [true, /replay that allows gaps, so nothing is collected from it/],
    [
      false,
      /does not have all depth, states .*set streams\.depth\.enabled, streams\.states\.enabled to false/,
    ],
  ] as const) {
    const { server } = await startReplay(t, world.store, { span, speed: SPEED, allowsGaps });
    const again = await makeDatabase('empty');
    const daemon = new Program(['start'], { env: settings(server.url, server.realtimeUrl, again) });
    t.after(() => daemon.dispose());
    assert.deepEqual(await daemon.ended(), { code: 4, signal: null }, daemon.dump());
    assert.match(daemon.dump(), said);
    assert.deepEqual(await coverageOf(again), []);
  }
});
