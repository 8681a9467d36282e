import type { Clock } from '../../kernel/clock.js';
import { SECOND_MS } from '../../kernel/durations.js';
import { comparePlaces, type PageRow } from '../../ledger/order.js';
import type { ReplyTimes } from '../../ledger/proof.js';
import type { CollectEvents } from '../../observe/events.js';
import { tradeSign, type WindowFigures } from '../polling/signs.js';
import type { ClaimTime } from '../ports.js';

/** What shows newer trades than a page of history does. */
export type EvidenceSource = 'states' | 'tickers' | 'history';

/**
 * How late each source may tell of a trade, exchange milliseconds at real pace; and how long it is
 * believed against an endpoint that brings nothing new at all, milliseconds of this machine. States
 * are pushed; tickers may come from a cache or from several servers that do not agree.
 */
const SOURCES: Readonly<Record<EvidenceSource, { delayMs: number; patienceMs: number }>> = {
  states: { delayMs: 1000, patienceMs: 3_600_000 },
  tickers: { delayMs: 5000, patienceMs: 120_000 },
  history: { delayMs: 0, patienceMs: 3_600_000 },
};
/** Trades that are remembered as seen elsewhere, of each market. */
const SEEN_MAX = 16;

/** A trade that another endpoint has shown, or made certain: when it happened at the earliest. */
interface SeenElsewhere {
  readonly source: EvidenceSource;
  readonly afterMs: number;
  readonly seenAtMs: number;
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

type Kind = 'trades' | 'times';

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
  readonly #heads = new Map<Kind, Head>();
  readonly #disputes = new Map<Kind, Dispute>();
  #seen: SeenElsewhere[] = [];
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
    if (before === undefined || tradeSign(before.figures, figures) !== 'trade') return;
    const { time } = this.#options;
    const delayMs = SOURCES[source].delayMs * Math.max(1, time.pace);
    const seen = { source, afterMs: before.atMs - delayMs, seenAtMs: time.nowMs() };
    this.#seen = [...this.#seen, seen].slice(-SEEN_MAX);
  }

  /**
   * Whether a page of the newest trades may be claimed beyond its newest row, and takes note of it.
   *
   * @param newest its newest row; undefined: it holds none
   * @param untilMs up to where its own times would prove it
   */
  isCurrent(kind: Kind, page: ReplyTimes, newest: PageRow | undefined, untilMs: number): boolean {
    this.#followJump();
    const { clock, time } = this.#options;
    const found = this.#contradiction(kind, page, newest, untilMs);
    const tid = newest?.tid ?? 0;
    const nowMs = time.nowMs();
    if (newest !== undefined && newest.tradedAtS * SECOND_MS <= nowMs) {
      this.#heads.set(kind, { newest, seenAtMs: nowMs });
    }
    const before = this.#disputes.get(kind);
    if (found === undefined) {
      this.#disputes.delete(kind);
      return true;
    }
    const atMs = clock.monotonicMs();
    const dispute = before?.tid === tid ? before : { tid, sinceMs: atMs };
    this.#disputes.set(kind, dispute);
    // Nothing new for so long, and nothing but this source that says otherwise: it may be wrong.
    if (atMs - dispute.sinceMs > SOURCES[found.source].patienceMs) return true;
    this.#report(kind, newest, found, before === undefined);
    return false;
  }

  /** Whether the other endpoint of history shows a row as its newest one. */
  isShownBy(kind: Kind, row: PageRow): boolean {
    const other = this.#heads.get(kind === 'trades' ? 'times' : 'trades');
    return other !== undefined && comparePlaces(other.newest, row) === 0;
  }

  #contradiction(
    kind: Kind,
    { sentAtMs }: ReplyTimes,
    newest: PageRow | undefined,
    untilMs: number,
  ): SeenElsewhere | undefined {
    const isBefore = ({ seenAtMs }: { readonly seenAtMs: number }) => seenAtMs <= sentAtMs;
    const other = this.#heads.get(kind === 'trades' ? 'times' : 'trades');
    if (other !== undefined && isBefore(other)) {
      const afterMs = other.newest.tradedAtS * SECOND_MS;
      const isNewer =
        other.newest.tid > (newest?.tid ?? 0) && other.newest.tradedAtS >= (newest?.tradedAtS ?? 0);
      if (isNewer && afterMs < untilMs) {
        return { source: 'history', afterMs, seenAtMs: other.seenAtMs };
      }
    }
    const endMs = ((newest?.tradedAtS ?? 0) + 1) * SECOND_MS;
    return this.#seen.findLast(
      (one) => isBefore(one) && one.seenAtMs <= untilMs && endMs <= one.afterMs,
    );
  }

  #report(
    kind: Kind,
    newest: PageRow | undefined,
    { source, afterMs }: SeenElsewhere,
    isFirst: boolean,
  ): void {
    const { telemetry, market } = this.#options;
    const behindMs = newest === undefined ? null : afterMs - newest.tradedAtS * SECOND_MS;
    telemetry.historyStale({ stream: kind, market, source, behindMs, isFirst });
  }

  /** Times of before a jump of the exchange's clock are no measure after it. */
  #followJump(): void {
    if (this.#jumps === this.#options.time.jumps) return;
    this.#jumps = this.#options.time.jumps;
    this.#looks.clear();
    this.#heads.clear();
    this.#disputes.clear();
    this.#seen = [];
  }
}
