import { obtain } from '../../kernel/bounded.js';
import { type Clock, unlessAborted, Wakeup } from '../../kernel/clock.js';
import { AbortedError } from '../../kernel/errors.js';
import { type Batch, type CommitResult, type QuarantineRow, rowsIn } from '../../model/batch.js';
import { type Series, type SeriesRow, seriesOf, WRITTEN_SERIES } from '../../model/series.js';
import type { StoreEvents } from '../../observe/events.js';
import { readHeldSql } from './coverage.js';
import {
  newRowCounts,
  type Outcome,
  type Passes,
  type PendingRow,
  type RowCounts,
  type SaneWindow,
  type SeriesShape,
  type SeriesTimes,
  SHAPES,
} from './series.js';
import { type TradeColumnSet, timesOf, tradeColumnSet } from './trade-columns.js';

/** A refused row on its way to quarantine. The market is named by name or, from a row, by id. */
export type Refused = QuarantineRow & { readonly marketId: number | null };

/**
 * A group of batches made ready for its transaction: screened, without repetitions, in the order
 * of the keys. It is computed once and holds what does not depend on the database, so that a
 * transaction can be tried again with it.
 */
export interface PreparedGroup {
  readonly batches: readonly Batch[];
  /** Times at which partitions must exist. */
  readonly times: readonly SeriesTimes[];
  /** Markets that the transaction locks, in order. */
  readonly marketIds: readonly number[];
  /** Statements that read what is covered already. */
  readonly reads: readonly string[];
  /** Coverage is revoked before anything is read. */
  readonly isRevoking: boolean;
  readonly trades: TradeColumnSet;
  /**
   * The rows of all other series. Where a series keeps versions they follow each other in the order
   * received: each pass holds a key at most once.
   */
  readonly passes: Passes;
  readonly refused: readonly Refused[];
  /** Outcomes that are settled already, row counts by batch; trades are stored unless they turn out known. */
  readonly settled: readonly RowCounts[];
}

const MAX_PAYLOAD = 4_000;

/** Reason of a row whose key is stored with other content. */
export const CONFLICT = 'conflict';

/** A refused row as it goes to quarantine. */
export function refusedRow(table: string, reason: string, row: SeriesRow): Refused {
  const payload = JSON.stringify(row).slice(0, MAX_PAYLOAD);
  const { receivedAtMs, marketId } = row;
  return { receivedAtMs, endpoint: `store:${table}`, market: null, marketId, reason, payload };
}

/** The rows of a group by market, each identity once. */
type HeldRows = Map<number, Map<string | number, PendingRow<SeriesRow>>>;

/** In the order of the key, which every series begins with the market. */
function inKeyOrder(held: HeldRows, { compare }: SeriesShape<SeriesRow>): PendingRow<SeriesRow>[] {
  const markets = [...held].sort(([a], [b]) => a - b);
  // Rows of one market come in order already, forwards or backwards: sorting them is one pass.
  return markets.flatMap(([, of]) => [...of.values()].sort((a, b) => compare(a.row, b.row)));
}

class Preparation {
  readonly refused: Refused[] = [];
  readonly settled: RowCounts[];

  constructor(batches: readonly Batch[]) {
    this.settled = batches.map(() => newRowCounts());
  }

  settle(series: Series, batch: number, outcome: Outcome): void {
    const counts = this.settled[batch];
    if (counts !== undefined) counts[series][outcome] += 1;
  }

  /** The passes over the table of a series. */
  passes(
    shape: SeriesShape<SeriesRow>,
    batches: readonly Batch[],
    window: SaneWindow,
  ): (readonly PendingRow<SeriesRow>[])[] {
    const passes: (readonly PendingRow<SeriesRow>[])[] = [];
    let waiting: readonly PendingRow<SeriesRow>[] = batches.flatMap((each, batch) =>
      rowsIn(each, shape.table).map((row) => ({ row, batch })),
    );
    while (waiting.length > 0) {
      const { rows, later } = this.#screen(shape, waiting, window);
      passes.push(rows);
      waiting = later;
    }
    return passes;
  }

  #screen(
    shape: SeriesShape<SeriesRow>,
    pendingRows: readonly PendingRow<SeriesRow>[],
    window: SaneWindow,
  ) {
    const held: HeldRows = new Map();
    /** Rows for a later pass over the same table. */
    const later: PendingRow<SeriesRow>[] = [];
    const hasVersions = seriesOf(shape.table).versions !== null;
    for (const pendingRow of pendingRows) {
      const { row, batch } = pendingRow;
      const fault = shape.faultOf(row, window);
      if (fault !== undefined) {
        this.settle(shape.table, batch, 'rejected');
        this.refused.push(refusedRow(shape.table, fault, row));
        continue;
      }
      const of = obtain(held, row.marketId, () => new Map());
      const identity = shape.identity(row);
      const before = of.get(identity);
      if (before === undefined) {
        of.set(identity, pendingRow);
      } else if (shape.isSame(before.row, row)) {
        this.settle(shape.table, batch, 'duplicate');
      } else if (hasVersions) {
        // Another version is news, not a conflict.
        later.push(pendingRow);
      } else {
        this.settle(shape.table, batch, 'conflict');
        this.refused.push(refusedRow(shape.table, CONFLICT, row));
      }
    }
    return { rows: inKeyOrder(held, shape), later };
  }
}

export function prepareGroup(batches: readonly Batch[], window: SaneWindow): PreparedGroup {
  const work = new Preparation(batches);
  const given = batches.flatMap(({ quarantine }) => quarantine ?? []);
  const trades = tradeColumnSet(batches, window, {
    settle: (batch, outcome) => work.settle('trade', batch, outcome),
    refuse: (reason, row) => work.refused.push(refusedRow('trade', reason, row)),
  });
  for (const batch of trades.batches) work.settle('trade', batch, 'stored');
  const passes = new Map(
    [...SHAPES]
      .filter(([table]) => table !== 'trade')
      .map(([table, shape]) => [table, work.passes(shape, batches, window)]),
  );
  const refused = [...given.map((row) => ({ ...row, marketId: null })), ...work.refused];
  const times: SeriesTimes[] = [['trade', timesOf(trades)]];
  for (const [table, all] of passes) {
    const shape = SHAPES.get(table);
    times.push([table, all.flat().flatMap(({ row }) => shape?.timeMs(row) ?? [])]);
  }
  const { settled } = work;
  return {
    ...{ batches, times, trades, passes, refused, settled, marketIds: marketsOf(batches, trades) },
    ...{ isRevoking: batches.some(isRevoking), reads: readHeldSql(batches, trades) },
  };
}

/** True if coverage is revoked: claims of earlier batches must be committed first. */
function isRevoking({ revoke = [], expose = [] }: Batch): boolean {
  return revoke.length + expose.length > 0;
}

function marketsOf(batches: readonly Batch[], { runs }: TradeColumnSet): number[] {
  const ids = new Set(runs.map(({ marketId }) => marketId));
  for (const { claims = [], revoke = [], expose = [] } of batches) {
    for (const { stream } of [...claims, ...revoke]) ids.add(stream.marketId);
    for (const { marketId } of expose) ids.add(marketId);
  }
  return [...ids].map((id) => Math.trunc(id)).sort((a, b) => a - b);
}

/** Rows of a batch that take room in the queue and in a transaction. */
function batchSize(batch: Batch): number {
  return WRITTEN_SERIES.reduce(
    (sum, table) => sum + rowsIn(batch, table).length,
    [
      batch.quarantine,
      batch.claims,
      batch.revoke,
      batch.expose,
      batch.findings,
      batch.begins,
    ].reduce((count, more) => count + (more?.length ?? 0), 0),
  );
}

/** A batch that waits for its transaction. */
export interface PendingBatch {
  readonly batch: Batch;
  /** Which life of the database it was made in; see {@link Writer.era}. */
  readonly era: number;
  readonly rows: number;
  readonly arrivedMs: number;
  resolve(result: CommitResult): void;
  reject(error: Error): void;
}

export interface PendingOptions {
  readonly limits: { readonly maxBatches: number; readonly maxRows: number };
  readonly telemetry: StoreEvents;
  readonly clock: Clock;
}

/**
 * The batches that wait, within limits of number and rows: at a limit, adding waits.
 *
 * States: *open* → *closed*. Once closed nothing is added; what is there can still be taken.
 */
export class PendingBatches {
  readonly #options: PendingOptions;
  readonly #waiting: PendingBatch[] = [];
  #rows = 0;
  #isClosed = false;
  /** Adders that wait for room, first come first served. */
  readonly #roomWaiters: (() => void)[] = [];
  /** Notified of every arrival and of the end. */
  readonly arrival: Wakeup;

  constructor(options: PendingOptions) {
    this.#options = options;
    this.arrival = new Wakeup(options.clock);
  }

  get size(): number {
    return this.#waiting.length;
  }

  get rows(): number {
    return this.#rows;
  }

  get oldestArrivalMs(): number | undefined {
    return this.#waiting[0]?.arrivedMs;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Adds a batch as soon as there is room; settles when it is committed, refused or given up. */
  async add(batch: Batch, signal?: AbortSignal, era = 0): Promise<CommitResult> {
    const rows = batchSize(batch);
    while (!this.#isClosed && !this.#hasRoom(rows)) await this.#room(signal);
    if (this.#isClosed) throw new AbortedError('the store is stopped');
    if (signal?.aborted) throw signal.reason as Error;
    let giveUp = () => {};
    const settled = new Promise<CommitResult>((resolve, reject) => {
      const arrivedMs = this.#options.clock.monotonicMs();
      const entry = { batch, era, rows, arrivedMs, resolve, reject };
      giveUp = () => this.#remove(entry);
      this.#waiting.push(entry);
    });
    this.#rows += rows;
    this.#changed();
    this.arrival.notify();
    if (signal === undefined) return await settled;
    signal.addEventListener('abort', giveUp);
    const done = () => signal.removeEventListener('abort', giveUp);
    return await unlessAborted(signal, settled).finally(done);
  }

  /** Takes the oldest batches, at least one and then up to `maxRows` rows of them. One that revokes comes first. */
  take(maxRows: number): PendingBatch[] {
    let count = 0;
    let rows = 0;
    for (const entry of this.#waiting) {
      if (count > 0 && (rows + entry.rows > maxRows || isRevoking(entry.batch))) break;
      count += 1;
      rows += entry.rows;
    }
    const taken = this.#waiting.splice(0, count);
    this.#rows -= rows;
    this.#changed();
    return taken;
  }

  close(): void {
    this.#isClosed = true;
    this.arrival.notify();
    this.#wakeAdders();
  }

  #hasRoom(rows: number): boolean {
    if (this.#waiting.length === 0) return true;
    const { maxBatches, maxRows } = this.#options.limits;
    return this.#waiting.length < maxBatches && this.#rows + rows <= maxRows;
  }

  #room(signal?: AbortSignal): Promise<void> {
    const room = new Promise<void>((resolve) => this.#roomWaiters.push(resolve));
    return signal === undefined ? room : unlessAborted(signal, room);
  }

  #remove(entry: PendingBatch): void {
    const at = this.#waiting.indexOf(entry);
    if (at < 0) return;
    this.#waiting.splice(at, 1);
    this.#rows -= entry.rows;
    this.#changed();
  }

  #changed(): void {
    const { limits, telemetry } = this.#options;
    const size = this.#waiting.length;
    telemetry.queueChanged({ queue: 'store', size, limit: limits.maxBatches });
    this.#wakeAdders();
  }

  #wakeAdders(): void {
    if (!this.#isClosed && this.#waiting.length > 0 && !this.#hasRoom(1)) return;
    for (const wake of this.#roomWaiters.splice(0)) wake();
  }
}
