import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StreamRef } from '../../src/ledger/batch.js';
import { makeDatabase, runSql } from '../support/postgres.js';
import { NOON_S, ticker } from '../support/postgres-rows.js';
import { Program } from '../support/program.js';
import {
  covered,
  depth,
  exactTrade,
  kline,
  noonMs,
  openWorld,
  startReplay,
  state,
  type World,
} from '../support/replayed-archive.js';

/** What is collected from the replay of an archive is that archive. */

const MARKETS = [1, 2];
/** Half an hour lies behind when the replay begins. */
const PAST_S = 1800;
const LIVE_S = 16;
/** Twice as fast as it was recorded: what is looked at every second is seen every two. */
const SPEED = 2;
/** How far the moment of an observation may lie from the recorded one. */
const LATE_MAX_S = 2 * SPEED + 1;

/** All series of two markets; observations stand far enough apart for all of them to be seen. */
async function fill({ store, stream }: World): Promise<void> {
  const streams: StreamRef[] = [await stream('ticker', 0, 0)];
  const kinds = [
    ['trades', 0],
    ['times', 0],
    ['depth', 0],
    ['kline', 60],
    ['state', 60],
  ] as const;
  const seen = [-5, ...Array.from({ length: 3 }, (_, at) => 4 * (at + 1))];
  let tid = 1;
  for (const marketId of MARKETS) {
    for (const [kind, variant] of kinds) streams.push(await stream(kind, variant, marketId));
    const old = Array.from({ length: PAST_S / 9 }, (_, at) => 9 * at - PAST_S + 0.25 * marketId);
    const live = Array.from({ length: 28 }, (_, at) => 2.000_417 + 0.4 * at);
    const digits = (at: number) => `${100 + marketId}.${String(at % 97).padStart(2, '0')}`;
    await store.commit({
      trades: [...old, ...live].map((atS, at) => {
        tid += 1 + (at % 3);
        const side = at % 2 === 0 ? 'buy' : 'sell';
        return exactTrade(tid, atS, {
          marketId,
          side,
          price: digits(at),
          amount: '0.10',
          total: '9',
        });
      }),
      klines: Array.from({ length: PAST_S / 60 }, (_, at) =>
        kline(60 * at - PAST_S, { marketId, close: digits(at) }),
      ),
      tickers: seen.map((atS, at) => ticker(marketId, atS, { last: digits(at), volume: '1.50' })),
      depths: seen.map((atS, at) =>
        depth(atS, { marketId, askPrices: [digits(at), '300', '301'] }),
      ),
      states: [-5, ...live.filter((_, at) => at % 4 === 0)].map((atS, at) =>
        state(at + 1, atS, { marketId, last: digits(at) }),
      ),
      claims: [],
    });
  }
  await store.commit({ claims: streams.map((one) => covered(one, -PAST_S, LIVE_S)) });
}

const ROWS = `SELECT name, (to_jsonb(r) - 'market_id' - 'received_at' - 'revision')::text AS row`;
const OF = (table: string) => `FROM ${table} r JOIN market USING (market_id)`;

/** Rows of both archives that have to be the same to the letter. */
async function exactRows(url: string, table: 'trade' | 'kline', order: string): Promise<object[]> {
  return await runSql(url, `${ROWS} ${OF(table)} ORDER BY name, ${order}`);
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

const COUNTS = `SELECT (SELECT count(*) FROM trade WHERE executed_at IS NOT NULL)::int AS trades,
  (SELECT count(*) FROM kline)::int AS klines, (SELECT count(*) FROM ticker)::int AS tickers,
  (SELECT count(*) FROM depth)::int AS depths,
  (SELECT count(*) FROM market_state WHERE origin = 'update')::int AS states`;

test('an archive collected from the replay of another one equals it, row by row', async (t) => {
  const world = await openWorld();
  await fill(world);
  const span = { fromMs: noonMs(0), toMs: noonMs(LIVE_S) };
  const replay = await startReplay(t, world.store, { span, speed: SPEED });
  const { clockControl } = replay.backend;
  clockControl.pause(undefined);
  const again = await makeDatabase('empty');
  const daemon = new Program(['--log-level', 'debug', '--log-format', 'json', 'start'], {
    env: {
      TAPEKEEP_EXCHANGE_URL: replay.server.url,
      TAPEKEEP_REALTIME_URL: replay.server.realtimeUrl,
      TAPEKEEP_DATABASE_URL: again,
      TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '100',
      TAPEKEEP_STREAMS_TRADES_SCHEDULE: '* * * * * *',
      TAPEKEEP_STREAMS_DEPTH_SCHEDULE: '* * * * * *',
      TAPEKEEP_STREAMS_TICKERS_SCHEDULE: '* * * * * *',
      TAPEKEEP_STREAMS_KLINES_SCHEDULE: '* * * * * *',
      TAPEKEEP_STREAMS_KLINES_INTERVALS_S: '60',
      TAPEKEEP_STREAMS_KLINES_GRACE: '1s',
      TAPEKEEP_STREAMS_STATES_PERIODS_S: '60',
      TAPEKEEP_VERIFICATION_ENABLED: 'false',
      TAPEKEEP_HTTP_PORT: '0',
    },
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
  assert.equal(clockControl.read(undefined).connections, 2);
  clockControl.resume(undefined);
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
    assert.ok(rows.length >= 60);
  }
  for (const table of ['ticker', 'depth', 'market_state']) {
    const [recorded, collected] = [
      await observations(world.url, table),
      await observations(again, table),
    ];
    const without = (all: readonly Observation[]) => all.map(({ name, row }) => ({ name, row }));
    assert.deepEqual(without(collected), without(recorded), table);
    for (const [at, { atS }] of recorded.entries()) {
      if (atS < 0) continue;
      const lateS = (collected[at]?.atS ?? 0) - atS;
      assert.ok(Math.abs(lateS) <= LATE_MAX_S, `${table} ${at}: ${lateS} s late`);
    }
  }
  assert.deepEqual(replay.failures, []);
  assert.deepEqual(replay.record.failures, []);
});
