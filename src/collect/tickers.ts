import type { TickerEntry } from '../contract/resources.js';
import type { RejectedRow } from '../contract/shape.js';
import { SECOND_MS } from '../kernel/durations.js';
import { hashText } from '../kernel/random.js';
import type { QuarantineRow, TickerRow } from '../model/batch.js';
import type { CollectEvents } from '../observe/events.js';
import { Answers } from './answers.js';
import { type ExchangePort, PRIORITY } from './ports.js';
import { quarantineRows, streamReport } from './reports.js';
import { type SnapshotOptions, SnapshotRecorder } from './snapshot.js';
import { type ActivityKind, activityOf, type WindowFigures } from './trades/evidence.js';

/** When an answer of `tickers` showed what. */
interface SweepTime {
  readonly observedAtMs: number;
  readonly receivedAtMs: number;
}

/** What one answer of `tickers` shows. */
interface Sweep extends SweepTime {
  readonly entries: Readonly<Record<string, TickerEntry>>;
  readonly rejected: ReadonlyMap<string, RejectedRow>;
}

interface MarketTickerOptions extends SnapshotOptions {
  readonly market: string;
  readonly marketId: number;
  /** Called when an answer lacks a market that those before had, with what that says. */
  readonly onGone: (market: string, why: string) => void;
}

/** Why a market has no ticker that can be taken from an answer; also its code in reports. */
type Absence = 'no_ticker' | 'ticker_refused';

/**
 * Records the ticker of one market from answers that show all of them. One equal to that before is not
 * stored again. A ticker that was refused, or is gone from the answer, proves nothing of its market; the
 * stream of a market that the exchange has never listed a ticker for has not begun.
 */
export class MarketTicker {
  readonly market: string;
  readonly ledger: MarketTickerOptions['ledger'];
  readonly #marketId: number;
  readonly #recorder: SnapshotRecorder;
  readonly #onGone: MarketTickerOptions['onGone'];
  #lastLook: string | undefined;
  /** What was reported of it, until its ticker is well again. */
  #reported: Absence | undefined;
  /** Its refused ticker that is in quarantine. */
  #quarantined: number | undefined;

  constructor(options: MarketTickerOptions, answers: Answers) {
    const { market, ledger, marketId } = options;
    this.market = market;
    this.ledger = ledger;
    this.#marketId = marketId;
    this.#recorder = new SnapshotRecorder(options, answers);
    this.#onGone = options.onGone;
  }

  /** To be called with an answer before anything of it is stored, which may take long. */
  announce({ entries, rejected }: Sweep): void {
    if (rejected.has(this.market) || entries[this.market] !== undefined || !this.#recorder.hasBegun)
      return;
    if (this.#reported !== 'no_ticker') this.#onGone(this.market, this.#whyMissing);
  }

  get #whyMissing(): string {
    return `the ticker of ${this.market} is not in the answer`;
  }

  /** @throws the errors of the archive */
  async look({ entries, rejected, ...time }: Sweep): Promise<void> {
    const entry = entries[this.market];
    const refused = rejected.get(this.market);
    if (entry !== undefined) await this.#found(entry, time);
    else if (refused !== undefined) await this.#refused(refused, time);
    else await this.#missing(time);
  }

  /** Writes what was observed, for the end. @throws the errors of the archive */
  async flush(): Promise<void> {
    await this.#recorder.flush();
  }

  async #found(entry: TickerEntry, seen: SweepTime) {
    this.#reported = undefined;
    const look = lookOf(entry);
    const isUnchanged = look === this.#lastLook;
    const row: TickerRow = {
      marketId: this.#marketId,
      ...seen,
      atMs: Math.round(entry.at * SECOND_MS),
      ...figuresOf(entry),
    };
    await this.#recorder.record({
      observedAtMs: seen.observedAtMs,
      batch: { tickers: isUnchanged ? [] : [row] },
      evidence: { endpoint: 'tickers' },
      received: 1,
      rejected: 0,
      unchanged: isUnchanged ? 1 : 0,
    });
    this.#lastLook = look;
    this.#quarantined = undefined;
  }

  async #refused(row: RejectedRow, { observedAtMs, receivedAtMs }: SweepTime) {
    const why = `the ticker of ${this.market} could not be read and is in quarantine`;
    this.#reportOnce('ticker_refused', `${why}; it is not covered until it can be read again`);
    const mark = markOf(row);
    const isKept = mark === this.#quarantined;
    await this.#proveNothing(observedAtMs, why, {
      quarantine: isKept ? [] : quarantineRows('tickers', this.market, [row], receivedAtMs),
      rejected: 1,
    });
    this.#quarantined = mark;
  }

  async #missing({ observedAtMs }: SweepTime) {
    if (!this.#recorder.hasBegun) {
      const text = `the exchange lists no ticker of ${this.market} yet; it is expected from its first one on`;
      this.#reportOnce('no_ticker', text);
      await this.#recorder.notYet(observedAtMs);
      return;
    }
    const why = this.#whyMissing;
    const until = 'it is back or the market is listed no more';
    this.#reportOnce('no_ticker', `${why}; it is not covered until ${until}`);
    await this.#proveNothing(observedAtMs, why, { quarantine: [], rejected: 0 });
  }

  async #proveNothing(
    observedAtMs: number,
    unproven: string,
    { quarantine, rejected }: { quarantine: readonly QuarantineRow[]; rejected: number },
  ): Promise<void> {
    await this.#recorder.record({
      ...{ observedAtMs, unproven, rejected, received: rejected, unchanged: 0 },
      batch: { quarantine },
      evidence: { endpoint: 'tickers' },
    });
    // The same one again is news: what was in between is not known.
    this.#lastLook = undefined;
  }

  #reportOnce(code: Absence, message: string): void {
    if (this.#reported !== code) this.ledger.report.skipped(code, message);
    this.#reported = code;
  }
}

interface TickerCollectorOptions
  extends Pick<MarketTickerOptions, 'clock' | 'toleranceMs' | 'onGone'> {
  readonly telemetry: CollectEvents;
  readonly exchange: ExchangePort;
  /** Called for a market whose ticker could not be stored, where those of others could. */
  readonly onFailed: (market: string, error: unknown) => void;
  /** Given what each answer knows, as soon as it is there: it shows which markets moved. */
  readonly onTickers?: (entries: Readonly<Record<string, TickerEntry>>, sentAtMs: number) => void;
}

/** Tickers that are handed to the archive at once: trades and depth need room in its queue as well. */
const STORED_AT_ONCE = 250;

/** Takes the tickers of all markets with one call, and gives each market that is followed its own. */
export class TickerCollector {
  readonly #options: TickerCollectorOptions;
  readonly #answers: Answers;
  /** Those that the answer which is waited for is for. */
  #asked: readonly MarketTicker[] = [];

  constructor(options: TickerCollectorOptions) {
    const { telemetry } = options;
    this.#options = options;
    this.#answers = new Answers({
      ...options,
      report: streamReport(telemetry, 'tickers', '*'),
      onUnproven: (why, reason) => {
        for (const { ledger } of this.#asked) ledger.unproven(why, reason);
      },
    });
  }

  /** Prepares the ticker of one market, for {@link poll}. */
  follow(of: Pick<MarketTickerOptions, 'market' | 'marketId' | 'ledger'>): MarketTicker {
    return new MarketTicker({ ...this.#options, ...of }, this.#answers);
  }

  /**
   * Asks once.
   *
   * @param tickers those that are stored; of other markets the answer shows what moved, and no more
   * @throws the errors of the exchange and of the archive
   */
  async poll(tickers: readonly MarketTicker[], signal: AbortSignal): Promise<void> {
    const { exchange } = this.#options;
    this.#asked = tickers;
    const asked = exchange.call('tickers', {}, { priority: PRIORITY.sweep, signal });
    const reply = await this.#answers.receive(asked);
    const { data: entries, receivedAtMs } = reply;
    this.#options.onTickers?.(entries, reply.sentAtMs);
    const observedAtMs = this.#answers.instantOf(reply);
    if (observedAtMs === undefined) return;
    const rejected = new Map(reply.rejected.map((row) => [String(row.at), row]));
    const sweep = { entries, observedAtMs, receivedAtMs, rejected };
    for (const ticker of tickers) ticker.announce(sweep);
    const looks: PromiseSettledResult<void>[] = [];
    for (let at = 0; at < tickers.length; at += STORED_AT_ONCE) {
      const part = tickers.slice(at, at + STORED_AT_ONCE);
      looks.push(...(await Promise.allSettled(part.map((ticker) => ticker.look(sweep)))));
    }
    // What keeps one from being stored is not said of the others.
    const failed = looks.flatMap((one, at) =>
      one.status === 'rejected' ? [{ market: tickers[at]?.market ?? '*', error: one.reason }] : [],
    );
    if (failed.length === looks.length && failed[0] !== undefined) throw failed[0].error;
    for (const { market, error } of failed) this.#options.onFailed(market, error);
  }
}

/** What makes two refused tickers the same: all but the time that the exchange wrote into them. */
function markOf({ reason, payload }: RejectedRow): number {
  const withoutTime = (key: string, value: unknown) =>
    key === 'at' && typeof value === 'number' ? undefined : value;
  return hashText(`${reason}|${JSON.stringify(payload, withoutTime)}`);
}

function figuresOf({ ticker }: TickerEntry) {
  const { bid, ask, open, high, low, last, vol, deal, change } = ticker;
  return { bid, ask, open, high, low, last, volume: vol, quoteVolume: deal, change };
}

/** What makes two tickers the same: every figure, but not the time they were taken. */
function lookOf(entry: TickerEntry): string {
  return Object.values(figuresOf(entry)).join('|');
}

/** The figures that move with each trade. */
export function windowOf({ last, vol, deal }: TickerEntry['ticker']): WindowFigures {
  return { last, volume: vol, deal };
}

/** Finds from one answer of `tickers` to the next which markets moved. */
export class TickerSweep {
  #before = new Map<string, WindowFigures>();

  /** Activity signals by market, of those that moved since the answer before. */
  compare(entries: Readonly<Record<string, TickerEntry>>): Map<string, ActivityKind> {
    const now = new Map<string, WindowFigures>();
    const activities = new Map<string, ActivityKind>();
    for (const [market, { ticker }] of Object.entries(entries)) {
      const figures = windowOf(ticker);
      now.set(market, figures);
      const before = this.#before.get(market);
      const activity = before && activityOf(before, figures);
      if (activity !== undefined) activities.set(market, activity);
    }
    this.#before = now;
    return activities;
  }
}
