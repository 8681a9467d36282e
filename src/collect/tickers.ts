import type { TickerEntry } from '../contract/resources.js';
import type { RejectedRow } from '../contract/shape.js';
import { SECOND_MS } from '../kernel/durations.js';
import { hashText } from '../kernel/random.js';
import { ALL_MARKETS_ID, type TickerRow } from '../model/batch.js';
import type { CollectContext } from './market-unit.js';
import type { MarketList } from './markets.js';
import type { PollDispatcher } from './polling/dispatcher.js';
import { type ExchangePort, PRIORITY } from './ports.js';
import { quarantineRows, streamReport } from './reports.js';
import { toleranceMs } from './schedule.js';
import { type SnapshotOptions, SnapshotRecorder } from './snapshot.js';
import { type ActivityKind, activityOf, type WindowFigures } from './trades/evidence.js';

interface TickerCollectorOptions extends SnapshotOptions {
  readonly exchange: ExchangePort;
  /** Ids of the listed markets that the archive has, by name; it changes while running. */
  readonly marketIds: () => ReadonlyMap<string, number>;
  /** Given every answer as soon as it is there: it shows which markets moved. */
  readonly onTickers?: (entries: Readonly<Record<string, TickerEntry>>, sentAtMs: number) => void;
}

/** Why a market has no readable ticker in an answer; also its code in reports. */
type Trouble = 'no_ticker' | 'ticker_refused';

/**
 * Takes the tickers of all markets with one call, and stores those that changed. One stream covers
 * them all, so it takes those of every listed market that the archive has, also where the settings collect
 * nothing else of it, and a look proves something only when it is whole: every such market's ticker could
 * be read. A market whose ticker was refused, or is gone from the answer although it was there
 * before in this run, makes it a look that stores what it has and covers nothing. A market that the
 * exchange has not listed a ticker for yet has none to miss, and spoils no look.
 */
export class TickerCollector {
  readonly #options: TickerCollectorOptions;
  readonly #recorder: SnapshotRecorder;
  #lastLooks = new Map<number, string>();
  /** Markets that had a readable ticker since they are listed. */
  #seen = new Set<number>();
  /** What was reported of each market, by name, until its ticker is well again. */
  #reported = new Map<string, Trouble>();
  /** The refused ticker of each market, by name, that is in quarantine. */
  #quarantined = new Map<string, number>();

  constructor(options: TickerCollectorOptions) {
    this.#options = options;
    this.#recorder = new SnapshotRecorder(options);
  }

  async poll(signal: AbortSignal): Promise<void> {
    const { exchange } = this.#options;
    const asked = exchange.call('tickers', {}, { priority: PRIORITY.sweep, signal });
    const reply = await this.#recorder.answer(asked);
    this.#options.onTickers?.(reply.data, reply.sentAtMs);
    if (this.#recorder.isUnknown(reply)) return;
    const { receivedAtMs, covered = null } = reply;
    const observedAtMs = this.#recorder.instantOf(reply);
    if (observedAtMs === undefined) return;
    const marketIds = this.#options.marketIds();
    const rejected = reply.rejected.filter(({ at }) => marketIds.has(String(at)));
    const refusedNames = new Set(rejected.map(({ at }) => String(at)));
    const looks = new Map<number, string>();
    const changed: TickerRow[] = [];
    const troubles = new Map<string, Trouble>();
    const spoilers: string[] = [];
    for (const [name, marketId] of marketIds) {
      const entry = reply.data[name];
      if (entry === undefined) {
        const isRefused = refusedNames.has(name);
        troubles.set(name, isRefused ? 'ticker_refused' : 'no_ticker');
        if (isRefused || this.#seen.has(marketId)) spoilers.push(name);
        continue;
      }
      const look = lookOf(entry);
      looks.set(marketId, look);
      if (look === this.#lastLooks.get(marketId)) continue;
      changed.push({
        marketId,
        observedAtMs,
        receivedAtMs,
        atMs: Math.round(entry.at * SECOND_MS),
        ...figuresOf(entry),
      });
    }
    this.#report(troubles, marketIds);
    const collectedIds = new Set(marketIds.values());
    this.#seen = new Set([...this.#seen, ...looks.keys()].filter((id) => collectedIds.has(id)));
    const fresh = rejected.filter((row) => this.#quarantined.get(String(row.at)) !== markOf(row));
    await this.#recorder.record({
      observedAtMs,
      batch: {
        tickers: changed,
        quarantine: fresh.flatMap((row) =>
          quarantineRows('tickers', String(row.at), [row], receivedAtMs),
        ),
      },
      evidence: { endpoint: 'tickers', markets: looks.size, withoutTicker: troubles.size },
      received: looks.size + rejected.length,
      rejected: rejected.length,
      unchanged: looks.size - changed.length,
      unproven: unprovenBy(spoilers, troubles),
      knownSinceMs: covered?.fromMs ?? null,
    });
    this.#lastLooks = looks;
    for (const row of fresh) this.#quarantined.set(String(row.at), markOf(row));
    for (const name of this.#quarantined.keys()) {
      if (!marketIds.has(name)) this.#quarantined.delete(name);
    }
  }

  /** Reports what is wrong with a market once, not at every poll. */
  #report(troubles: Map<string, Trouble>, marketIds: ReadonlyMap<string, number>): void {
    for (const [market, code] of troubles) {
      if (this.#reported.get(market) === code) continue;
      const isMissed = this.#seen.has(marketIds.get(market) ?? -1);
      const spoils = 'no look at the tickers counts as coverage until';
      const message =
        code === 'ticker_refused'
          ? `${wordsOf(market, code)}; ${spoils} it can be read again`
          : isMissed
            ? `${wordsOf(market, code)}; ${spoils} it is back or the market is listed no more`
            : `the exchange lists no ticker of ${market} yet; the other markets are covered without it`;
      streamReport(this.#options.telemetry, 'tickers', market).skipped(code, message);
    }
    this.#reported = troubles;
  }
}

const wordsOf = (market: string, code: Trouble | undefined) =>
  code === 'ticker_refused'
    ? `the ticker of ${market} could not be read and is in quarantine`
    : `the ticker of ${market} is no longer in the answer`;

/** Why a look proves nothing; undefined where no market spoils it. */
function unprovenBy(
  [first, ...others]: readonly string[],
  troubles: ReadonlyMap<string, Trouble>,
): string | undefined {
  if (first === undefined) return undefined;
  const more = others.length === 0 ? '' : `, and ${others.length} more are not to be had`;
  return `${wordsOf(first, troubles.get(first))}${more}`;
}

/** What makes two refused tickers the same: all but the time that the exchange wrote into them. */
function markOf({ reason, payload }: RejectedRow): number {
  const withoutTime = (key: string, value: unknown) =>
    key === 'at' && typeof value === 'number' ? undefined : value;
  return hashText(`${reason}|${JSON.stringify(payload, withoutTime)}`);
}

function figuresOf({ ticker }: TickerEntry) {
  const { bid, ask, open, high, low, last, vol, deal, change } = ticker;
  return { bid, ask, open, high, low, last, volume: vol, deal, change };
}

/** What makes two tickers the same: every figure, but not the time they were taken. */
function lookOf(entry: TickerEntry): string {
  return Object.values(figuresOf(entry)).join('|');
}

/**
 * Prepares the one stream of tickers: what it holds already, and what is notified of markets that
 * moved.
 *
 * @param periodMs how often it is polled
 */
export async function openTickers(
  context: Omit<CollectContext, 'depthToleranceMs'>,
  options: {
    readonly periodMs: number;
    readonly markets: Pick<MarketList, 'known' | 'collected'>;
    readonly dispatcher: Pick<PollDispatcher, 'swept'>;
  },
): Promise<TickerCollector> {
  const { archive, time } = context;
  const { periodMs, markets, dispatcher } = options;
  const key = { kind: 'tickers', marketId: ALL_MARKETS_ID, variant: 0 } as const;
  const stream = await archive.ensureStream({ ...key, collectFromMs: Math.floor(time.nowMs()) });
  const [newest] = await archive.coveredRanges(stream, 1);
  const sweep = new TickerSweep();
  return new TickerCollector({
    ...context,
    market: '*',
    stream,
    toleranceMs: toleranceMs(periodMs),
    coveredUntilMs: newest?.span.toMs ?? stream.collectFromMs ?? undefined,
    marketIds: () => markets.known,
    onTickers: (entries, sentAtMs) => {
      dispatcher.swept(sweep.compare(entries));
      for (const market of markets.collected.keys()) {
        const { ticker } = entries[market] ?? {};
        if (ticker === undefined) continue;
        context.evidenceOf(market).looked('tickers', windowOf(ticker), sentAtMs);
      }
    },
  });
}

/** The figures that move with each trade. */
function windowOf({ last, vol, deal }: TickerEntry['ticker']): WindowFigures {
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
