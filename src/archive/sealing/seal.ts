import { createHash } from 'node:crypto';
import type { Clock } from '../../kernel/clock.js';
import { formatInstant } from '../../kernel/timestamp.js';
import { streamName } from '../../model/series.js';
import {
  findLacks,
  type PartitionInfo,
  type PartitionMarket,
  type SealFacts,
  type SealingAdmin,
  type Store,
} from '../../store/index.js';
import type { ColdStorage } from '../cold/storage.js';
import { ColdError } from '../errors.js';

/**
 * The steps of the partition lifecycle, in their order. Each is reported when it starts; what a program
 * that ends there leaves behind is the state before the step, or after it.
 */
export type LifeStep =
  | 'seal: guard'
  | 'seal: indexes'
  | 'seal: freeze'
  | 'seal: count'
  | 'seal: declare'
  | 'archive: read'
  | 'archive: write'
  | 'archive: verify'
  | 'archive: place'
  | 'archive: manifest'
  | 'archive: note'
  | 'archive: switch'
  | 'restore: check'
  | 'restore: load'
  | 'restore: indexes'
  | 'restore: count'
  | 'restore: switch'
  | 'restore: files'
  | 'retention: expire'
  | 'retention: files'
  | 'tidy';

/** Parts for the steps. */
export interface LifeContext {
  readonly admin: SealingAdmin;
  readonly store: Store;
  readonly cold: ColdStorage;
  readonly clock: Clock;
  readonly version: string;
  readonly watcher: LifeWatcher;
  readonly signal: AbortSignal;
}

/** Progress, for people and for logs. */
export interface LifeWatcher {
  /** A step starts. A returned promise is awaited. */
  readonly onStep: (step: LifeStep, partition: string) => void | Promise<void>;
  /** Rows of the step under way; `total` as far as it is known. */
  readonly onRows: (rows: number, total: number | null) => void;
}

/** Outcome of one partition. */
export interface LifeOutcome {
  readonly partition: PartitionInfo;
  readonly became: 'sealed' | 'archived' | 'restored' | 'expired' | 'kept';
  readonly rows: number | null;
  /** Sizes of heap and indexes before and after, where they changed. */
  readonly bytes?: { readonly before: Sizes; readonly after: Sizes };
  readonly coldBytes?: number;
  /** Why it was kept, or what a person should know. */
  readonly note: string | null;
}

export interface Sizes {
  readonly heap: number;
  readonly indexes: number;
}

/** Nothing became of it. */
export function kept(partition: PartitionInfo, note: string, rows: number | null = null) {
  return { partition, became: 'kept', rows, note } as const satisfies LifeOutcome;
}

/** Names how a checksum was made; another way of making it gets another name. */
const CHECKSUM_FORM = 'rows1-sha256';

const LINE_FEED = 10;

/** How many lines end in a piece of text. */
function countLines(piece: Buffer): number {
  let count = 0;
  for (let at = piece.indexOf(LINE_FEED); at >= 0; at = piece.indexOf(LINE_FEED, at + 1)) {
    count += 1;
  }
  return count;
}

/** Gets the lines of a market, piece by piece; pieces may end anywhere. */
export type MarketSink = (market: PartitionMarket, lines: AsyncIterable<Buffer>) => Promise<void>;

/**
 * Reads all rows of a partition once: counts them and sums them up. The sum is over the canonical lines
 * of each market in the order of ids, so that it is the same for the same values, in whatever way they
 * are stored. Memory does not grow with the rows.
 *
 * @param sink is given what is read, market by market
 */
export async function sumRows(
  { admin, watcher }: LifeContext,
  place: PartitionInfo,
  sink?: MarketSink,
): Promise<SealFacts> {
  const hash = createHash('sha256');
  let rows = 0;
  for (const market of await admin.markets(place)) {
    hash.update(`market ${market.marketId}\n`);
    const pieces = admin.marketRows(place, market.marketId);
    const counted = async function* () {
      for await (const piece of pieces) {
        hash.update(piece);
        rows += countLines(piece);
        watcher.onRows(rows, place.rows);
        yield piece;
      }
    };
    if (sink !== undefined) await sink(market, counted());
    else for await (const _ of counted());
  }
  return { rows, checksum: `${CHECKSUM_FORM}:${hash.digest('hex')}` };
}

/** @throws ColdError `cold_mismatch` unless the rows are those that a partition was sealed with */
export function assertSealed(partition: PartitionInfo, facts: SealFacts, stays: string): void {
  if (facts.checksum === partition.checksum && facts.rows === partition.rows) return;
  throw new ColdError(
    'cold_mismatch',
    `the rows of ${partition.name} do not add up to the checksum that it was sealed with (${facts.rows} rows now, ${partition.rows ?? 0} then): ${stays}. Somebody changed them; check them, then seal it again after "SELECT reopen_partition('${partition.name}')"`,
  );
}

const FREEZE_NOTE =
  'its rows were not frozen, because the user of the database is not of the tables’ owner';

/**
 * Seals one partition: from the guard on its rows do not change; then its indexes are built anew, its
 * rows are frozen, counted and summed up, and it is declared sealed. Until that last step it is hot,
 * and a late row just takes the guard away again, whereupon the last step finds nothing to declare.
 *
 * @throws StoreError `sealing_busy` when another process holds it for too long
 */
export async function sealPartition(
  context: LifeContext,
  partition: PartitionInfo,
): Promise<LifeOutcome> {
  const { admin, watcher, signal } = context;
  const step = async (name: LifeStep) => {
    signal.throwIfAborted();
    await watcher.onStep(name, partition.name);
  };
  await step('seal: guard');
  if (!(await admin.beginSeal(partition))) return kept(partition, 'it is not hot any more');
  const isEmpty = (await admin.markets(partition)).length === 0;
  const before = await sizesOf(context, partition);
  let isFrozen = true;
  if (!isEmpty) {
    await step('seal: indexes');
    await admin.rebuildIndexes(partition);
    await step('seal: freeze');
    isFrozen = await admin.freeze(partition);
  }
  await step('seal: count');
  const facts = await sumRows(context, partition);
  await step('seal: declare');
  if (!(await admin.finishSeal(partition, facts))) {
    return kept(partition, 'rows came while it was being sealed: it is tried again later');
  }
  const notes = [isFrozen ? null : FREEZE_NOTE, await lackNote(admin, partition)];
  return {
    partition,
    became: 'sealed',
    rows: facts.rows,
    bytes: { before, after: await sizesOf(context, partition) },
    note: notes.filter((note) => note !== null).join('; ') || null,
  };
}

/** A final partition that is not whole, in words; null for one that is. */
export async function lackNote(
  admin: SealingAdmin,
  partition: PartitionInfo,
): Promise<string | null> {
  const [lack, ...others] = await findLacks(admin.connection, partition);
  if (lack === undefined) return null;
  const { kind, market, variantS, span } = lack;
  const stream = streamName({ kind, variant: variantS });
  const [from, to] = [span.fromMs, span.toMs].map(formatInstant);
  const more = others.length === 0 ? '' : `, and parts of other streams (${others.length})`;
  return `incomplete: ${stream} of ${market} from ${from} to ${to} are missing${more}`;
}

async function sizesOf({ store }: LifeContext, { name }: PartitionInfo): Promise<Sizes> {
  const found = (await store.sealing.partitions()).find((one) => one.name === name);
  return { heap: found?.heapBytes ?? 0, indexes: found?.indexBytes ?? 0 };
}
