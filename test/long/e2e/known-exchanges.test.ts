import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import type { DialectName } from '../../../src/contract/dialects.js';
import {
  KNOWN_EXCHANGES,
  type KnownExchange,
  knownExchanges,
  type ServerVariants,
} from '../../../src/contract/variants.js';
import { makeTrades, tapeLines } from '../../support/exchanges/recorded.js';
import { writeTape } from '../../support/exchanges/tape-exchange.js';
import { isSettled, judge } from '../../support/oracle/judge.js';
import { makeDatabase, runSql } from '../../support/postgres/postgres.js';
import { openSql } from '../../support/postgres/postgres-server.js';
import { Program, startSandbox } from '../../support/programs/program.js';

/**
 * Every exchange of the family, as it was recorded or documented, collected by the daemon as
 * it is set by default: all streams whole, compared with the truth.
 */

const MARKET = 'BTC_USDT';
const START_S = 1_760_000_040;
const SECONDS = 20;
/** What can only be seen at its moment, or comes by the minute. */
const OTHERS = ['depth', 'states', 'tickers'] as const;

async function open(t: TestContext, name: KnownExchange, asked?: DialectName) {
  // All of history fits into one page: more cannot be had where the offset is an id.
  const {
    dialect: own = 'contract',
    pageCap,
    rateLimit,
  }: Partial<ServerVariants> = KNOWN_EXCHANGES[name];
  const dialect = asked ?? own;
  // Of a capped exchange never more than a page: what proves the beginning takes some looks, and the limits of
  // such exchanges spread them over more time than the tape needs for another hundred trades.
  const all = makeTrades({ seed: 11, seconds: SECONDS, startS: START_S, flood: 90 });
  const trades = pageCap === undefined ? all : all.filter((_trade, at) => at % 5 === 0);
  const tape = await writeTape(t, tapeLines(trades));
  const databaseUrl = await makeDatabase('migrated');
  const { program, ready } = await startSandbox([
    ...['--tape', tape, '--market', MARKET, '--like', name, '--start-offset', '4s'],
    // What it limits by its dialect must be kept; the headers of others would only slow all down.
    ...(rateLimit === 'dialect' ? [] : ['--no-rate-limit']),
    ...['--update-interval', '100ms'],
  ]);
  t.after(() => program.dispose());
  const daemon = new Program(['--log-level', 'debug', '--log-format', 'json', 'start'], {
    env: {
      TAPEKEEP_EXCHANGE_URL: ready.url,
      TAPEKEEP_EXCHANGE_DIALECT: dialect,
      TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
      TAPEKEEP_DATABASE_URL: databaseUrl,
      TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '50',
      TAPEKEEP_HTTP_PORT: '0',
    },
  });
  t.after(() => daemon.dispose());
  return { trades, databaseUrl, daemon };
}

test('an option goes before what --like says, and a dialect brings its exchange along only alone', async (t) => {
  const marketsOf = async (path: string, ...args: readonly string[]) => {
    const { program, ready } = await startSandbox(['--start-offset', '1s', ...args]);
    t.after(() => program.dispose());
    const [markets, depth] = await Promise.all([
      fetch(`${ready.url}${path}/public/markets`),
      fetch(`${ready.url}${path}/public/depth/result?market=NO_SUCH`),
    ]);
    const { result } = (await markets.json()) as { readonly result: readonly object[] };
    return [Object.keys(result[0] ?? {}).includes('precision'), depth.status];
  };
  // Every refusal of WhiteBIT is a 200.
  const mixed = ['--like', 'whitebit', '--dialect', 'p2b'];
  assert.deepEqual(await marketsOf('/api/v2', ...mixed), [true, 200]);
  assert.deepEqual(await marketsOf('/api/v2', '--dialect', 'p2b'), [true, 400]);
  assert.deepEqual(await marketsOf('/api/v1', '--like', 'p2b', '--dialect', 'contract'), [
    false,
    400,
  ]);
});

interface Standing {
  readonly exact: number;
  readonly islands: Readonly<Record<string, number>>;
  readonly updates: number;
  readonly untilS: number;
}

async function standing(databaseUrl: string): Promise<Standing> {
  const [row] = await runSql<Standing>(
    databaseUrl,
    `SELECT (SELECT count(*)::int FROM trade WHERE executed_at IS NOT NULL) AS exact,
            (SELECT count(*)::int FROM market_state WHERE origin = 'update') AS updates,
            (SELECT jsonb_object_agg(kind, islands) FROM (
               SELECT kind, count(*)::int AS islands
               FROM coverage JOIN stream USING (stream_id) GROUP BY kind) c) AS islands,
            (SELECT coalesce(min(until), 0)::float8 FROM (
               SELECT extract(epoch FROM max(upper(span))) AS until
               FROM coverage JOIN stream USING (stream_id)
               WHERE kind IN ('trades', 'depth', 'states', 'tickers')
               GROUP BY kind HAVING true) u) AS "untilS"`,
  );
  assert.ok(row !== undefined);
  return row;
}

for (const name of knownExchanges) {
  test(`${name}: all streams whole, no gap, exact times`, async (t) => {
    const { trades, databaseUrl, daemon } = await open(t, name);
    const endS = START_S + SECONDS;
    const archive = await openSql(databaseUrl);
    t.after(() => archive.end());
    await daemon.until(async () => {
      const { exact, islands, untilS } = await standing(databaseUrl);
      const kinds = Object.keys(islands ?? {});
      const isAll = ['trades', ...OTHERS].every((kind) => kinds.includes(kind));
      const isStored = isAll && exact === trades.length && untilS > endS;
      return (
        isStored && (await isSettled(archive, MARKET, { trades, kinds: ['trades'] }, endS * 1000))
      );
    });
    daemon.kill('SIGTERM');
    assert.deepEqual(await daemon.ended(), { code: 0, signal: null }, daemon.dump());
    assert.doesNotMatch(daemon.dump(), /rate_limited/);
    const judgement = await judge(databaseUrl, MARKET, trades, true);
    assert.deepEqual([judgement.inGaps, judgement.isWhole], [0, true]);
    const { islands, updates } = await standing(databaseUrl);
    for (const kind of ['trades', ...OTHERS]) {
      // A machine that stands still for seconds breaks what is seen at its moment only, and rightly says so.
      const most = OTHERS.some((other) => other === kind) ? Number.POSITIVE_INFINITY : 1;
      const count = islands[kind] ?? 0;
      assert.ok(count >= 1 && count <= most, `${count} ranges of ${kind}`);
    }
    assert.ok(updates > 0, 'no state was pushed');
    const gaps = await runSql(
      databaseUrl,
      `SELECT kind, reason, lower(g.span) AS from_at FROM gap g JOIN stream s USING (stream_id)
       WHERE kind IN ('trades', 'candles') AND lower(g.span) >= to_timestamp($1) AND upper(g.span) <= to_timestamp($2)`,
      [START_S, endS],
    );
    assert.deepEqual(gaps, []);
    const refused = await runSql(databaseUrl, 'SELECT endpoint, reason FROM quarantine');
    assert.deepEqual(refused, []);
  });
}

for (const [name, own, asked] of [
  ['whitebit', 'whitebit', 'contract'],
  ['p2b', 'p2b', 'contract'],
  ['earnbit', 'contract', 'whitebit'],
  ['earnbit', 'contract', 'p2b'],
  ['whitebit', 'whitebit', 'p2b'],
  ['p2b', 'p2b', 'whitebit'],
] as const) {
  test(`${name}: asked as ${asked}, it is refused by name, and no archive is bound to it`, async (t) => {
    const { databaseUrl, daemon } = await open(t, name, asked);
    assert.deepEqual(await daemon.ended(), { code: 4, signal: null }, daemon.dump());
    assert.match(
      daemon.text('stderr'),
      new RegExp(`speaks the dialect ${own}: set the dialect \\(exchange\\.dialect\\) to ${own}`),
    );
    assert.deepEqual(await runSql(databaseUrl, 'SELECT 1 FROM archive'), []);
  });
}
