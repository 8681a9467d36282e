import type { Collector } from '../../collect/collector.js';
import type { Config } from '../../config/schema.js';
import { isSettled, NEXT_TRY_MAX_MS } from '../../console/api/filling.js';
import { sleep, unlessAborted } from '../../kernel/clock.js';
import { AbortedError, codeOf, TapekeepError } from '../../kernel/errors.js';
import { doOverlap } from '../../kernel/span.js';
import type { BoundedOutput } from '../../observe/bounded-output.js';
import {
  FILLER,
  type FillRequests,
  type Gap,
  type SpanProgress,
  type Store,
} from '../../store/index.js';
import type { Need } from '../command.js';
import { makeCollector, type Restriction } from '../daemon/collecting.js';
import { passOnRequests } from '../daemon/housekeeping.js';
import { boundedStep, endSoon, untilStopped } from '../ending.js';
import { type ArchiveNeed, type Database, nowOf, withArchive } from '../opening/database.js';
import {
  bindArchive,
  exchangeAddress,
  firstAnswer,
  guardIdentity,
  openExchange,
} from '../opening/exchange.js';
import { openSession, runOf, type Session } from '../opening/session.js';
import { countOf } from '../output.js';
import { Progress } from '../progress.js';

/** A span of one stream that is to be filled, as a gap is. */
export type FillTask = Pick<Gap, 'market' | 'marketId' | 'streamId' | 'kind' | 'variant' | 'span'>;

/** A stream that a request is about. */
export type AskedStream = Pick<FillTask, 'market' | 'kind' | 'variant'>;

interface FillProgress {
  readonly parts: readonly SpanProgress[];
  readonly totals: SpanProgress;
}

/** How filling ended: all is settled, or for so long nothing has changed, or a person said stop. */
export type FillEnd = 'settled' | 'stuck' | 'stopped';

const LOOK_MS = 1000;
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
  'No change for a minute. The daemon has other work first, or its settings leave this out: see its console.';
const HOLDS_THE_ARCHIVE = 'Waiting: another tapekeep owns this archive and is idle.';
/** Spans that are asked about in one statement. */
const CHUNK = 500;

/**
 * Sees to it that spans of the archive are filled, and follows the ledger until they are: by a collector of its own, or
 * by that of the daemon that writes to the same archive.
 *
 * States: *new* → *own* (it holds the writer's lock and is connected to the exchange) or *beside*
 * (another program holds it) → *ended*. From *beside* it goes to *own* when the other program has
 * gone for good.
 */
export class Filling {
  readonly session: Session;
  readonly store: Store;
  /** Aborts when a person has had enough. */
  readonly signal: AbortSignal;
  /** Time on the monotonic clock. */
  readonly startedMs: number;
  readonly #progress: Pick<Progress, 'show' | 'write'>;
  /** Aborts with an error after which going on would be wrong. */
  readonly #failure = new AbortController();
  readonly #ending: AbortSignal;
  #own: Own | undefined;
  #collector: Collector | undefined;
  /** Tasks that are not settled. */
  #left: readonly FillTask[] = [];
  #firstRows: number | undefined;

  constructor(
    session: Session,
    store: Store,
    signal: AbortSignal,
    progress: Pick<Progress, 'show' | 'write'>,
  ) {
    this.session = session;
    this.startedMs = session.clock.monotonicMs();
    this.store = store;
    this.signal = signal;
    this.#progress = progress;
    this.#ending = AbortSignal.any([signal, this.#failure.signal]);
  }

  /** Prints a line for people, beside the results. */
  say(text: string): void {
    this.#progress.write(`${text}\n`);
  }

  /**
   * Takes the archive, if no other process writes to it, and connects to the exchange.
   *
   * @returns whether this program does the work itself
   * @throws StoreError `archive_of_another_exchange`, and the errors of an exchange that is away
   */
  async begin(): Promise<boolean> {
    const { store } = this;
    try {
      await store.acquireWriterLock(FILLER);
    } catch (error) {
      if (codeOf(error) !== 'writer_lock_held') throw error;
      this.say((await store.inspection.isCollecting()) ? DOES_THE_WORK : HOLDS_THE_ARCHIVE);
      return false;
    }
    await store.noteRun(runOf(this.session));
    this.#own = await connect(this, (error) => this.#failure.abort(error));
    return true;
  }

  /** The exchange, while this program does the work itself. */
  get own(): Own | undefined {
    return this.#own;
  }

  /** The exchange's time now. */
  async nowMs(): Promise<number> {
    return this.#own === undefined
      ? await nowOf(this.store)
      : Math.floor(this.session.exchangeTime.nowMs());
  }

  /**
   * Opens streams for the own work, if this program does it, and makes those that the archive does not know yet.
   * Nothing of them is asked for before {@link Filling.run}.
   *
   * @throws ExchangeChangedError, and the errors of a collector that cannot start
   */
  async open(streams: readonly AskedStream[]): Promise<Collector | undefined> {
    if (this.#own === undefined || this.#collector !== undefined) return this.#collector;
    const { session, store } = this;
    const fillRequests = async (...of: Parameters<Store['fillRequests']>) =>
      requestsOf(this.#left, await store.fillRequests(...of));
    const restriction = { ...restrictedTo(session.config, streams), fillRequests };
    this.#collector = makeCollector(session, { ...this.#own, store }, restriction);
    await unlessAborted(this.#ending, this.#collector.start());
    return this.#collector;
  }

  /**
   * Works, or follows the work, until everything is filled or nothing more can be done now.
   *
   * @throws ExchangeChangedError
   */
  async run(tasks: readonly FillTask[]): Promise<FillEnd> {
    this.#left = tasks;
    for (;;) {
      const end = await (this.#own === undefined ? this.#beside(tasks) : this.#work(tasks));
      if (end !== 'free') return end;
      if (await this.begin()) {
        this.say('The daemon is gone; this program goes on with the work itself.');
      }
    }
  }

  /** Progress of each task, in their order, and of all: of rows, those that came since the first look. */
  async look(tasks: readonly FillTask[], untilMs: number): Promise<FillProgress> {
    const parts: SpanProgress[] = [];
    for (let at = 0; at < tasks.length; at += CHUNK) {
      parts.push(...(await this.store.inspection.progress(tasks.slice(at, at + CHUNK), untilMs)));
    }
    const { rows, ...spans } = sumOf(tasks, parts);
    this.#firstRows ??= rows;
    return { parts, totals: { ...spans, rows: Math.max(0, rows - this.#firstRows) } };
  }

  /** Stops collecting and lets go of the exchange. The store is its owner's to stop. */
  async end(): Promise<void> {
    await boundedStep(this.session, 'collector', STOP_MS, () => this.#collector?.stop(STOP_MS));
    await boundedStep(this.session, 'exchange', CLOSE_MS, () => this.#own?.close());
  }

  async #work(tasks: readonly FillTask[]): Promise<FillEnd | 'free'> {
    const { session, signal, store } = this;
    const collector = await this.open(tasks);
    const ending = new AbortController();
    const review = async () => await collector?.review();
    const reviews = passOnRequests({ ...session, collector: { review }, signal: ending.signal });
    try {
      return await this.#follow(tasks, STUCK_MS);
    } finally {
      ending.abort(new AbortedError());
      const stopped = () => Promise.all([collector?.stop(STOP_MS), reviews]);
      await boundedStep(session, 'filling', STOP_MS, stopped);
      if (!signal.aborted) await store.closeFilledGaps();
    }
  }

  async #beside(tasks: readonly FillTask[]): Promise<FillEnd | 'free'> {
    const { store } = this;
    const { clock } = this.session;
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
    const { clock } = this.session;
    let last = '';
    let changedAtMs = clock.monotonicMs();
    let isQuietSaid = false;
    while (!this.#ending.aborted) {
      const { parts, totals } = await this.look(tasks, (await this.nowMs()) + NEXT_TRY_MAX_MS);
      this.#show(totals);
      this.#left = tasks.filter((_, at) => !isDone(parts[at]));
      if (this.#left.length === 0) return 'settled';
      const now = JSON.stringify(parts);
      if (now !== last) changedAtMs = clock.monotonicMs();
      last = now;
      const quietMs = clock.monotonicMs() - changedAtMs;
      if (quietMs >= stuckMs) return 'stuck';
      if (quietMs >= QUIET_MS && isFree !== undefined && !isQuietSaid) {
        isQuietSaid = true;
        this.say(IS_QUIET);
      }
      if (await isFree?.()) return 'free';
      await sleep(clock, LOOK_MS, this.#ending).catch(() => undefined);
    }
    this.#failure.signal.throwIfAborted();
    return 'stopped';
  }

  /** Shows how far it has come, with its pace and the time left. */
  #show({ coveredMs, lengthMs, unfillableMs, waitingMs, rows }: SpanProgress): void {
    const share = lengthMs === 0 ? 1 : coveredMs / lengthMs;
    const openShare = 1 - share - (unfillableMs + waitingMs) / Math.max(1, lengthMs);
    this.#progress.show(share, countOf(rows, 'row'), [rows, 'rows'], openShare);
  }
}

/** The need of a command that fills: the archive, taken or beside a daemon, and how it goes on stderr. */
export function filling(need: ArchiveNeed): Need<Filling> {
  return async (common, use) => {
    // The first look is shown as well.
    const progress = new Progress('', 0, Number.NEGATIVE_INFINITY);
    const write = (line: string) => progress.write(line);
    const destination = ({ isTTY }: BoundedOutput) => ({ isTTY, write });
    const session = openSession({ logLevel: 'warn', ...common }, { destination });
    const fillIn = async (store: Store, { signal }: Database) => {
      const filling = new Filling(session, store, signal, progress);
      try {
        return await use(filling);
      } finally {
        progress.end();
        await filling.end();
      }
    };
    const work = () => withArchive(session, fillIn, 'by itself', need);
    const notice = () => 'Stopped before anything was asked for.\n';
    return await untilStopped(work, notice).finally(() => endSoon());
  };
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
    const streamId = tasks[at]?.streamId ?? 0;
    if (counted.has(streamId)) continue;
    counted.add(streamId);
    sum.rows += part.rows;
  }
  return sum;
}

/** The exchange that this program asks when it does the work itself. */
type Own = Awaited<ReturnType<typeof connect>>;

/** @param onFatal called when going on would be wrong */
async function connect({ session, store, signal }: Filling, onFatal: (error: Error) => void) {
  const { address, builtIn } = await exchangeAddress(session);
  const access = openExchange(session, address);
  const close = async () => {
    await access[Symbol.asyncDispose]();
    await builtIn?.stop();
  };
  try {
    const identity = await firstAnswer(access, signal, session, EXCHANGE_TRIES);
    await bindArchive(store, access, identity, signal, session);
    store.onWentBack(() => onFatal(wentBack()));
    const exchange = guardIdentity(access.client, identity, onFatal);
    return { access, identity, exchange, onFatal, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The head is polled this often while a request reaches up to what has just happened. */
const HEAD_SCHEDULE = '*/2 * * * * *';

/** Parts of a collector that fills requests of these streams alone. */
function restrictedTo(
  { streams: { markets, trades, candles, ...live } }: Config,
  asked: readonly AskedStream[],
): Omit<Restriction, 'fillRequests'> {
  const of = (wanted: string) => asked.filter(({ kind }) => kind === wanted);
  const intervalsS = [...new Set(of('candles').map(({ variant }) => variant))];
  const names = new Set(asked.map(({ market, kind, variant }) => `${market} ${kind} ${variant}`));
  return {
    settings: {
      markets: [...new Set(asked.map(({ market }) => market))],
      streams: {
        markets: { ...markets, max: Number.POSITIVE_INFINITY },
        trades: { ...trades, enabled: of('trades').length > 0, schedule: HEAD_SCHEDULE },
        candles: { ...candles, enabled: intervalsS.length > 0, intervalsS },
        depth: { ...live.depth, enabled: false },
        tickers: { ...live.tickers, enabled: false },
        states: { ...live.states, enabled: false },
      },
    },
    only: (market, kind, variant) => names.has(`${market} ${kind} ${variant}`),
  };
}

/** The tasks as requests, and those of the ledger that are about them. */
function requestsOf(tasks: readonly FillTask[], requests: FillRequests): FillRequests {
  const isAsked = (one: Pick<FillTask, 'streamId' | 'span'>) =>
    tasks.some((task) => task.streamId === one.streamId && doOverlap(task.span, one.span));
  return {
    ...requests,
    wanted: tasks,
    suspects: requests.suspects.filter(isAsked),
    due: requests.due.filter(isAsked),
  };
}

function wentBack(): TapekeepError {
  const text =
    'the database is older than it was left, or another one: run the command again, it goes on from what is stored';
  return new TapekeepError('database_went_back', text, { action: 'retry' });
}

const isDone = (part: SpanProgress | undefined) => part === undefined || isSettled(part);
