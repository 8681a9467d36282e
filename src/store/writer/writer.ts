import { sleep, unlessAborted } from '../../kernel/clock.js';
import { AbortedError, codeOf, isAborted, messageOf } from '../../kernel/errors.js';
import { Mutex } from '../../kernel/mutex.js';
import type { Random } from '../../kernel/random.js';
import { Backoff } from '../../kernel/retry.js';
import { isEmptySpan, type Span } from '../../kernel/span.js';
import { isoMs } from '../../kernel/timestamp.js';
import type { Batch, CommitResult } from '../../model/batch.js';
import type { Series } from '../../model/series.js';
import type { Share } from '../../model/share.js';
import type { ConnectionOptions } from '../address.js';
import {
  actionOf,
  isProgramError,
  isState,
  StoreError,
  sqlstateOf,
  toStoreError,
} from '../errors.js';
import type { Partitions } from '../schema/partitions.js';
import {
  type Acknowledged,
  recordWentBack,
  WentBackError,
  withoutClaims,
} from './commit-number.js';
import {
  type ArchivedTrades,
  isFinalPartition,
  type Resolution,
  resolveFinal,
} from './final-partitions.js';
import {
  type PendingBatch,
  PendingBatches,
  type PendingOptions,
  type PreparedGroup,
  prepareGroup,
} from './groups.js';
import { Quarantine } from './refused-rows.js';
import {
  newRowCounts,
  type SaneWindow,
  SCATTERED_MIN,
  type SeriesTimes,
  scatteredTimes,
  sumOutcomes,
} from './series.js';
import { BlockerWatch, WriterSession } from './session.js';
import { BESIDE_MS } from './trade-rows.js';
import { commitGroup, type GroupResult } from './transaction.js';

/** What one group has tried so far. */
interface RetryState {
  readonly backoff: Backoff;
  surprises: number;
  resolutions: number;
  programErrors: number;
}

interface WriterOptions extends PendingOptions {
  readonly connection: ConnectionOptions;
  /** Left out: all markets, however daemons divide them. */
  readonly share?: Share | undefined;
  readonly random: Random;
  readonly partitions: Partitions;
  readonly commitLatencyMs: number;
  readonly maxGroupRows: number;
  readonly retryCapMs: number;
  readonly drainDeadlineMs: number;
  readonly quarantineKeepRows: number;
  readonly saneWindow: () => SaneWindow;
  /** First instant of exchange time that has not come yet. */
  readonly presentMs: () => number;
  readonly archivedTrades?: ArchivedTrades;
  /** Called when the database turned out to be older than it was left, or another one. */
  readonly onWentBack: () => void;
  /** Called when the database stops taking what is committed. */
  readonly onOutage?: () => void;
}

/** Batches that go to the database together, made ready for it. */
interface Taken {
  readonly entries: readonly PendingBatch[];
  readonly group: PreparedGroup;
}

/** First pause after a failure, before jitter. */
const RETRY_BASE_MS = 100;
/**
 * Tries at once after a partition was missing, or a row was there that was not seen before (of one who
 * writes without the locks), until that counts as a failure like any other.
 */
const MAX_SURPRISES = 3;
/** Partitions that one group may find to be final; one batch holds fewer. */
const MAX_RESOLUTIONS = 1_000;
/** A connection that breaks may surprise the program, too; what fails again and again is the batch. */
const MAX_PROGRAM_ERRORS = 3;

/**
 * Commits batches, those that arrive together in one transaction.
 *
 * States: *gathering* (the oldest batch waits for company, at most the commit latency) →
 * *committing* (one group at a time; a passing failure repeats the same group until it succeeds)
 * → *gathering* … After {@link Writer.stop}: *draining* → *stopped*.
 *
 * Repeating is safe because storing a batch twice changes nothing; so a COMMIT whose answer was
 * lost is simply repeated. A batch that the database refuses for what it is must not hold up
 * others: its group is committed one batch at a time.
 *
 * When the database went back, a new *era* begins: batches of an older one keep their rows and lose
 * their claims, because whoever made them relied on rows that may be gone.
 */
export class Writer {
  readonly #options: WriterOptions;
  readonly #pending: PendingBatches;
  readonly #session: WriterSession;
  readonly #quarantine: Quarantine;
  readonly #outages: OutageLog;
  readonly #abort = new AbortController();
  readonly #running: Promise<void>;
  /** One user of the session at a time. */
  readonly #turn = new Mutex();
  /** Partitions of scattered rows are made for one batch at a time. */
  readonly #making = new Mutex();
  #stopped: Promise<void> | undefined;
  /** Made ready while the group before it was at the database. */
  #ahead: Taken | undefined;
  #era = 0;
  /** How this era began. */
  #wentBack: WentBackError | undefined;
  /** Whether that is still to be written down. */
  #isUnrecorded = false;

  constructor(options: WriterOptions) {
    this.#options = options;
    this.#pending = new PendingBatches(options);
    this.#session = new WriterSession(options.connection, options.share);
    this.#quarantine = new Quarantine(options.quarantineKeepRows);
    this.#outages = new OutageLog(options);
    this.#running = this.#run();
  }

  /** Grows each time that the database went back. */
  get era(): number {
    return this.#era;
  }

  /** @param era in which the batch was made */
  async commit(batch: Batch, era: number, signal?: AbortSignal): Promise<CommitResult> {
    for (const { span, stream } of batch.claims ?? []) {
      if (isEmptySpan(span) || !Number.isInteger(span.fromMs) || !Number.isInteger(span.toMs)) {
        const text = `[${span.fromMs}, ${span.toMs})`;
        throw new StoreError(
          'data_refused',
          `a claim for stream ${stream.streamId} covers no whole milliseconds: ${text}`,
        );
      }
    }
    const missing = scatteredTimes(batch, this.#options.saneWindow()).filter(
      ([series, times]) => this.#options.partitions.unknownOf(series, times).length > SCATTERED_MIN,
    );
    if (missing.length > 0) await this.#makeApart(missing, signal);
    return await this.#pending.add(batch, signal, era);
  }

  /** Makes many partitions before their batch joins the queue: all other batches would wait for them. */
  async #makeApart(missing: readonly SeriesTimes[], signal?: AbortSignal): Promise<void> {
    const isWanted = () => signal?.aborted !== true && !this.#pending.isClosed;
    const making = this.#making.run(async () => {
      for (const [series, times] of missing) {
        await this.#options.partitions.ensureTimes(series, times, isWanted);
      }
    });
    // What fails here, such as a partition that is final, the group meets and settles.
    await making.catch(() => undefined);
  }

  /** Why nothing can be stored at present; undefined while that is possible. */
  get outage(): string | undefined {
    return this.#outages.detail;
  }

  /** The commit that the database confirmed last; undefined without the lock. */
  get acknowledged(): Acknowledged | undefined {
    return this.#session.number.acknowledged;
  }

  /** Another transaction changed what the program remembers; see {@link CommitNumber}. */
  changedBeside(): void {
    this.#session.number.changedBeside();
  }

  async acquireLock(application?: string): Promise<void> {
    await this.#turn
      .run(() => this.#session.acquireLock(application))
      .catch(async (error: unknown) => {
        if (!(error instanceof WentBackError)) throw error;
        this.#beginEra(error);
        await this.#turn.run(() => this.#session.acquireLock(application));
      });
    // There may be nothing to commit for long, and yet the database is known to be there.
    this.#outages.over();
  }

  /** Token of the hold of the writer's lock; null before it was taken. */
  get lockToken(): string | null {
    return this.#session.number.token;
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#end();
    return this.#stopped;
  }

  async #end(): Promise<void> {
    this.#pending.close();
    const cancel = this.#options.clock.after(this.#options.drainDeadlineMs, () => {
      this.#abort.abort(new AbortedError('the store was stopped before this was committed'));
      this.#session.destroy();
    });
    await this.#running;
    cancel();
    await this.#session.close();
  }

  async #run(): Promise<void> {
    for (;;) {
      if (this.#ahead === undefined) await this.#gather();
      const taken = this.#ahead ?? this.#take();
      this.#ahead = undefined;
      if (taken.entries.length > 0) await this.#settle(taken);
      else if (this.#pending.isClosed) return;
    }
  }

  #take(): Taken {
    return this.#prepare(this.#pending.take(this.#options.maxGroupRows));
  }

  #prepare(entries: readonly PendingBatch[]): Taken {
    const start = this.#wentBack;
    const batches = entries.map(({ batch, era }) =>
      era === this.#era || start === undefined ? batch : withoutClaims(batch, start),
    );
    return { entries, group: prepareGroup(batches, this.#options.saneWindow()) };
  }

  /** Uses the time in which the server is busy, if so much waits that nothing could join it. */
  #prepareAhead(): void {
    const isFull = this.#pending.rows >= this.#options.maxGroupRows;
    if (isFull && this.#ahead === undefined) this.#ahead = this.#take();
  }

  /** Returns when a group is due: it is full, its oldest batch has waited enough, or the end. */
  async #gather(): Promise<void> {
    const { clock, commitLatencyMs, maxGroupRows } = this.#options;
    for (;;) {
      const oldestMs = this.#pending.oldestArrivalMs ?? Number.POSITIVE_INFINITY;
      if (this.#pending.isClosed || this.#pending.rows >= maxGroupRows) return;
      const waitMs = oldestMs + commitLatencyMs - clock.monotonicMs();
      if (waitMs <= 0) return;
      await this.#pending.arrival.wait(waitMs, this.#abort.signal);
    }
  }

  /** Commits a group and returns each batch its result. Never rejects. */
  async #settle({ entries, group }: Taken): Promise<void> {
    try {
      const results = await this.#commitUntilDone(group);
      for (const [index, entry] of entries.entries()) {
        entry.resolve(results[index] ?? { outcomes: newRowCounts(), ranges: [] });
      }
    } catch (error) {
      if (error instanceof WentBackError) {
        this.#beginEra(error);
        await this.#settle(this.#prepare(entries));
        return;
      }
      const isOneToBlame = !isAborted(error) && actionOf(error) === 'data';
      if (isOneToBlame && entries.length > 1) {
        for (const entry of entries) await this.#settle(this.#prepare([entry]));
        return;
      }
      const failure = toStoreError(error, 'the batch was refused');
      for (const entry of entries) entry.reject(failure);
    }
  }

  /** What was made ready, and what is remembered, belongs to the database as it was. */
  #beginEra(error: WentBackError): void {
    const { partitions, telemetry, onWentBack } = this.#options;
    this.#era += 1;
    this.#wentBack = error;
    this.#isUnrecorded = true;
    partitions.forget();
    if (this.#ahead !== undefined) this.#ahead = this.#prepare(this.#ahead.entries);
    const { acknowledged, found, why } = error;
    telemetry.databaseWentBack({ acknowledged, found, why });
    onWentBack();
  }

  async #commitUntilDone(prepared: PreparedGroup): Promise<readonly CommitResult[]> {
    const { telemetry, random, retryCapMs } = this.#options;
    const { batches } = prepared;
    let resolution: Resolution = { group: prepared, realign: (results) => results };
    const backoff = new Backoff({ baseMs: RETRY_BASE_MS, capMs: retryCapMs }, random);
    const retry: RetryState = { backoff, surprises: 0, resolutions: 0, programErrors: 0 };
    for (;;) {
      try {
        const attempt = this.#turn.run(() => this.#tryOnce(resolution.group));
        // A connect that hangs must not hold up the end; it closes itself when it gets through.
        const { committed, durationMs } = await unlessAborted(this.#abort.signal, attempt);
        this.#outages.over();
        for (const counted of committed.refused) telemetry.quarantined(counted);
        telemetry.committed({
          durationMs,
          batches: batches.length,
          rows: sumOutcomes(committed.results),
        });
        return resolution.realign(committed.results);
      } catch (error) {
        this.#abort.signal.throwIfAborted();
        if (isFinalPartition(error) && retry.resolutions < MAX_RESOLUTIONS)
          resolution = await this.#resolveFinal(error, batches, resolution, retry);
        else await this.#recover(error, retry);
      }
    }
  }

  /** For rows of partitions that are final; see final-partitions.ts. */
  async #resolveFinal(
    error: unknown,
    batches: readonly Batch[],
    resolution: Resolution,
    retry: RetryState,
  ): Promise<Resolution> {
    const { telemetry, saneWindow, clock, archivedTrades } = this.#options;
    retry.resolutions += 1;
    const onReopened = (partition: string) => telemetry.partitionReopened({ partition });
    try {
      return await this.#turn.run(async () => {
        const connection = await this.#session.connection();
        return await resolveFinal(error, batches, resolution, {
          ...{ connection, window: saneWindow(), clock, onReopened, signal: this.#abort.signal },
          ...(archivedTrades === undefined ? {} : { archivedTrades }),
        });
      });
    } catch (failure) {
      await this.#recover(failure, retry);
      return resolution;
    }
  }

  /** One transaction, and how long it took from its BEGIN on: no connecting, no tries before it. */
  async #tryOnce(group: PreparedGroup): Promise<{ committed: GroupResult; durationMs: number }> {
    this.#abort.signal.throwIfAborted();
    refuseFuture(group.batches, this.#options.presentMs());
    const connection = await this.#session.connection();
    const { partitions, clock, telemetry } = this.#options;
    const startedMs = clock.monotonicMs();
    using watch = new BlockerWatch(this.#options.connection, telemetry, connection.pid);
    const { number } = this.#session;
    try {
      if (this.#isUnrecorded && this.#wentBack !== undefined) {
        await recordWentBack(connection, this.#wentBack);
        this.#isUnrecorded = false;
      }
      const stretches = new Map<Series, readonly Span[]>();
      for (const [table, times] of group.times) {
        await partitions.ensureTimes(table, times);
        const besideMs = table === 'trade' ? BESIDE_MS : 0;
        stretches.set(table, await partitions.stretches(table, times, besideMs));
      }
      const committed = await commitGroup(
        {
          ...{ connection, number, quarantine: this.#quarantine, stretches },
          whenSent: () => this.#prepareAhead(),
        },
        group,
      );
      number.committed();
      return { committed, durationMs: clock.monotonicMs() - startedMs };
    } catch (error) {
      // A partition that it remembers may have been dropped or archived.
      partitions.forget();
      // Only an answer of the server proves that the connection is in step.
      const isInStep = sqlstateOf(error) !== undefined || error instanceof StoreError;
      number.failed(isInStep);
      // What was the primary is one no longer: only a new connection can find the new one.
      const isPrimary = !isState(error, 'read only');
      await this.#session.reset(isInStep && isPrimary && !connection.isLost);
      throw watch.explain(error);
    }
  }

  /** Prepares the next try, or throws what cannot be helped. */
  async #recover(error: unknown, retry: RetryState): Promise<void> {
    const { clock, telemetry } = this.#options;
    if (error instanceof WentBackError) throw error;
    const action = actionOf(error);
    const isSurprise = action === 'partition' || action === 'duplicate';
    if (isSurprise && retry.surprises < MAX_SURPRISES) {
      retry.surprises += 1;
      return;
    }
    if (isProgramError(error)) {
      retry.programErrors += 1;
      if (retry.programErrors >= MAX_PROGRAM_ERRORS) throw unreadable(error);
    }
    const willRetry = action === 'retry' || action === 'partition';
    this.#outages.log(error, willRetry);
    if (!willRetry) throw toStoreError(error, 'the database refused a batch');
    await sleep(clock, retry.backoff.nextMs(), this.#abort.signal);
    telemetry.queueChanged({
      queue: 'store',
      size: this.#pending.size,
      limit: this.#options.limits.maxBatches,
    });
  }
}

/** A batch that the program cannot write must not keep all others from the archive. */
function unreadable(error: unknown): StoreError {
  const text = `the program failed ${MAX_PROGRAM_ERRORS} times to write a batch, which is left out (${messageOf(error)}); please report it`;
  return new StoreError('data_refused', text, { cause: error });
}

/** What has not happened yet cannot be complete: such a claim comes from a clock that lies. */
function refuseFuture(batches: readonly Batch[], presentMs: number): void {
  for (const { stream, span } of batches.flatMap(({ claims }) => claims ?? [])) {
    if (span.toMs <= presentMs) continue;
    const [end, present] = [span.toMs, presentMs].map(isoMs);
    throw new StoreError(
      'claim_beyond_present',
      `a claim for stream ${stream.streamId} (${stream.kind}) ends at ${end}, and at the exchange it is ${present}: nothing of this batch is stored. Check the clocks of the exchange and of this machine`,
    );
  }
}

/** The same failure is reported once in so long. */
const REPORT_EVERY_MS = 10_000;
const NOTHING_REPORTED = { code: '', atMs: Number.NEGATIVE_INFINITY };

const LOGIN_ADVICE =
  'rows wait until the login works again: let it in again, or start again with the right database.url';

/** With what helps a program that runs, and knows its login from its start. */
function describe(error: unknown): string {
  const text = messageOf(error);
  return codeOf(error) === 'database_login_refused' ? `${text}; ${LOGIN_ADVICE}` : text;
}

/** Failures of the server as a whole; a deadlock or a lock held is none. */
function isOutage(error: unknown): boolean {
  if (codeOf(error) === 'database_login_refused') return true;
  const sqlstate = sqlstateOf(error);
  return sqlstate === undefined || /^(08|25|53|57|58|XX)/.test(sqlstate);
}

/** Reports failed commits, not each of them, and outages of the database. */
class OutageLog {
  readonly #options: Pick<WriterOptions, 'clock' | 'telemetry' | 'onOutage'>;
  #isUp: boolean | undefined;
  /** What the database fails with; undefined while it answers. */
  detail: string | undefined;
  #reported = NOTHING_REPORTED;

  constructor(options: Pick<WriterOptions, 'clock' | 'telemetry' | 'onOutage'>) {
    this.#options = options;
  }

  /** After a success: what fails from here on is a new failure, even if it looks like the last one. */
  over(): void {
    this.#reported = NOTHING_REPORTED;
    this.#becomes(true);
  }

  log(error: unknown, willRetry: boolean): void {
    const code = sqlstateOf(error) ?? codeOf(error);
    const { clock, telemetry } = this.#options;
    const nowMs = clock.monotonicMs();
    const isKnown = this.#reported.code === code && nowMs - this.#reported.atMs < REPORT_EVERY_MS;
    if (!willRetry || !isKnown) {
      this.#reported = { code, atMs: nowMs };
      telemetry.commitFailed({ code, message: describe(error), willRetry });
    }
    if (willRetry && isOutage(error)) this.#becomes(false, describe(error));
    else if (!willRetry && sqlstateOf(error) !== undefined) this.#becomes(true);
    else if (this.detail !== undefined) this.detail = describe(error);
  }

  #becomes(up: boolean, detail?: string): void {
    this.detail = detail;
    if (this.#isUp === up) return;
    this.#isUp = up;
    this.#options.telemetry.databaseState({ up, ...(detail === undefined ? {} : { detail }) });
    if (!up) this.#options.onOutage?.();
  }
}
