import { stat, statfs } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { type LifeReport, liveOn } from '../../archive/sealing/life.js';
import { findHeld, type LifeRules } from '../../archive/sealing/plan.js';
import { Verification } from '../../archive/verification.js';
import type { DiskSpace } from '../../console/state.js';
import { checksLagMs, gapsByReason, type LedgerCount } from '../../console/status-document.js';
import { obtain } from '../../kernel/bounded.js';
import { sleep } from '../../kernel/clock.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import { type Store, type StreamStatus, sharesWithoutHolder } from '../../store/index.js';
import { VERSION } from '../command.js';
import { lifeRulesOf } from '../life.js';
import { coldDirOf, coldOf, shareOf } from '../opening/database.js';
import type { Session } from '../opening/session.js';

const ROUND_MS = 15_000;
/** What is asked of the collectors is looked up this often. */
const REVIEW_MS = 3000;
/** Pause between counts, as a multiple of the last one's duration: large ledgers count slowly. */
const REST_FACTOR = 20;
/** Partitions are made ahead at every so many rounds. */
const PARTITION_ROUNDS = 40;

interface HouseOptions extends Session {
  readonly collector: { review(): Promise<void> };
  readonly signal: AbortSignal;
  /** Called at every round: a sign of life. */
  readonly tick: () => void;
  /** Called with the ledger, each time that it was gone through. */
  readonly onCounted: (counted: LedgerCount) => void;
  /** Called with the disks, each time that they were measured. */
  readonly onDisks: (disks: readonly DiskSpace[]) => void;
}

/**
 * What goes on beside collecting: partitions made ahead, sealed and moved, closed gaps noted, gaps counted, what
 * others ask for taken up, and what is stored verified. Of several shares the first one does what concerns all markets.
 * Ends when all of it has ended after `signal` aborted.
 */
export async function keepHouse(store: Store, options: HouseOptions): Promise<void> {
  const { config, clock, telemetry, exchangeTime } = options;
  const nowMs = () => exchangeTime.nowMs();
  const verifying = { archive: store, clock, nowMs, telemetry: telemetry.verify };
  const { isFirst } = shareOf(config);
  await Promise.all([
    isFirst && config.verification.enabled && new Verification(verifying).run(options.signal),
    passOnRequests(options),
    isFirst && keepPartitions(store, options),
    repeat(options, ROUND_MS, rounds(store, options)),
  ]);
}

type Repeating = Pick<HouseOptions, 'clock' | 'telemetry' | 'signal'>;

/** Passes on to the collector what commands and the verification ask of it, until `signal` aborts. */
export async function passOnRequests(
  options: Repeating & Pick<HouseOptions, 'collector'>,
): Promise<void> {
  await repeat(options, REVIEW_MS, () => options.collector.review());
}

/** Works at once and after each pause, until `signal` aborts. */
async function repeat(
  { clock, telemetry, signal }: Repeating,
  pauseMs: number,
  work: () => Promise<void>,
): Promise<void> {
  while (!signal.aborted) {
    await work().catch((error: unknown) => {
      if (signal.aborted) return;
      telemetry.daemon.warned({ code: codeOf(error), message: messageOf(error) });
    });
    await sleep(clock, pauseMs, signal).catch(() => undefined);
  }
}

function rounds(store: Store, options: HouseOptions) {
  const { config, clock, exchangeTime, telemetry, tick } = options;
  const { isFirst } = shareOf(config);
  let countAtMs = clock.monotonicMs();
  let round = 0;
  return async () => {
    tick();
    round += 1;
    const nowMs = Math.floor(exchangeTime.nowMs());
    const removed = isFirst ? await store.replaceRemovedPartitions(nowMs) : [];
    for (const name of removed) {
      const message = `the partition ${name} was dropped or detached by hand: what it covered is a gap now, and trades and candles of it are fetched again`;
      telemetry.daemon.warned({ code: 'partition_removed', message });
    }
    const startMs = clock.monotonicMs();
    const isCounting = startMs >= countAtMs;
    try {
      if (isFirst && round % PARTITION_ROUNDS === 0) await store.makePartitionsAhead(nowMs);
      if (isCounting) await countLedger(store, options);
    } finally {
      const endMs = clock.monotonicMs();
      if (isCounting) countAtMs = endMs + REST_FACTOR * (endMs - startMs);
    }
  };
}

/** Gaps that the page groups by their cause. */
const NEWEST_GAPS = 500;

/** Goes through the ledger whole, and reports how complete the archive is. */
export async function countLedger(store: Store, options: HouseOptions): Promise<void> {
  const { exchangeTime, telemetry, onCounted, config } = options;
  const share = shareOf(config);
  if (share.isFirst) await store.closeFilledGaps();
  const atMs = exchangeTime.nowMs();
  const streams = await store.statusRows(atMs);
  // Each daemon reports its own streams, or sums over all of them would count twice.
  const own = streams.filter((stream) => share.keeps(stream));
  telemetry.collect.gapsCounted({
    gaps: own.map(({ kind, market, openGaps, gapsWithinHistory, openS, unfillableS }) => ({
      ...{ stream: kind, market, count: openGaps },
      lostCount: Math.max(0, gapsWithinHistory - openGaps),
      ...{ lengthMs: openS * 1000, unfillableMs: unfillableS * 1000 },
    })),
  });
  const times = { nowMs: atMs, wallMs: options.clock.wallMs() };
  const [gaps, checks, newestGaps, held, holders] = await Promise.all([
    store.gapTotals(atMs),
    store.checks.totals(),
    store.listGaps({ limit: NEWEST_GAPS }, atMs),
    findHeld(store, lifeRulesOf(config), times),
    store.holders(),
  ]);
  onCounted({ atMs, streams, gaps, checks, newestGaps, held, holders });
  telemetry.verify.completenessCounted({
    idleShares: sharesWithoutHolder(holders).length,
    coverage: coverageOf(own),
    openGaps: (share.isFirst ? gapsByReason(gaps, 'open') : []).map(
      ({ kind, oldestMs, ...gap }) => ({
        ...{ stream: kind, ...gap },
        oldestAgeMs: Math.max(0, atMs - oldestMs),
      }),
    ),
    checks: (share.isFirst ? checks : []).map((one) => ({ ...one, lagMs: checksLagMs(one, atMs) })),
  });
  await reportSize(store, options);
}

/** A folder, or what of its path exists: that for cold files is made with the first of them. */
export async function nearestFolder(folder: string): Promise<string> {
  const isThere = await stat(folder).then(
    () => true,
    (error: unknown) => codeOf(error) !== 'ENOENT',
  );
  return isThere || dirname(folder) === folder ? folder : await nearestFolder(dirname(folder));
}

/** Reports the partitions and what they take, and the free space of the disks that this machine has of them. */
async function reportSize(
  store: Store,
  { config, telemetry, onDisks }: HouseOptions,
): Promise<void> {
  const coldDir = coldDirOf(config);
  const directories = {
    data: config.dataDir,
    // A bucket has no disk of this machine.
    ...(coldDir !== null && {
      cold: config.cold.enabled ? await nearestFolder(resolve(coldDir)) : coldDir,
    }),
  };
  const measuring = Object.entries(directories).map(async ([directory, path]) => {
    const { bavail, blocks, bsize } = await statfs(path);
    const name = directory as 'data' | 'cold';
    return { directory: name, freeBytes: bavail * bsize, sizeBytes: blocks * bsize };
  });
  // With a database elsewhere, or without archived partitions, a directory may not be there.
  const found = await Promise.allSettled(measuring);
  const disks = found.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  onDisks(disks);
  const partitions = await store.sealing.partitions();
  telemetry.store.spaceMeasured({
    databaseBytes: await store.databaseBytes(),
    coldBytes: partitions.reduce((sum, { coldBytes }) => sum + (coldBytes ?? 0), 0),
    disks,
  });
  const counts = new Map<string, { table: string; state: string; count: number }>();
  for (const { table, state } of partitions) {
    obtain(counts, `${table} ${state}`, () => ({ table, state, count: 0 })).count += 1;
  }
  telemetry.sealing.partitionsCounted({ partitions: [...counts.values()] });
}

/** Streams of several intervals of one market are one: what all of them cover of all they should. */
function coverageOf(streams: readonly StreamStatus[]) {
  const sums = new Map<string, { stream: string; market: string; covered: number; all: number }>();
  for (const { kind: stream, market, coveredS, gapS, beforeHistoryS } of streams) {
    const key = `${stream} ${market}`;
    const sum = obtain(sums, key, () => ({ stream, market, covered: 0, all: 0 }));
    sum.covered += coveredS;
    sum.all += coveredS + gapS - beforeHistoryS;
  }
  return [...sums.values()]
    .filter(({ all }) => all > 0)
    .map(({ stream, market, covered, all }) => ({ stream, market, ratio: covered / all }));
}

/**
 * Seals, archives and gives up partitions as the settings say, until `signal` aborts. It waits first: a
 * daemon that has just started has more urgent work.
 */
async function keepPartitions(
  store: Store,
  { collector, config, clock, telemetry, exchangeTime, signal }: HouseOptions,
): Promise<void> {
  const { sealing } = telemetry;
  const rules = lifeRulesOf(config);
  const nothing = () => undefined;
  for (;;) {
    await sleep(clock, config.partitions.every, signal).catch(nothing);
    if (signal.aborted) return;
    try {
      const { outcomes, failures } = isAnythingWanted(rules)
        ? await liveOn({
            ...{ store, rules, clock, signal, version: VERSION, nowMs: exchangeTime.nowMs() },
            cold: coldOf(config),
            watcher: { onStep: nothing, onRows: nothing },
          })
        : NOTHING_DONE;
      // Nothing is asked for any more of what is not kept, from now on.
      if (outcomes.some(({ became }) => became === 'expired')) await collector.review();
      for (const { partition, became, rows } of outcomes) {
        if (became === 'kept') continue;
        const { table, name } = partition;
        sealing.partitionChanged({ table, partition: name, became, rows });
      }
      for (const { error } of failures) {
        sealing.failed({ code: error.code, message: error.message });
      }
      sealing.roundEnded({ codes: failures.map(({ error }) => error.code) });
    } catch (error) {
      // A command that works on the same is no failure: it does what was to be done.
      if (signal.aborted || codeOf(error) === 'sealing_busy') continue;
      sealing.failed({ code: codeOf(error), message: messageOf(error) });
      sealing.roundEnded({ codes: [codeOf(error)] });
    }
  }
}

const NOTHING_DONE: LifeReport = { outcomes: [], failures: [] };

/** Where nothing is to be sealed, moved or given up, nothing is refused either, as on a cluster. */
function isAnythingWanted({ sealAfterMs, coldAfterMs, retentionMs }: LifeRules): boolean {
  return sealAfterMs !== null || coldAfterMs !== null || Object.keys(retentionMs).length > 0;
}
