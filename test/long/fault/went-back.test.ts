import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import test, { type TestContext } from 'node:test';
import type { StateRecord } from '../../../src/contract/resources.js';
import { systemClock } from '../../../src/kernel/clock.js';
import { openLive } from '../../../src/sandbox/live/open-live.js';
import { startExchangeServer } from '../../../src/server/exchange-server.js';
import { migrate } from '../../../src/store/index.js';
import { STILL_MARKET } from '../../support/exchanges/live-exchange.js';
import { noTelemetry } from '../../support/no-telemetry.js';
import { PostgresProxy } from '../../support/postgres/postgres-proxy.js';
import {
  makeTempDir,
  openSql,
  runSql,
  withDatabase,
} from '../../support/postgres/postgres-server.js';
import {
  BareServer,
  openServers,
  removeServer,
  type Standby,
  startStandby,
} from '../../support/postgres/standby.js';
import { Program } from '../../support/programs/program.js';
import { factor } from '../../support/seeds.js';

/**
 * An asynchronous standby that lacks the last commits is promoted while a daemon collects, again and again. The
 * exchange knows what it issued and what it answered: of every series nothing may be covered that is not stored.
 */

const ROUNDS = Math.max(2, Math.round(20 * Math.min(1, factor / 10)));
const BUSY = 'BTC_USDT';
const STILL = STILL_MARKET.name;
/** Commits that the standby does not get, at least. */
const LOST_COMMITS = 8;
/** A look counts from its request to its answer; near the edge of a span it may lie on either side. */
const EDGE_MS = 1200;
/** So long covered time has looks that count. */
const SHOWN_MS = 6000;

interface Seen {
  readonly atMs: number;
  readonly text: string;
}

/** An exchange of the present with a quiet market, whose book and ticker change when the test says so. */
async function openExchange(t: TestContext) {
  const backend = await openLive(
    { runId: 'went-back', markets: [BUSY, STILL_MARKET], startOffsetS: 300 },
    systemClock,
  );
  let version = 1;
  const served: Record<'depth' | 'tickers' | 'states', Seen[]> = {
    depth: [],
    tickers: [],
    states: [],
  };
  const depth = backend.depth.bind(backend);
  backend.depth = (market, limit) => {
    if (market !== STILL) return depth(market, limit);
    served.depth.push({ atMs: backend.nowMs(), text: `${version}` });
    return { asks: [['1000', '1']], bids: [[`${version}`, '1']] };
  };
  const tickers = backend.tickers.bind(backend);
  backend.tickers = () => {
    const all = tickers();
    const still = all[STILL];
    if (still === undefined) return all;
    served.tickers.push({ atMs: backend.nowMs(), text: `${version}` });
    return { ...all, [STILL]: { ...still, ticker: { ...still.ticker, bid: `${version}` } } };
  };
  const state = backend.state.bind(backend);
  backend.state = (market, periodS) => {
    const record = state(market, periodS);
    if (market === BUSY) served.states.push({ atMs: backend.nowMs(), text: figures(record) });
    return record;
  };
  const server = await startExchangeServer({
    ...{
      backend,
      clock: systemClock,
      telemetry: noTelemetry.server,
      variants: { rateLimit: false },
    },
  });
  t.after(async () => {
    await server.stop();
    backend.stop();
  });
  const change = () => {
    version += 1;
  };
  return { backend, server, served, change };
}

type Exchange = Awaited<ReturnType<typeof openExchange>>;

const figures = ({ last, volume, deal }: Pick<StateRecord, 'last' | 'volume' | 'deal'>) =>
  [last, volume, deal].map(Number).join(' ');

const MS = (expression: string) => `(extract(epoch FROM ${expression}) * 1000)::float8`;

interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

/** Counts what is covered and not stored, for every series, and names those of which nothing is covered that counts. */
async function lies(url: string, { backend, served }: Exchange) {
  const unseen: string[] = [];
  const sql = await openSql(url);
  try {
    const covered = async (kind: string, market: string, variant: number) =>
      await sql.run<Span>(
        `SELECT ${MS('lower(span)')} AS "fromMs", ${MS('upper(span)')} AS "toMs"
         FROM coverage JOIN stream USING (stream_id, market_id) JOIN market USING (market_id)
         WHERE kind = $1 AND name = $2 AND variant = $3`,
        [kind, market, variant],
      );
    const isIn = (spans: readonly Span[], atMs: number, edgeMs = 0) =>
      spans.some(({ fromMs, toMs }) => fromMs + edgeMs <= atMs && atMs < toMs - edgeMs);
    const found: Record<string, number> = {};

    const ids = new Set(
      (await sql.run<{ tid: string }>('SELECT tid::text FROM trade')).map(({ tid }) => Number(tid)),
    );
    const issued = [...backend.truth(BUSY)];
    for (const kind of ['trades']) {
      const spans = await covered(kind, BUSY, 0);
      const within = issued.filter(({ timeUs }) => isIn(spans, Math.floor(timeUs / 1000)));
      found[kind] = within.filter(({ id }) => !ids.has(id)).length;
      if (within.length === 0) unseen.push(kind);
    }
    const [twice] = await sql.run<{ n: number }>(
      'SELECT (count(*) - count(DISTINCT (market_id, tid)))::int AS n FROM trade',
    );
    found.twice = twice?.n ?? -1;

    const slots = await covered('candles', BUSY, 60);
    const stored = new Set(
      (
        await sql.run<{ s: number }>(
          `SELECT extract(epoch FROM open_at)::float8 AS s FROM kline JOIN market USING (market_id)
           WHERE name = $1 AND interval_s = 60`,
          [BUSY],
        )
      ).map(({ s }) => s),
    );
    const endS = Math.floor(backend.nowMs() / 1000);
    const candles = backend
      .kline({ market: BUSY, startS: endS - 3600, endS, intervalS: 60 })
      .filter(({ volume, time }) => Number(volume) > 0 && isIn(slots, time * 1000));
    if (candles.length === 0) unseen.push('candles');
    found.candles = candles.filter(({ time }) => !stored.has(time)).length;

    for (const [kind, table, column] of [
      ['depth', 'depth', 'bid_prices[1]'],
      ['tickers', 'ticker', 'bid'],
    ] as const) {
      const spans = await covered(kind, STILL, 0);
      const rows = await sql.run<{ atMs: number; text: string }>(
        `SELECT ${MS('observed_at')} AS "atMs", (${column})::text AS text
         FROM ${table} JOIN market USING (market_id) WHERE name = $1 ORDER BY observed_at`,
        [STILL],
      );
      const at = (ms: number) => rows.findLast(({ atMs }) => atMs <= ms)?.text;
      const looks = served[kind].filter(({ atMs }) => isIn(spans, atMs, EDGE_MS));
      if (looks.length === 0) unseen.push(kind);
      found[kind] = looks.filter(
        ({ atMs, text }) => ![at(atMs - EDGE_MS), at(atMs + EDGE_MS)].includes(text),
      ).length;
    }

    const spans = await covered('states', BUSY, 60);
    const pushed = new Set(
      (
        await sql.run<Pick<StateRecord, 'last' | 'volume' | 'deal'>>(
          'SELECT last::text, volume::text, quote_volume::text AS deal FROM market_state JOIN market USING (market_id) WHERE name = $1',
          [BUSY],
        )
      ).map(figures),
    );
    const updates = served.states.filter(({ atMs }) => isIn(spans, atMs, EDGE_MS));
    if (updates.length === 0) unseen.push('states');
    found.states = updates.filter(({ text }) => !pushed.has(text)).length;
    return { found, unseen };
  } finally {
    await sql.end();
  }
}

const NOTHING = { trades: 0, twice: 0, candles: 0, depth: 0, tickers: 0, states: 0 };

/** Ends of what is covered, by stream. */
const ENDS = `
  SELECT stream_id AS id, max(${MS('upper(span)')}) AS "toMs" FROM coverage JOIN stream USING (stream_id, market_id)
  GROUP BY 1`;

async function ends(url: string): Promise<Map<number, number>> {
  const rows = await runSql<{ id: number; toMs: number }>(url, ENDS).catch(() => []);
  return new Map(rows.map(({ id, toMs }) => [id, toMs]));
}

const urlOf = ({ url }: BareServer) => withDatabase(url, 'archive');

/** A daemon that collects from an exchange into a server, over a wire that can lead elsewhere. */
async function startWorld(t: TestContext, folder: string, primary: BareServer) {
  await runSql(primary.url, 'CREATE DATABASE archive');
  await migrate({ databaseUrl: urlOf(primary) });
  const proxy = new PostgresProxy(urlOf(primary));
  t.after(() => proxy.stop());
  const exchange = await openExchange(t);
  const daemon = new Program(['--log-level', 'debug', '--log-format', 'json', 'start'], {
    env: {
      TAPEKEEP_EXCHANGE_URL: exchange.server.url,
      TAPEKEEP_REALTIME_URL: exchange.server.realtimeUrl,
      TAPEKEEP_DATABASE_URL: await proxy.start(),
      TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '40',
      TAPEKEEP_STREAMS_DEPTH_SCHEDULE: '* * * * * *',
      TAPEKEEP_STREAMS_TICKERS_SCHEDULE: '* * * * * *',
      TAPEKEEP_STREAMS_CANDLES_SCHEDULE: '*/2 * * * * *',
      TAPEKEEP_STREAMS_CANDLES_HISTORY: '10m',
      TAPEKEEP_STREAMS_CANDLES_INTERVALS_S: '60',
      TAPEKEEP_STREAMS_STATES_PERIODS_S: '60',
      TAPEKEEP_HTTP_PORT: '0',
      TAPEKEEP_DATA_DIR: join(folder, 'data'),
    },
  });
  t.after(() => daemon.dispose());
  const page = await daemon.page();
  const isReady = async () => (await fetch(`${page}/readyz`)).status === 200;
  /** Until every stream of the quiet and the busy market is covered beyond an instant. */
  const coveredBeyond = async (url: string, ms: number) => {
    await daemon.until(async () => {
      const now = await ends(url);
      // Four of each market, and the candles, which end at whole minutes.
      return [...now.values()].filter((toMs) => toMs > ms).length >= 8;
    });
  };
  const number = async (server: BareServer) => {
    const [row] = await runSql<{ n: number }>(
      urlOf(server),
      'SELECT commit_no::int AS n FROM writer_commit WHERE share = 0',
    );
    return row?.n ?? 0;
  };
  /** What is claimed in vain, once something of every series counts. */
  const judged = async (url: string) => {
    let found: Readonly<Record<string, number>> = {};
    await daemon.until(async () => {
      const now = await lies(url, exchange);
      found = now.found;
      return now.unseen.length === 0;
    });
    return found;
  };
  return { exchange, daemon, proxy, isReady, coveredBeyond, judged, number };
}

test(`a standby without the last commits is promoted ${ROUNDS} times: nothing is covered that is not stored`, {
  timeout: 30 * 60_000,
}, async (t) => {
  if (process.platform === 'win32') {
    t.skip('a server is ended by a signal here, which Windows has not');
    return;
  }
  const folder = await makeTempDir();
  let primary = await BareServer.make(folder);
  // Before its folder: a server that runs writes into it.
  t.after(() => removeServer(primary));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const { exchange, daemon, proxy, isReady, coveredBeyond, judged, number } = await startWorld(
    t,
    folder,
    primary,
  );
  await coveredBeyond(urlOf(primary), exchange.backend.nowMs() + SHOWN_MS);
  let lost = 0;
  for (let round = 1; round <= ROUNDS; round += 1) {
    const standby: Standby = await startStandby(primary, join(folder, `standby-${round}`));
    await standby.cutOff();
    exchange.change();
    const from = await number(primary);
    await daemon.until(async () => (await number(primary)) >= from + LOST_COMMITS);
    const killed = primary;
    const before = await number(primary);
    proxy.retarget(undefined);
    await killed.kill();
    await standby.server.promote();
    primary = standby.server;
    proxy.endAll();
    proxy.retarget(urlOf(primary));
    const promotedMs = exchange.backend.nowMs();
    await coveredBeyond(urlOf(primary), promotedMs + SHOWN_MS);
    await daemon.until(isReady);
    const again = exchange.backend.nowMs();
    assert.deepEqual(await judged(urlOf(primary)), NOTHING, `round ${round}`);
    const [incident] = await runSql<{ acknowledged: number; found: number }>(
      urlOf(primary),
      `SELECT acknowledged::int, found::int FROM incident WHERE kind = 'went back' ORDER BY incident_id DESC LIMIT 1`,
    );
    assert.ok(incident !== undefined, 'an incident is recorded');
    const { acknowledged, found } = incident;
    assert.ok(acknowledged >= before - 1 && found < acknowledged, JSON.stringify(incident));
    lost += acknowledged - found;
    t.diagnostic(
      `round ${round}: commits ${found + 1} to ${acknowledged} lost, all streams covered again ${again - promotedMs} ms after the promotion`,
    );
    await removeServer(killed);
  }
  const metrics = await (await fetch(`${await daemon.page()}/metrics`)).text();
  assert.match(metrics, new RegExp(`tapekeep_database_went_back_total ${ROUNDS}\n`));
  assert.ok(lost >= ROUNDS * (LOST_COMMITS - 1));
  daemon.kill('SIGTERM');
  assert.deepEqual(await daemon.ended(), { code: 0, signal: null }, daemon.dump());
  assert.deepEqual((await lies(urlOf(primary), exchange)).found, NOTHING, 'after its end');
  t.diagnostic(`${lost} commits lost in ${ROUNDS} promotions, none of them claimed`);
});

test('a standby that has every commit is promoted: nothing was lost, and nothing is a gap', async (t) => {
  const { folder, primary, servers } = await openServers(t);
  const world = await startWorld(t, folder, primary);
  const { exchange, proxy, coveredBeyond, judged } = world;
  await coveredBeyond(urlOf(primary), exchange.backend.nowMs() + SHOWN_MS);
  const standby = await startStandby(primary, join(folder, 'standby'));
  servers.push(standby.server);
  proxy.retarget(undefined);
  await primary.stop();
  await standby.cutOff();
  await standby.server.promote();
  proxy.endAll();
  proxy.retarget(urlOf(standby.server));
  const url = urlOf(standby.server);
  await coveredBeyond(url, exchange.backend.nowMs() + SHOWN_MS);
  assert.deepEqual(await judged(url), NOTHING);
  assert.deepEqual(await runSql(url, 'SELECT * FROM incident'), []);
  const pieces = await runSql<{ kind: string; pieces: number }>(
    url,
    `SELECT DISTINCT kind, cardinality(array_agg(span)) AS pieces FROM coverage JOIN stream USING (stream_id, market_id)
     WHERE kind IN ('depth', 'tickers', 'states') GROUP BY stream_id, kind ORDER BY kind`,
  );
  assert.deepEqual(
    pieces,
    ['depth', 'states', 'tickers'].map((kind) => ({ kind, pieces: 1 })),
    'the spool bridges the time of the promotion',
  );
});

/** An installation of Postgres with pg_dump; the embedded one has none. */
async function findPrograms(): Promise<string | undefined> {
  const all = await readdir('/usr/lib/postgresql').catch((): string[] => []);
  const found = all.map((version) => join('/usr/lib/postgresql', version, 'bin'));
  return found.find((folder) =>
    ['initdb', 'postgres', 'pg_dump', 'pg_restore'].every((one) => existsSync(join(folder, one))),
  );
}

test('a dump is restored while a daemon collects: nothing is covered that is not stored', async (t) => {
  const programs = await findPrograms();
  if (programs === undefined) {
    t.skip('no installation of Postgres with pg_dump was found under /usr/lib/postgresql');
    return;
  }
  const folder = await makeTempDir();
  const server = await BareServer.makeOf(programs, folder);
  // Before its folder: a server that runs writes into it.
  t.after(() => removeServer(server));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const { exchange, daemon, isReady, coveredBeyond, judged, number } = await startWorld(
    t,
    folder,
    server,
  );
  const run = async (program: string, args: readonly string[]) => {
    const child = spawn(join(programs, program), [...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const said = text(child.stderr);
    const [code] = (await once(child, 'exit')) as [number | null];
    assert.equal(code, 0, await said);
  };
  await coveredBeyond(urlOf(server), exchange.backend.nowMs() + SHOWN_MS);
  const dump = join(folder, 'archive.dump');
  await run('pg_dump', ['--format=custom', `--file=${dump}`, `--dbname=${urlOf(server)}`]);
  exchange.change();
  const from = await number(server);
  await daemon.until(async () => (await number(server)) >= from + LOST_COMMITS);
  await runSql(server.url, 'DROP DATABASE archive WITH (FORCE)');
  await runSql(server.url, 'CREATE DATABASE archive');
  await run('pg_restore', [`--dbname=${urlOf(server)}`, dump]);
  await coveredBeyond(urlOf(server), exchange.backend.nowMs() + SHOWN_MS);
  await daemon.until(isReady);
  assert.deepEqual(await judged(urlOf(server)), NOTHING);
  const incidents = await runSql(urlOf(server), `SELECT FROM incident WHERE kind = 'went back'`);
  assert.equal(incidents.length, 1);
});
