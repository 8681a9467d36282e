import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../../src/kernel/clock.js';
import { TAPE_HEADER } from '../../../src/sandbox/csv-tape.js';
import { createFaults, type Faults } from '../../../src/sandbox/faults/faults.js';
import { openTape } from '../../../src/sandbox/open-tape.js';
import type { TapeBackend } from '../../../src/sandbox/tape-backend.js';
import { startExchangeServer } from '../../../src/server/exchange-server.js';
import { noTelemetry } from '../no-telemetry.js';
import { makeDatabase } from '../postgres.js';
import { PostgresProxy } from '../postgres-proxy.js';
import { type OpenSql, openSql } from '../postgres-server.js';
import { Program } from '../program.js';
import { tapeLines } from '../recorded.js';
import { isSettled, type Judgement, judge } from './judge.js';
import type { Kill, OracleWorld } from './world.js';

/** What happened in a world. */
export interface OracleReport extends Judgement {
  /** How often each fault fired, by its kind. */
  readonly fired: ReadonlyMap<string, number>;
  /** Processes that were killed in the middle of a write. */
  readonly killed: number;
}

const MARKET = 'BTC_USDT';
const DAEMON = ['--log-level', 'debug', '--log-format', 'json', 'start'];
/** Between two looks at the archive while waiting. */
const LOOK_MS = 100;

interface Place {
  readonly world: OracleWorld;
  readonly backend: TapeBackend;
  readonly proxy: PostgresProxy;
  /** A connection beside the proxy. */
  readonly archive: OpenSql;
  readonly env: Readonly<Record<string, string>>;
}

/** Lets a daemon collect in a world until there is nothing left to do, and judges the archive. */
export async function runWorld(world: OracleWorld): Promise<OracleReport> {
  const folder = await mkdtemp(join(tmpdir(), 'tapekeep-oracle-'));
  const path = join(folder, 'tape.csv');
  await writeFile(path, `${[TAPE_HEADER, ...tapeLines(world.trades)].join('\n')}\n`);
  const { pace, startOffsetS, seed, variants } = world;
  const source = { kind: 'recorded' as const, tapes: [{ market: MARKET, path }] };
  const backend = await openTape({ source, seed, pace, startOffsetS }, systemClock);
  const faults = createFaults({ rules: world.rules, seed, clock: systemClock });
  const server = await startExchangeServer({
    ...{ backend, clock: systemClock, telemetry: noTelemetry.server, variants },
    interference: faults,
  });
  const databaseUrl = await makeDatabase('migrated');
  const archive = await openSql(databaseUrl);
  const proxy = new PostgresProxy(databaseUrl);
  const proxyUrl = await proxy.start();
  const env = {
    TAPEKEEP_EXCHANGE_URL: server.url,
    TAPEKEEP_REALTIME_URL: server.realtimeUrl,
    TAPEKEEP_DATABASE_URL: proxyUrl,
    TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '100',
    TAPEKEEP_STREAMS_TRADES_SCHEDULE: '* * * * * *',
    TAPEKEEP_STREAMS_DEPTH_ENABLED: 'false',
    TAPEKEEP_STREAMS_TICKERS_ENABLED: 'false',
    TAPEKEEP_STREAMS_STATES_ENABLED: 'false',
    TAPEKEEP_HTTP_PORT: '0',
    ...world.settings,
  };
  const place = { world, backend, proxy, archive, env };
  try {
    let killed = 0;
    for (const kill of world.kills) if (await collectUntilKilled(place, kill)) killed += 1;
    await collectUntilSettled(place);
    const judgement = await judge(databaseUrl, MARKET, world.trades, world.isStartLater);
    return { ...judgement, fired: firedByKind(faults), killed };
  } finally {
    await archive.end();
    await proxy.stop();
    await server.stop();
    backend.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Collects, and dies in the middle of a write; false when everything was settled before. */
async function collectUntilKilled(place: Place, kill: Kill): Promise<boolean> {
  const { proxy, env } = place;
  let left = kill.atWrite;
  let wasKilled = false;
  const daemon = new Program(DAEMON, { env });
  proxy.onSent = (data) => {
    if (wasKilled) return false;
    if (!isWrite(data)) return true;
    left -= 1;
    if (left > 0) return true;
    wasKilled = true;
    daemon.kill('SIGKILL');
    return kill.isForwarded;
  };
  try {
    await Promise.race([daemon.ended(), settled(place, daemon).catch(() => undefined)]);
  } finally {
    await daemon.dispose();
    proxy.onSent = () => true;
  }
  return wasKilled;
}

/** Collects until nothing is left to do, and stops the way an operator does. */
async function collectUntilSettled(place: Place): Promise<void> {
  const daemon = new Program(DAEMON, { env: place.env });
  try {
    await settled(place, daemon);
    await assertConserved(daemon);
    daemon.kill('SIGTERM');
    const { code } = await daemon.ended();
    if (code !== 0) throw new Error(`the daemon ended with ${code}:\n${daemon.dump()}`);
  } finally {
    await daemon.dispose();
  }
}

/** Waits until the archive is settled and the tape has been played to its end. */
async function settled({ world, backend, archive }: Place, daemon: Program): Promise<void> {
  let lookedAtMs = Number.NEGATIVE_INFINITY;
  const endMs = (world.trades.at(-1)?.timeMs ?? 0) + 1000;
  await daemon.line(async () => {
    const nowMs = systemClock.monotonicMs();
    if (backend.nowMs() < endMs || nowMs - lookedAtMs < LOOK_MS) return false;
    lookedAtMs = nowMs;
    return await isSettled(archive, MARKET, world.trades, backend.nowMs());
  });
}

/** Whether something of the writer's own work is on its way: rows, coverage, or the end of both. */
function isWrite(data: Buffer): boolean {
  return ['COPY ', 'INSERT INTO coverage', 'INSERT INTO trade', 'COMMIT'].some((word) =>
    data.includes(word),
  );
}

function firedByKind(faults: Faults): ReadonlyMap<string, number> {
  const fired = new Map<string, number>();
  for (const { kind, fired: count } of faults.report()) {
    fired.set(kind, (fired.get(kind) ?? 0) + count);
  }
  return fired;
}

/** Every row that came in has exactly one end, as the metrics tell it (data model, invariant 3). */
async function assertConserved(daemon: Program): Promise<void> {
  const line = await daemon.line((text) => text.trimStart().startsWith('metrics'));
  const url = line.trim().split(/\s+/)[1] ?? '';
  const text = await (await fetch(url)).text();
  const sums = new Map<string, { received: number; ended: number }>();
  for (const [, name, stream = '', outcome, value] of text.matchAll(
    /^tapekeep_(rows_total|rows_in_flight)\{stream="(\w+)"(?:,outcome="(\w+)")?\} (\d+)$/gm,
  )) {
    const sum = sums.get(stream) ?? { received: 0, ended: 0 };
    if (name === 'rows_total' && outcome === 'received') sum.received += Number(value);
    else sum.ended += Number(value);
    sums.set(stream, sum);
  }
  if (!text.includes('tapekeep_rows_total')) throw new Error(`no metrics at ${url}: ${text}`);
  for (const [stream, { received, ended }] of sums) {
    if (received !== ended) throw new Error(`${stream}: ${received} received, ${ended} ended`);
  }
}
