import { AbortedError } from '../../kernel/errors.js';
import type { Batch, CommitResult } from '../../ledger/batch.js';
import type { StoreEvents } from '../../observe/events.js';
import { batchSize } from './prepared.js';

/** A batch that waits for its transaction. */
export interface PendingBatch {
  readonly batch: Batch;
  readonly rows: number;
  readonly arrivedMs: number;
  resolve(result: CommitResult): void;
  reject(error: Error): void;
}

export interface PendingLimits {
  readonly maxBatches: number;
  readonly maxRows: number;
}

/**
 * The batches that wait, within limits of number and rows: at a limit, adding waits.
 *
 * States: *open* → *closed*. Once closed nothing is added; what is there can still be taken.
 */
export class PendingBatches {
  readonly #limits: PendingLimits;
  readonly #telemetry: StoreEvents;
  readonly #waiting: PendingBatch[] = [];
  #rows = 0;
  #isClosed = false;
  /** Adders that wait for room, first come first served. */
  #roomWaiters: (() => void)[] = [];
  #arrival: (() => void) | undefined;

  constructor(limits: PendingLimits, telemetry: StoreEvents) {
    this.#limits = limits;
    this.#telemetry = telemetry;
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
  async add(batch: Batch, nowMs: () => number, signal?: AbortSignal): Promise<CommitResult> {
    const rows = batchSize(batch);
    while (!this.#isClosed && !this.#hasRoom(rows)) await this.#room(signal);
    if (this.#isClosed) throw new AbortedError('the store is stopped');
    if (signal?.aborted) throw signal.reason as Error;
    return await new Promise<CommitResult>((resolve, reject) => {
      const onAbort = () => {
        this.#remove(entry);
        reject(signal?.reason as Error);
      };
      const done = () => signal?.removeEventListener('abort', onAbort);
      const entry: PendingBatch = {
        batch,
        rows,
        arrivedMs: nowMs(),
        resolve(result) {
          done();
          resolve(result);
        },
        reject(error) {
          done();
          reject(error);
        },
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#waiting.push(entry);
      this.#rows += rows;
      this.#changed();
      this.#arrival?.();
    });
  }

  /** Takes the oldest batches, at least one and then up to `maxRows` rows of them. */
  take(maxRows: number): PendingBatch[] {
    let count = 0;
    let rows = 0;
    for (const entry of this.#waiting) {
      if (count > 0 && rows + entry.rows > maxRows) break;
      count += 1;
      rows += entry.rows;
    }
    const taken = this.#waiting.splice(0, count);
    this.#rows -= rows;
    this.#changed();
    return taken;
  }

  /** Calls `wake` at the next arrival and at closing; undefined ends that. */
  onArrival(wake: (() => void) | undefined): void {
    this.#arrival = wake;
  }

  close(): void {
    this.#isClosed = true;
    this.#arrival?.();
    this.#wakeAdders();
  }

  #hasRoom(rows: number): boolean {
    if (this.#waiting.length === 0) return true;
    return (
      this.#waiting.length < this.#limits.maxBatches && this.#rows + rows <= this.#limits.maxRows
    );
  }

  #room(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason as Error);
        return;
      }
      const wake = () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      };
      const onAbort = () => {
        this.#roomWaiters = this.#roomWaiters.filter((one) => one !== wake);
        reject(signal?.reason as Error);
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#roomWaiters.push(wake);
    });
  }

  #remove(entry: PendingBatch): void {
    const at = this.#waiting.indexOf(entry);
    if (at < 0) return;
    this.#waiting.splice(at, 1);
    this.#rows -= entry.rows;
    this.#changed();
  }

  #changed(): void {
    const { maxBatches: limit } = this.#limits;
    this.#telemetry.queueChanged({ queue: 'store', size: this.#waiting.length, limit });
    this.#wakeAdders();
  }

  #wakeAdders(): void {
    if (!this.#isClosed && this.#waiting.length > 0 && !this.#hasRoom(1)) return;
    for (const wake of this.#roomWaiters.splice(0)) wake();
  }
}
