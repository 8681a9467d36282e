import { cp, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '../../src/kernel/clock.js';
import { systemRandom } from '../../src/kernel/random.js';
import type { Batch, StreamRef } from '../../src/model/batch.js';
import { openStore, type Store } from '../../src/store/index.js';
import { PostgresProxy } from '../support/postgres/postgres-proxy.js';
import { NOON_S, ticker } from '../support/postgres/postgres-rows.js';
import {
  copyDatabase,
  makeTempDir,
  quietStoreEvents,
  runSql,
  startTestPostgres,
} from '../support/postgres/postgres-server.js';
import { BTC } from '../support/worlds/store-world.js';
import { type BenchReport, median, tableOf } from './report.js';

export const about = 'batches kept on disk while the database is away, and stored afterwards';

/*
 * Batches of 20 tickers with their claim, 200 under way at a time. Keeping: Store.commit while the database is cut off,
 * against writes of as many bytes to a bare file, each with a wait for the disk, as many as there are groups of 200.
 * Storing: the next start with these files, against Store.commit of the same batches.
 */

const BATCHES = 5_000;
const ROWS = 20;
const UNDER_WAY = 200;
const ROUNDS = 3;
const NEVER = new AbortController().signal;

function batchesOf(stream: StreamRef): Batch[] {
  return Array.from({ length: BATCHES }, (_, n) => {
    const fromS = n * ROWS;
    const span = { fromMs: (NOON_S + fromS) * 1_000, toMs: (NOON_S + fromS + ROWS) * 1_000 };
    const tickers = Array.from({ length: ROWS }, (_row, at) => ticker(1, fromS + at));
    return { tickers, claims: [{ stream, span, evidence: { endpoint: 'tickers' } }] };
  });
}

async function secondsOf(work: () => Promise<unknown>): Promise<number> {
  const startMs = systemClock.monotonicMs();
  await work();
  return (systemClock.monotonicMs() - startMs) / 1000;
}

async function openBench(databaseUrl: string, dir: string): Promise<Store> {
  const given = { clock: systemClock, random: systemRandom, telemetry: quietStoreEvents() };
  const limits = { drainDeadlineMs: 500, commitLatencyMs: 2 };
  const spool = { dir, maxBytes: 2_000_000_000 };
  const store = await openStore({ databaseUrl, ...given, ...limits, spool });
  await store.acquireWriterLock();
  return store;
}

async function commitAll(store: Store, stream: StreamRef, batches: readonly Batch[]) {
  let next = 0;
  const oneByOne = async () => {
    for (let batch = batches[next]; batch !== undefined; batch = batches[next]) {
      next += 1;
      await store.commit(batch, { once: { stream } });
    }
  };
  return await secondsOf(() => Promise.all(Array.from({ length: UNDER_WAY }, oneByOne)));
}

async function writeBare(dir: string, bytes: number): Promise<number> {
  const path = join(dir, 'bare');
  const groups = Math.ceil(BATCHES / UNDER_WAY);
  const part = Buffer.alloc(Math.ceil(bytes / groups), 'x');
  const file = await open(path, 'w');
  const seconds = await secondsOf(async () => {
    for (let group = 0; group < groups; group += 1) {
      await file.write(part);
      await file.datasync();
    }
  });
  await file.close();
  await rm(path);
  return seconds;
}

interface Round {
  readonly bytes: number;
  readonly keptS: number;
  readonly bareS: number;
  readonly storedS: number;
  readonly directS: number;
}

async function measure(server: string, round: number): Promise<Round> {
  const name = `bench_spool_${round}`;
  const url = await copyDatabase(server, name);
  const folder = await makeTempDir();
  const proxy = new PostgresProxy(url);
  const clear = async () => {
    // A user's TRUNCATE of a series is refused.
    const tables = 'TRUNCATE ticker, coverage, rows_by_day';
    await runSql(url, `SET session_replication_role = replica; ${tables}`);
    await runSql(url, 'CHECKPOINT');
  };
  try {
    const first = await openBench(await proxy.start(), join(folder, 'first'));
    await first.ensureMarkets([BTC], NOON_S * 1_000);
    const key = { kind: 'tickers', marketId: 1, variant: 0 } as const;
    const stream = await first.ensureStream({ ...key, collectFromMs: NOON_S * 1_000 });
    const batches = batchesOf(stream);
    await first.openSpool(NEVER);
    proxy.retarget(undefined);
    proxy.endAll();
    // The first one finds out that the database is away.
    await first.commit(batches[0] ?? {}, { once: { stream } });
    const keptS = await commitAll(first, stream, batches);
    const bytes = first.spooledBytes();
    const bareS = await writeBare(folder, bytes);
    const kept = join(folder, 'kept');
    const isNoLock = (path: string) => !path.endsWith('lock');
    await cp(join(folder, 'first'), kept, { recursive: true, filter: isNoLock });
    await first.stop();
    const direct = await openBench(url, join(folder, 'none'));
    const directS = await commitAll(direct, stream, batches);
    await direct.stop();
    await clear();
    const next = await openBench(url, kept);
    const storedS = await secondsOf(() => next.openSpool(NEVER));
    await next.stop();
    return { bytes, keptS, bareS, storedS, directS };
  } finally {
    await proxy.stop();
    await rm(folder, { recursive: true });
  }
}

/** @param options none */
export async function run(): Promise<BenchReport> {
  const server = await startTestPostgres();
  try {
    const rounds: Round[] = [];
    // The first one warms everything up.
    for (let round = 0; round <= ROUNDS; round += 1) {
      const measured = await measure(server.url, round);
      if (round > 0) rounds.push(measured);
    }
    const of = (figure: (round: Round) => number) =>
      Math.round(median(rounds.map(figure)) * 100) / 100;
    const ratio = {
      keeping: of(({ keptS, bareS }) => bareS / keptS),
      storing: of(({ storedS, directS }) => directS / storedS),
    };
    const perS = {
      kept: of(({ keptS }) => BATCHES / keptS),
      keptMb: of(({ bytes, keptS }) => bytes / 1e6 / keptS),
      bareMb: of(({ bytes, bareS }) => bytes / 1e6 / bareS),
      stored: of(({ storedS }) => BATCHES / storedS),
      direct: of(({ directS }) => BATCHES / directS),
    };
    return {
      table: tableOf([
        ['', 'batches/s', 'MB/s', 'ratio'],
        ['kept', `${perS.kept}`, `${perS.keptMb}`, `${ratio.keeping}`],
        ['a bare file', '', `${perS.bareMb}`, ''],
        ['stored from the spool', `${perS.stored}`, '', `${ratio.storing}`],
        ['stored at once', `${perS.direct}`, '', ''],
      ]),
      figures: { ratio, perS, batches: BATCHES, rows: ROWS, rounds: ROUNDS },
    };
  } finally {
    await server.stop();
  }
}
