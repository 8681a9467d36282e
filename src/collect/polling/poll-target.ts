import { codeOf } from '../../kernel/errors.js';
import type { Random } from '../../kernel/random.js';
import { Backoff } from '../../kernel/retry.js';
import type { HeadLook } from '../trades/head.js';
import type { TradeWalker } from '../trades/walker.js';

/** Whatever asks for the newest page of one market's trades. */
export type HeadWalker = Pick<
  TradeWalker,
  'market' | 'endpoint' | 'isBusy' | 'isPushed' | 'largestPage' | 'pollHead'
> &
  Partial<Pick<TradeWalker, 'isHeadNeeded'>>;

/** Who said that there is something new. */
export type ActivitySource = 'pushed' | 'swept' | 'stored';

/** An activity signal of news that was not looked into yet. */
export interface ActivitySignal {
  readonly atMs: number;
  readonly source: ActivitySource;
}

/** Certain activity signals of trades: the oldest, and how many came since. */
export interface Traded extends ActivitySignal {
  readonly more: number;
}

/** What waited for a poll when it began: given back when it fails. */
export interface Waiting {
  readonly traded: Traded | undefined;
  readonly suspected: ActivitySignal | undefined;
}

const RETRY = { baseMs: 1000, capMs: 60_000 };
/**
 * A walk that stands while the exchange answers loses what overruns a page meanwhile, and costs the
 * exchange no more than any other look: it is asked for again this soon at the latest.
 */
const STALLED_CAP_MS = 5000;
const PAGE_ROWS = 1000;
/** Stored trades wait so long for others to be proven with them. */
const PROOF_WAIT_MS = 5000;
/** Weight of what the first page shows, as seconds of watching. */
const FIRST_LOOK_S = 60;

/**
 * What is known of one walk's need to be polled. All times are monotonic.
 *
 * States: *idle* → *polling* ({@link PollTarget.begin}) → *idle* ({@link PollTarget.succeeded}), or *backing
 * off* until `retryAtMs` ({@link PollTarget.failed}). Activity signals that come while a poll is under way stay for
 * the next one: its answer may be older than they are.
 */
export class PollTarget {
  readonly walker: HeadWalker;
  readonly rate = new TradeRate();
  readonly #backoff: Backoff;
  traded: Traded | undefined;
  /** Oldest activity signal that may be nothing. */
  suspected: ActivitySignal | undefined;
  /** Since when trades are stored that this walk has to prove. */
  unprovenAtMs: number | undefined;
  /** Since when the schedule says that it is time. */
  dueAtMs: number | undefined;
  /** Begin of the last poll that succeeded. */
  polledAtMs = Number.NEGATIVE_INFINITY;
  retryAtMs = Number.NEGATIVE_INFINITY;
  /** Begin of the poll that is under way, or was last. */
  begunAtMs = Number.NEGATIVE_INFINITY;
  /** The run of the schedule that this poll satisfied; its begin when it came between two runs. */
  countedAtMs = Number.NEGATIVE_INFINITY;
  isPolling = false;
  /** Rows that a page of this walk holds, as far as the server showed. */
  pageRows = PAGE_ROWS;

  constructor(walker: HeadWalker, random: Random, nowMs: number) {
    this.walker = walker;
    this.#backoff = new Backoff(RETRY, random);
    this.dueAtMs = nowMs;
  }

  get isFailing(): boolean {
    return this.#backoff.attempts > 0;
  }

  /** Notes trades that are stored and wait to be proven. */
  noteUnproven(nowMs: number): void {
    this.unprovenAtMs ??= nowMs;
  }

  /** The oldest certain news: a trade, or stored trades that have waited long enough to be proven. */
  newsAt(nowMs: number): ActivitySignal | undefined {
    const { traded, unprovenAtMs } = this;
    const isRipe = unprovenAtMs !== undefined && nowMs - unprovenAtMs >= PROOF_WAIT_MS;
    return traded ?? (isRipe ? { atMs: unprovenAtMs, source: 'stored' } : undefined);
  }

  noteTrade(activity: ActivitySignal): void {
    const { traded } = this;
    this.traded =
      traded === undefined ? { ...activity, more: 0 } : { ...traded, more: traded.more + 1 };
  }

  /**
   * Trades a second as far as known at `nowMs`: what polls brought, or more, where activity signals that wait
   * show more already. So a market that has just become busy is not taken for a quiet one.
   */
  perS(nowMs: number): number {
    const { traded, rate } = this;
    const waitedS = traded === undefined ? 0 : (nowMs - traded.atMs) / 1000;
    const reported = traded !== undefined && waitedS > 0 ? traded.more / waitedS : 0;
    return Math.max(rate.perS, reported);
  }

  /** Share of a page that is expected to be new by now; 0 before the first poll. */
  pageFill(nowMs: number): number {
    const sinceS = (nowMs - this.polledAtMs) / 1000;
    return Number.isFinite(sinceS) ? (this.perS(nowMs) * sinceS) / this.pageRows : 0;
  }

  begin(nowMs: number): Waiting {
    const { traded, suspected, dueAtMs } = this;
    this.traded = undefined;
    this.suspected = undefined;
    this.unprovenAtMs = undefined;
    this.dueAtMs = undefined;
    this.isPolling = true;
    this.begunAtMs = nowMs;
    this.countedAtMs = dueAtMs ?? nowMs;
    return { traded, suspected };
  }

  succeeded(look: HeadLook): void {
    const sinceS = (this.begunAtMs - this.polledAtMs) / 1000;
    if (!Number.isFinite(sinceS)) this.#learnFromHistory(look);
    else if (sinceS > 0) this.rate.observe(look.newRows, sinceS);
    if (!look.isConnected && Number.isFinite(sinceS)) this.#learnPageSize(look);
    this.polledAtMs = this.begunAtMs;
    this.isPolling = false;
    this.#backoff.reset();
    this.retryAtMs = Number.NEGATIVE_INFINITY;
  }

  /** The first page shows how fast the market traded until now. */
  #learnFromHistory({ newTimesMs }: HeadLook): void {
    const [newestMs, oldestMs] = [newTimesMs[0], newTimesMs.at(-1)];
    if (newestMs === undefined || oldestMs === undefined || newestMs <= oldestMs) return;
    const spanS = (newestMs - oldestMs) / 1000;
    const rows = newTimesMs.length - 1;
    // A long past counts for no more than a short one: the market may have changed since.
    const share = Math.min(1, FIRST_LOOK_S / spanS);
    this.rate.observe(rows * share, spanS * share);
  }

  /** A page that was shorter than asked, and as long as any, and yet too short: the server caps it. */
  #learnPageSize({ received, asked }: HeadLook): void {
    const isCap = received > 0 && received < asked && received >= this.walker.largestPage;
    if (isCap) this.pageRows = Math.min(PAGE_ROWS, received);
  }

  /** What waited goes on waiting, and nothing is asked before a growing, random pause is over. */
  failed(nowMs: number, waiting: Waiting, error?: unknown): void {
    this.isPolling = false;
    this.traded = waiting.traded ?? this.traded;
    this.suspected = waiting.suspected ?? this.suspected;
    this.dueAtMs ??= nowMs;
    const capMs = codeOf(error) === 'walk_stalled' ? STALLED_CAP_MS : RETRY.capMs;
    this.retryAtMs = nowMs + Math.min(capMs, this.#backoff.nextMs());
  }
}

/** How fast old observations fade, seconds. */
const FADING_S = 300;
/** What is assumed before anything was seen: one trade in this time. */
const PRIOR_S = 30;

/**
 * How many trades a second a market has, from what its polls brought. The estimate follows changes
 * within minutes, and is never zero, so that a silent market is not forgotten.
 */
class TradeRate {
  #rows = 0;
  #seconds = 0;

  /** @param rows new trades that a poll brought, `seconds` after the one before */
  observe(rows: number, seconds: number): void {
    const fading = Math.exp(-seconds / FADING_S);
    this.#rows = this.#rows * fading + rows;
    this.#seconds = this.#seconds * fading + seconds;
  }

  get perS(): number {
    return (this.#rows + 1) / (this.#seconds + PRIOR_S);
  }
}
