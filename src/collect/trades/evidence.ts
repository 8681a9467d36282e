import type { Clock } from '../../kernel/clock.js';
import { compareDecimals } from '../../kernel/decimal.js';
import { SECOND_MS } from '../../kernel/durations.js';
import { floorToMs } from '../../kernel/span.js';
import { comparePlaces, type PageRow } from '../../model/order.js';
import type { ReplyTimes } from '../../model/proof.js';
import type { CollectEvents } from '../../observe/events.js';
import type { ClaimTime } from '../ports.js';
import type { TradeSource } from './source.js';

/**
 * What a change of a market's figures says: `trade` – there was one, for certain; `maybe` – the
 * figures of the window fell while the last price stayed, which an old trade does that leaves the
 * window, and which can hide a new one.
 */
export type ActivityKind = 'trade' | 'maybe';

/** The figures of a window of time that only trades change. */
export interface WindowFigures {
  readonly last: string;
  readonly volume: string;
  /** Null where it is not sent. */
  readonly deal: string | null;
}

/** Compares two looks at one window; undefined when nothing moved. */
export function activityOf(before: WindowFigures, now: WindowFigures): ActivityKind | undefined {
  if (compareDecimals(now.last, before.last) !== 0) return 'trade';
  const volume = compareDecimals(now.volume, before.volume);
  const isTold = now.deal !== null && before.deal !== null;
  const deal = isTold ? compareDecimals(now.deal, before.deal) : 0;
  if (volume > 0 || deal > 0) return 'trade';
  return volume < 0 || deal < 0 ? 'maybe' : undefined;
}

/** What shows newer trades than a page of history does. */
export type EvidenceSource = 'states' | 'tickers' | 'history' | 'feed';

/**
 * How late each source may report a trade, exchange milliseconds at real pace; and how long it is
 * believed against an endpoint that brings nothing new at all, milliseconds of this machine. States
 * are pushed; tickers may come from a cache or from several servers that do not agree.
 */
const SOURCES: Readonly<Record<EvidenceSource, { delayMs: number; patienceMs: number }>> = {
  states: { delayMs: 1000, patienceMs: 3_600_000 },
  tickers: { delayMs: 5000, patienceMs: 120_000 },
  history: { delayMs: 0, patienceMs: 3_600_000 },
  feed: { delayMs: 0, patienceMs: 3_600_000 },
};
/** Seconds with trades that are remembered as seen elsewhere, of each market: more than any margin has. */
const SEEN_MAX = 128;

/** A trade that another endpoint has shown, or made certain: between which times it happened. */
interface SeenElsewhere {
  readonly source: EvidenceSource;
  readonly afterMs: number;
  readonly byMs: number;
}

interface Look {
  readonly figures: WindowFigures;
  readonly atMs: number;
}

interface Head {
  readonly newest: PageRow;
  readonly seenAtMs: number;
}

/** How long one endpoint has been contradicted without bringing anything new. */
interface Dispute {
  readonly tid: number;
  readonly sinceMs: number;
}

type Endpoint = TradeSource['endpoint'];

export interface EvidenceOptions {
  readonly market: string;
  readonly time: ClaimTime;
  readonly clock: Clock;
  readonly telemetry: Pick<CollectEvents, 'historyStale'>;
}

/**
 * What other endpoints show of one market's newest trades, held against pages of its history: a cache
 * before the exchange may keep an old page and put a fresh Date on it.
 *
 * Only what is certain counts. Between two looks at one window's figures a trade has happened when the
 * last price changed or a volume grew; a page that was asked for later, holds none as new as the
 * earlier look, and would be claimed beyond the later one, is stale. Of two endpoints of history, the
 * one that lacks the other's newest trade is. Such a page proves its own rows and nothing after them.
 */
export class TradeEvidence {
  readonly #options: EvidenceOptions;
  readonly #looks = new Map<EvidenceSource, Look>();
  readonly #heads = new Map<Endpoint, Head>();
  readonly #disputes = new Map<Endpoint, Dispute>();
  readonly #seen: SeenElsewhere[] = [];
  #jumps: number;

  constructor(options: EvidenceOptions) {
    this.#options = options;
    this.#jumps = options.time.jumps;
  }

  /** Takes a look at the market's figures. Exchange time when it was asked for, or pushed. */
  looked(source: 'states' | 'tickers', figures: WindowFigures, atMs: number): void {
    this.#followJump();
    const before = this.#looks.get(source);
    this.#looks.set(source, { figures, atMs });
    if (before === undefined || activityOf(before.figures, figures) !== 'trade') return;
    const { time } = this.#options;
    const delayMs = SOURCES[source].delayMs * Math.max(1, time.pace);
    this.#note({ source, afterMs: before.atMs - delayMs, byMs: time.nowMs() });
  }

  #note(seen: SeenElsewhere): void {
    const secondOf = ({ afterMs }: SeenElsewhere) => floorToMs(afterMs, SECOND_MS);
    // The first trade of a second says what all of them do. Where many are made, they must not push out
    // those that are old enough to be missed.
    const isKnown = this.#seen.some(
      (one) => one.source === seen.source && secondOf(one) === secondOf(seen),
    );
    if (isKnown) return;
    this.#seen.push(seen);
    if (this.#seen.length > SEEN_MAX) this.#seen.shift();
  }

  /** Takes note of a trade that was pushed. */
  pushed({ tradedAtS }: PageRow): void {
    this.#followJump();
    const afterMs = tradedAtS * SECOND_MS;
    this.#note({ source: 'feed', afterMs, byMs: Math.max(afterMs, this.#options.time.nowMs()) });
  }

  /**
   * Up to where a page of the newest trades may be claimed, and takes note of it: up to its own rows if
   * it is stale, and never beyond the start of a look in which a trade happened that it does not show.
   *
   * @param page its `held` are rows that it shows and that are not believed yet: it lacks none of them
   * @param newest its newest row; undefined: it holds none
   * @param untilMs up to where its own times would prove it
   */
  provenUntilMs(
    endpoint: Endpoint,
    page: ReplyTimes & { readonly held?: readonly PageRow[] },
    newest: PageRow | undefined,
    untilMs: number,
  ): number {
    this.#followJump();
    const { clock, time } = this.#options;
    const shown = [...(page.held ?? []), ...(newest === undefined ? [] : [newest])];
    const unshown = this.#unshown(endpoint, page, shown.sort(comparePlaces).at(-1));
    const found = unshown.findLast(({ byMs }) => byMs <= Math.min(page.sentAtMs, untilMs));
    const tid = newest?.tid ?? 0;
    const ownMs = (newest?.tradedAtS ?? 0) * SECOND_MS;
    const nowMs = time.nowMs();
    if (newest !== undefined && ownMs <= nowMs) {
      this.#heads.set(endpoint, { newest, seenAtMs: nowMs });
    }
    const before = this.#disputes.get(endpoint);
    if (found === undefined) {
      this.#disputes.delete(endpoint);
      // Of what another endpoint shows the newest is known, and not what lies between it and this page.
      const endsMs = unshown.map(({ source, afterMs }) => (source === 'history' ? ownMs : afterMs));
      return Math.min(untilMs, ...endsMs.map((ms) => floorToMs(ms, SECOND_MS)));
    }
    const atMs = clock.monotonicMs();
    const dispute = before?.tid === tid ? before : { tid, sinceMs: atMs };
    this.#disputes.set(endpoint, dispute);
    // Nothing new for so long, and nothing but this source that says otherwise: it may be wrong.
    if (atMs - dispute.sinceMs > SOURCES[found.source].patienceMs) return untilMs;
    this.#report(newest, found, before === undefined);
    return Math.min(untilMs, ownMs);
  }

  /** Whether the other endpoint of history shows a row as its newest one. */
  isShownBy(endpoint: Endpoint, row: PageRow): boolean {
    const other = this.#otherHead(endpoint);
    return other !== undefined && comparePlaces(other.newest, row) === 0;
  }

  /** What the other endpoint of history showed last. */
  #otherHead(endpoint: Endpoint): Head | undefined {
    return this.#heads.get(endpoint === 'history' ? 'historyResult' : 'history');
  }

  /** Trades that were seen elsewhere and are newer than all that a page shows. */
  #unshown(
    endpoint: Endpoint,
    { sentAtMs }: ReplyTimes,
    newest: PageRow | undefined,
  ): readonly SeenElsewhere[] {
    const endMs = ((newest?.tradedAtS ?? 0) + 1) * SECOND_MS;
    const unshown = this.#seen.filter(({ afterMs }) => endMs <= afterMs);
    const other = this.#otherHead(endpoint);
    if (other === undefined || other.seenAtMs > sentAtMs) return unshown;
    const { tid, tradedAtS } = other.newest;
    const isNewer = tid > (newest?.tid ?? 0) && tradedAtS >= (newest?.tradedAtS ?? 0);
    const afterMs = tradedAtS * SECOND_MS;
    return isNewer ? [...unshown, { source: 'history', afterMs, byMs: afterMs + 1 }] : unshown;
  }

  #report(newest: PageRow | undefined, { source, afterMs }: SeenElsewhere, isFirst: boolean): void {
    const { telemetry, market } = this.#options;
    const behindMs = newest === undefined ? null : afterMs - newest.tradedAtS * SECOND_MS;
    telemetry.historyStale({ stream: 'trades', market, source, behindMs, isFirst });
  }

  /** Times of before a jump of the exchange's clock are no measure after it. */
  #followJump(): void {
    if (this.#jumps === this.#options.time.jumps) return;
    this.#jumps = this.#options.time.jumps;
    this.#looks.clear();
    this.#heads.clear();
    this.#disputes.clear();
    this.#seen.length = 0;
  }
}
