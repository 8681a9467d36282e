import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../../src/kernel/clock.js';
import { Faults } from '../../../src/sandbox/faults/faults.js';
import { TAPE_HEADER } from '../../../src/sandbox/tape/recorded-tape.js';
import type { TapeBackend } from '../../../src/sandbox/tape/tape-backend.js';
import { openTape } from '../../../src/sandbox/tape/tape-backend.js';
import { startExchangeServer } from '../../../src/server/exchange-server.js';
import { tapeLines } from '../exchanges/recorded.js';
import { noTelemetry } from '../no-telemetry.js';
import { dropDatabase, makeDatabase } from '../postgres/postgres.js';
import { PostgresProxy } from '../postgres/postgres-proxy.js';
import { type OpenSql, openSql } from '../postgres/postgres-server.js';
import { assertConserved } from './conserved.js';
import { Crew, type CrewMember } from './crew.js';
import { type CandleJudgement, isSettled, type Judgement, judge, judgeCandles } from './judge.js';
import type { Kill, OracleWorld } from './world.js';

/** What happened in a world. */
export interface OracleReport extends Judgement {
  /** How often each fault fired, by its kind. */
  readonly fired: ReadonlyMap<string, number>;
  /** Processes that were killed in the middle of a write. */
  readonly killed: number;
  readonly candles: CandleJudgement;
}

const MARKET = 'BTC_USDT';
/** Between two looks at the archive while waiting. */
const LOOK_MS = 100;

interface Place {
  readonly world: OracleWorld;
  readonly backend: TapeBackend;
  readonly faults: Faults;
  readonly proxy: PostgresProxy;
  /** A connection beside the proxy. */
  readonly archive: OpenSql;
  readonly databaseUrl: string;
  readonly env: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

/**
 * Lets daemons collect until there is nothing left to do, each in a world of its own, and judges
 * their archives. They share a process, and die together in it, as each of them writes.
 *
 * @returns one report a world, in their order
 */
export async function runWorlds(worlds: readonly OracleWorld[]): Promise<OracleReport[]> {
  const places: Place[] = [];
  try {
    for (const world of worlds) places.push(await openPlace(world));
    const killed = new Map(places.map((place) => [place, 0]));
    const turns = Math.max(0, ...worlds.map(({ kills }) => kills.length));
    for (let turn = 0; turn < turns; turn += 1) {
      for (const place of await collectUntilKilled(places, turn)) {
        killed.set(place, (killed.get(place) ?? 0) + 1);
      }
    }
    await collectUntilSettled(places);
    const reports: OracleReport[] = [];
    for (const place of places) {
      const { world, archive, databaseUrl, faults } = place;
      const judgement = await named(place, () =>
        judge(databaseUrl, MARKET, world.trades, world.isStartLater),
      );
      const candles = await named(place, () => judgeCandles(archive, MARKET, world.trades));
      const fired = firedByKind(faults);
      reports.push({ ...judgement, fired, killed: killed.get(place) ?? 0, candles });
    }
    return reports;
  } finally {
    await Promise.all(places.map((place) => place.close()));
  }
}

/** Names the world in which something went wrong. */
async function named<T>({ world }: Pick<Place, 'world'>, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { seed } = world;
    throw new Error(`world ${seed} (replay with TEST_SEED=${seed})`, { cause: error });
  }
}

async function openPlace(world: OracleWorld): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), 'tapekeep-oracle-'));
  const path = join(folder, 'tape.csv');
  await writeFile(path, `${[TAPE_HEADER, ...tapeLines(world.trades)].join('\n')}\n`);
  const { pace, startOffsetS, historyMax, seed, variants } = world;
  const tapes = [{ market: MARKET, path }];
  const backend = await openTape(
    { tapes, seed, pace, startOffsetS, ...(historyMax && { historyMax }) },
    systemClock,
  );
  const faults = new Faults({ rules: world.rules, seed, clock: systemClock });
  const server = await startExchangeServer({
    ...{ backend, clock: systemClock, telemetry: noTelemetry.server, variants },
    interference: faults,
  });
  const databaseUrl = await makeDatabase('migrated');
  const archive = await openSql(databaseUrl);
  const proxy = new PostgresProxy(databaseUrl);
  const env = {
    TAPEKEEP_EXCHANGE_URL: server.url,
    TAPEKEEP_REALTIME_URL: server.realtimeUrl,
    TAPEKEEP_DATABASE_URL: await proxy.start(),
    // Small: many of them share a server.
    TAPEKEEP_DATABASE_POOL_SIZE: '2',
    TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '100',
    TAPEKEEP_STREAMS_TRADES_SCHEDULE: '* * * * * *',
    TAPEKEEP_STREAMS_DEPTH_ENABLED: 'false',
    TAPEKEEP_STREAMS_TICKERS_ENABLED: 'false',
    TAPEKEEP_STREAMS_STATES_ENABLED: 'false',
    TAPEKEEP_HTTP_PORT: '0',
    ...world.settings,
  };
  const close = async () => {
    await archive.end();
    await proxy.stop();
    await server.stop();
    backend.stop();
    await dropDatabase(databaseUrl);
    await rm(folder, { recursive: true, force: true });
  };
  return { world, backend, faults, proxy, archive, databaseUrl, env, close };
}

/**
 * Collects until each daemon is in the write in which it is to die, or has nothing to do before it
 * comes to that; then all of them die.
 *
 * @returns those that died in that write
 */
async function collectUntilKilled(places: readonly Place[], turn: number): Promise<Place[]> {
  const crew = new Crew();
  const mortal = places.flatMap((place) => {
    const kill = place.world.kills[turn];
    return kill === undefined ? [] : [{ place, kill }];
  });
  try {
    const held = await Promise.all(
      mortal.map(({ place, kill }) => named(place, () => heldWrite(place, kill, crew))),
    );
    crew.kill();
    for (const [at, { kill }] of mortal.entries()) if (kill.isForwarded) held[at]?.();
    return mortal.flatMap(({ place }, at) => (held[at] === undefined ? [] : [place]));
  } finally {
    crew.kill();
    await crew.leave();
    for (const { place } of mortal) place.proxy.onSent = () => true;
  }
}

/**
 * Lets a daemon collect up to a write, which is held on its way.
 *
 * @returns what sends it on; undefined when everything was settled before
 */
async function heldWrite(
  place: Place,
  { atWrite }: Kill,
  crew: Crew,
): Promise<(() => void) | undefined> {
  const { proxy, env } = place;
  let left = atWrite;
  const held = new Promise<() => void>((resolve) => {
    proxy.onSent = (data, hold) => {
      if (!isWrite(data)) return true;
      left -= 1;
      if (left > 0) return true;
      // What else it would write meanwhile is held as well.
      resolve(hold());
      return false;
    };
  });
  const before = settled(place, crew.start(env)).then(() => {
    if (left > 0) proxy.onSent = () => true;
    return undefined;
  });
  return await Promise.race([held, before]);
}

/** Collects until nothing is left to do, and stops the way an operator does. */
async function collectUntilSettled(places: readonly Place[]): Promise<void> {
  const crew = new Crew();
  try {
    await Promise.all(
      places.map((place) =>
        named(place, async () => {
          const daemon = crew.start(place.env);
          await settled(place, daemon);
          const url = `${await daemon.url}/metrics`;
          assertConserved(await (await fetch(url)).text());
          await daemon.stop();
        }),
      ),
    );
  } finally {
    await crew.leave();
  }
}

/** Waits until the archive is settled and the tape has been played to its end. */
async function settled({ world, backend, archive }: Place, daemon: CrewMember): Promise<void> {
  let lookedAtMs = Number.NEGATIVE_INFINITY;
  const endMs = (world.trades.at(-1)?.timeMs ?? 0) + 1000;
  await daemon.until(async () => {
    const nowMs = systemClock.monotonicMs();
    if (backend.nowMs() < endMs || nowMs - lookedAtMs < LOOK_MS) return false;
    lookedAtMs = nowMs;
    return await isSettled(archive, MARKET, world, backend.nowMs());
  });
}

/** The end of the data of a COPY: what was asked for after it, COMMIT as a rule, is done from here on. */
const COPY_DONE = 'c\0\0\0\u0004';

/** Whether something of the writer's own work is on its way: rows, coverage, or the end of both. */
function isWrite(data: Buffer): boolean {
  const written = ['EXECUTE insert_coverage', 'EXECUTE update_coverage', 'INSERT INTO trade'];
  return ['COPY ', ...written, COPY_DONE, 'COMMIT\0'].some((word) => data.includes(word));
}

function firedByKind(faults: Faults): ReadonlyMap<string, number> {
  const fired = new Map<string, number>();
  for (const { kind, fired: count } of faults.report()) {
    fired.set(kind, (fired.get(kind) ?? 0) + count);
  }
  return fired;
}
