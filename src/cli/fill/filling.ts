import { presentUnlessLate } from '../../collect/ledgers.js';
import { sleep } from '../../kernel/clock.js';
import { AbortedError, TapekeepError } from '../../kernel/errors.js';
import { FILLER, type SpanProgress, type Store } from '../../store/index.js';
import { boundedStep } from '../ending.js';
import { nowOf } from '../opening/database.js';
import {
  bindArchive,
  exchangeAddress,
  firstAnswer,
  guardIdentity,
  openExchange,
} from '../opening/exchange.js';
import type { Session } from '../opening/session.js';
import { type FillTask, FillWorker } from './worker.js';

export interface FillingOptions {
  readonly session: Session;
  readonly store: Store;
  /** Aborts when a person has had enough. */
  readonly signal: AbortSignal;
  /** Called after every look at the ledger. */
  readonly onProgress: (totals: SpanProgress) => void;
  /** Called with a text about who does the work, whenever that changes. */
  readonly onWorker: (text: string) => void;
}

/** How filling ended: all is settled, or for so long nothing has changed, or a person said stop. */
export type FillEnd = 'settled' | 'stuck' | 'stopped';

const LOOK_MS = 1000;
/** A gap whose next try is later than this is not waited for: some tries, whose pauses grow from a second on. */
const NEXT_TRY_MAX_MS = 10_000;
/** Without any change in the ledger for this long nothing more is expected of this run. */
const STUCK_MS = 120_000;
/** The same while another program does the work, which may have other work to do first. */
const STUCK_BESIDE_MS = 600_000;
/** A daemon that restarts takes its archive again within this time; then it is free for us. */
const FREE_FOR_MS = 15_000;
const EXCHANGE_TRIES = 6;
const STOP_MS = 3500;
const CLOSE_MS = 1000;
/** After this long without a change a person is not left to guess. */
const QUIET_MS = 60_000;
const DOES_THE_WORK = 'The running daemon does the work.';
const IS_QUIET =
  'Nothing has changed for a minute: the daemon has other work to do first, or its settings collect nothing of this (its status page names what they leave out).';
const HOLDS_THE_ARCHIVE =
  'Another tapekeep holds the archive, and collects nothing at present: the work is done once it does, or has ended.';
/** Spans that are asked about in one statement. */
const CHUNK = 500;

/**
 * Fills spans of the archive, by its own work or by that of a daemon that writes to the same archive:
 * then it only follows the ledger.
 *
 * States: *new* → *own* (it holds the writer's lock and is connected to the exchange) or *beside*
 * (another program holds it) → *ended*. From *beside* it goes to *own* when the other program has
 * gone for good.
 */
export class Filling {
  readonly #options: FillingOptions;
  #own: Own | undefined;
  #firstRows: number | undefined;

  constructor(options: FillingOptions) {
    this.#options = options;
  }

  /**
   * Takes the archive, if no other process writes to it, and connects to the exchange.
   *
   * @returns whether this program does the work itself
   * @throws StoreError `archive_of_another_exchange`, and the errors of an exchange that is away
   */
  async begin(): Promise<boolean> {
    try {
      await this.#options.store.acquireWriterLock(FILLER);
    } catch (error) {
      if (error instanceof TapekeepError && error.code === 'writer_lock_held') {
        const isCollecting = await this.#options.store.inspection.isCollecting();
        this.#options.onWorker(isCollecting ? DOES_THE_WORK : HOLDS_THE_ARCHIVE);
        return false;
      }
      throw error;
    }
    this.#own = await connect(this.#options);
    return true;
  }

  /** What asks the exchange and collects, while this program does the work itself. */
  get own(): Own | undefined {
    return this.#own;
  }

  /** The exchange's time now. */
  async nowMs(): Promise<number> {
    return Math.floor(this.#own?.time.nowMs() ?? (await nowOf(this.#options.store)));
  }

  /**
   * Works, or follows the work, until everything is filled or nothing more can be done now.
   *
   * @throws ExchangeChangedError
   */
  async run(tasks: readonly FillTask[]): Promise<FillEnd> {
    for (;;) {
      const own = this.#own;
      const end = own === undefined ? await this.#beside(tasks) : await this.#work(own, tasks);
      if (end !== 'free') return end;
      await this.begin();
      if (this.#own !== undefined) {
        this.#options.onWorker('The daemon is gone; this program goes on with the work itself.');
      }
    }
  }

  /** Progress of each task, in their order. */
  async progress(tasks: readonly FillTask[], untilMs: number): Promise<SpanProgress[]> {
    const { inspection } = this.#options.store;
    const all: SpanProgress[] = [];
    for (let at = 0; at < tasks.length; at += CHUNK) {
      const spans = tasks.slice(at, at + CHUNK).map(({ stream, span }) => ({ ...stream, span }));
      all.push(...(await inspection.progress(spans, untilMs)));
    }
    return all;
  }

  /** The sum of all tasks; of the rows, those that came since the first look. */
  totalsOf(tasks: readonly FillTask[], parts: readonly SpanProgress[]): SpanProgress {
    const { rows, ...spans } = sumOf(tasks, parts);
    this.#firstRows ??= rows;
    return { ...spans, rows: Math.max(0, rows - this.#firstRows) };
  }

  /** Lets go of the exchange. The store is its owner's to stop. */
  async end(): Promise<void> {
    const own = this.#own;
    await boundedStep(this.#options.session, 'exchange', CLOSE_MS, () => own?.close());
  }

  /** What this program covers must not seem to lie in the future to those who look later. */
  async #notePresent(): Promise<void> {
    if (this.#own === undefined) return;
    const { clock } = this.#options.session;
    await this.#options.store.notePresent(presentUnlessLate({ time: this.#own.time, clock }));
  }

  async #work(own: Own, tasks: readonly FillTask[]): Promise<FillEnd | 'free'> {
    const { session, signal, store } = this.#options;
    const ending = new AbortController();
    const work = own.worker.run(tasks, ending.signal);
    try {
      return await Promise.race([this.#follow(tasks, STUCK_MS), own.failed]);
    } finally {
      ending.abort(new AbortedError());
      await boundedStep(session, 'filling', STOP_MS, () => work);
      if (!signal.aborted) await store.closeFilledGaps();
    }
  }

  async #beside(tasks: readonly FillTask[]): Promise<FillEnd | 'free'> {
    const { store, session } = this.#options;
    const { clock } = session;
    let freeSinceMs: number | undefined;
    const isFree = async () => {
      if (await store.inspection.isWritten()) freeSinceMs = undefined;
      else freeSinceMs ??= clock.monotonicMs();
      return freeSinceMs !== undefined && clock.monotonicMs() - freeSinceMs >= FREE_FOR_MS;
    };
    return await this.#follow(tasks, STUCK_BESIDE_MS, isFree);
  }

  /** @param isFree whether the other program, which does the work, has gone for good */
  async #follow(
    tasks: readonly FillTask[],
    stuckMs: number,
    isFree?: () => Promise<boolean>,
  ): Promise<FillEnd | 'free'> {
    const { session, signal, onProgress, onWorker } = this.#options;
    const { clock } = session;
    let last = '';
    let changedAtMs = clock.monotonicMs();
    let isQuietSaid = false;
    while (!signal.aborted) {
      await this.#notePresent();
      const parts = await this.progress(tasks, (await this.nowMs()) + NEXT_TRY_MAX_MS);
      const totals = this.totalsOf(tasks, parts);
      onProgress(totals);
      if (parts.every(isSettled)) return 'settled';
      const now = JSON.stringify(parts);
      if (now !== last) changedAtMs = clock.monotonicMs();
      last = now;
      const quietMs = clock.monotonicMs() - changedAtMs;
      if (quietMs >= stuckMs) return 'stuck';
      if (quietMs >= QUIET_MS && isFree !== undefined && !isQuietSaid) {
        isQuietSaid = true;
        onWorker(IS_QUIET);
      }
      if (await isFree?.()) return 'free';
      await sleep(clock, LOOK_MS, signal).catch(() => undefined);
    }
    return 'stopped';
  }
}

/** Rows are counted once for each stream. */
function sumOf(tasks: readonly FillTask[], parts: readonly SpanProgress[]): SpanProgress {
  const sum = { lengthMs: 0, coveredMs: 0, unfillableMs: 0, waitingMs: 0, rows: 0 };
  const counted = new Set<number>();
  for (const [at, part] of parts.entries()) {
    sum.lengthMs += part.lengthMs;
    sum.coveredMs += part.coveredMs;
    sum.unfillableMs += part.unfillableMs;
    sum.waitingMs += part.waitingMs;
    const stream = tasks[at]?.stream;
    if (stream === undefined || counted.has(stream.streamId)) continue;
    counted.add(stream.streamId);
    sum.rows += part.rows;
  }
  return sum;
}

/** What this program works with when it does the work itself. */
type Own = Awaited<ReturnType<typeof connect>>;

async function connect({ session, store, signal }: FillingOptions) {
  const { address, builtIn } = await exchangeAddress(session);
  const access = openExchange(session, address);
  const close = async () => {
    await access[Symbol.asyncDispose]();
    await builtIn?.stop();
  };
  try {
    const identity = await firstAnswer(access, signal, session, EXCHANGE_TRIES);
    await bindArchive(store, access, identity, signal, session);
    let fail: (error: Error) => void = () => undefined;
    const failed = new Promise<never>((_, reject) => {
      fail = reject;
    });
    failed.catch(() => undefined);
    const quit = store.onWentBack(() => fail(wentBack()));
    const exchange = guardIdentity(access.client, identity, (error) => fail(error));
    const worker = new FillWorker({ ...session, archive: store, exchange, signal });
    // It rejects when going on would be wrong, and never resolves.
    const end = async () => {
      quit();
      await close();
    };
    return { exchange, time: session.exchangeTime, worker, failed, close: end };
  } catch (error) {
    await close();
    throw error;
  }
}

function wentBack(): TapekeepError {
  const text =
    'the database is older than it was left, or another one: run the command again, it goes on from what is stored';
  return new TapekeepError('database_went_back', text, { action: 'retry' });
}

function isSettled({ lengthMs, coveredMs, unfillableMs, waitingMs }: SpanProgress): boolean {
  // Lengths come as floating point of microseconds.
  return coveredMs + unfillableMs + waitingMs >= lengthMs - 0.5;
}
