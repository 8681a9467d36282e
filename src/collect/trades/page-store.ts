import { BoundedMap, BoundedSet } from '../../kernel/bounded.js';
import { SECOND_MS } from '../../kernel/durations.js';
import { Mutex } from '../../kernel/mutex.js';
import { hashText } from '../../kernel/random.js';
import { type Span, subtractSpans } from '../../kernel/span.js';
import type {
  Batch,
  CommitResult,
  CoverageClaim,
  CoveredRange,
  Evidence,
  GapRecord,
  QuarantineRow,
  Revocation,
  RowOutcomes,
  StartReason,
  StreamStart,
} from '../../model/batch.js';
import { CoveredRangeList, RANGES_MAX } from '../../model/covered-ranges.js';
import { comparePlaces, type PageRow, placeKey, seamsOf } from '../../model/order.js';
import { withoutUnread } from '../../model/proof.js';
import type { StreamContext } from '../ports.js';
import { quarantineRows, type StreamReport, streamReport } from '../reports.js';
import type { SourceTrade, TradePage, TradeSource } from './source.js';

export interface PageStoreOptions extends StreamContext {
  readonly marketId: number;
  readonly source: TradeSource;
}

/** Without news, coverage is extended at most this often; a crash forgets no more than this. */
const QUIET_FLUSH_MS = 5000;
/** Suspect spans that are remembered as written. */
const WRITTEN_MAX = 1000;
/** Rows that were refused are asked for again this rarely. */
const REFUSED_RETRY_MS = 600_000;
const REFUSED_REWRITE_MS = 60_000;
/** Refused rows that are remembered: those of a few pages. */
const REFUSALS_MAX = 5000;

interface Committed {
  /** Those that now hold the claim. */
  readonly ranges: readonly CoveredRange[];
  /** Upper edges of suspect spans. */
  readonly suspectEdgesMs: readonly number[];
  /** Outcomes of the trades; undefined if nothing was new. */
  readonly outcomes: RowOutcomes | undefined;
}

/** Seams that are remembered as recorded; beyond it they are recorded once more, which changes nothing. */
const SEAMS_MAX = 100;

/** A claim of nothing: rows are stored, no span is called covered. */
const NOTHING: Span = { fromMs: 0, toMs: 0 };

/**
 * Brings pages of one stream into the archive and keeps the stream's covered ranges as the archive
 * last reported them. Every row that comes in is accounted for exactly once.
 */
export class PageStore {
  readonly #options: PageStoreOptions;
  readonly #report: StreamReport;
  readonly #recent = new RecentTrades();
  readonly #mutex = new Mutex();
  /** Rows in quarantine: one that is refused comes again with every page until newer trades push it out. */
  readonly #refused = new BoundedSet<number>(REFUSALS_MAX);
  /** Suspect spans as they were last written down, by start. */
  readonly #seenSpans = new BoundedMap<number, { readonly toMs: number; readonly atMs: number }>(
    WRITTEN_MAX,
  );
  readonly #seams = new BoundedSet<string>(SEAMS_MAX);
  /** When a claim was written last; at once again after rows without one. */
  #flushedAtMs = Number.NEGATIVE_INFINITY;
  #collectFromMs: number | null;
  /** Coverage to be revoked with the next commit, and the start to be set with it. */
  readonly #revoke: Revocation[] = [];
  #begins: Pick<StreamStart, 'fromMs' | 'reason'> | undefined;
  #lowest: PageRow | undefined;
  readonly ranges: CoveredRangeList;

  constructor(options: PageStoreOptions, ranges: readonly CoveredRange[]) {
    this.#options = options;
    this.#report = streamReport(options.telemetry, 'trades', options.market);
    this.#collectFromMs = options.stream.collectFromMs;
    this.ranges = new CoveredRangeList(ranges);
  }

  /** Where expected coverage begins; null while the start of history is not known. */
  get collectFromMs(): number | null {
    return this.#begins?.fromMs ?? this.#collectFromMs;
  }

  /** The oldest trade that this run has seen. */
  get lowest(): PageRow | undefined {
    return this.#lowest;
  }

  /** What is expected begins no earlier, as the archive has it already. */
  keepFrom(ms: number): void {
    this.#collectFromMs = Math.max(this.#collectFromMs ?? ms, ms);
  }

  /** Sets where expected coverage begins, once that is known: with the next commit. */
  beginAt(fromMs: number, reason: StartReason): void {
    this.#begins = { fromMs, reason };
  }

  /** Revokes coverage with the next commit; it is missing from now on. */
  suspect(span: Span, note: string): void {
    const { stream, time } = this.#options;
    const atMs = Math.floor(time.nowMs());
    this.#revoke.push({ stream, span, reason: 'suspect', note, atMs });
    this.ranges.cut(span);
    this.#forgetRows();
  }

  /**
   * Stores a page with the claim that it proves, less the seconds that refused rows make suspect.
   *
   * @param claim left out: the page proves nothing
   */
  async commit(page: TradePage, claim = NOTHING, evidence: Evidence = {}): Promise<Committed> {
    const { marketId, market, stream, source, clock } = this.#options;
    const trades = page.trades.filter((trade) => !page.held.includes(trade));
    const fresh = this.#recent.fresh(trades);
    for (const trade of fresh) {
      if (this.#lowest === undefined || comparePlaces(trade, this.#lowest) < 0) {
        this.#lowest = trade;
      }
    }
    const spans = withoutUnread(claim, page.unread);
    this.#report.received(page.trades.length + page.rejected.length);
    const duplicate = page.trades.length - fresh.length;
    this.#report.settled({ duplicate, rejected: page.rejected.length });
    const { receivedAtMs } = page;
    const refused = quarantineRows(source.endpoint, market, page.rejected, receivedAtMs);
    const quarantine = refused.filter((row) => !this.#refused.has(refusalHashOf(row)));
    if (fresh.length === 0 && quarantine.length === 0 && this.#isQuiet(spans)) {
      return { ranges: this.ranges.all.slice(0, 1), suspectEdgesMs: [], outcomes: undefined };
    }
    const suspects = this.#suspectsOf(page, claim, spans);
    const findings = suspects.filter((span) => this.#isNewlyRefused(span)).map(refusedGap);
    const batch = {
      trades: fresh.map((trade) => ({ ...trade, marketId, receivedAtMs })),
      quarantine,
      claims: spans.map((span): CoverageClaim => ({ stream, span, evidence })),
    };
    const result = await this.#commit(batch, findings).catch((error: unknown) => {
      this.#report.settled({ lost: fresh.length });
      throw error;
    });
    if (spans.length > 0) this.#flushedAtMs = clock.monotonicMs();
    else if (fresh.length > 0) this.#flushedAtMs = Number.NEGATIVE_INFINITY;
    for (const row of quarantine) this.#refused.add(refusalHashOf(row));
    const outcomes = result.outcomes.trade;
    this.#report.settled(outcomes);
    for (const range of result.ranges) this.ranges.absorb(range);
    const top = this.ranges.top;
    if (top !== undefined) this.#report.progressed(top.span.toMs);
    const suspectEdgesMs = suspects.map((span) => span.toMs);
    return { ranges: result.ranges, suspectEdgesMs, outcomes };
  }

  /** Keeps nothing of a page that is not believed but its refused rows, in quarantine. */
  async refuse(page: TradePage): Promise<void> {
    if (page.rejected.length === 0) return;
    await this.commit({ ...page, trades: [] });
  }

  /** Call after the commit of a head page: its rows, newest first, are not sent again while they stay the same. */
  remember(trades: readonly SourceTrade[]): void {
    this.#recent.remember(trades);
  }

  /**
   * Records where rows show that the exchange began the ids of a market anew. Nothing else depends on it: trades are
   * ordered by time first, so that the walk and the archive go on over a seam as over any second.
   *
   * @param rows newest first, of one page or of a page and what is known below it
   */
  async noteSeams(rows: readonly SourceTrade[]): Promise<void> {
    const { archive, marketId, market, source, telemetry, time } = this.#options;
    for (const { first, last } of seamsOf(rows)) {
      const key = placeKey(first);
      if (this.#seams.has(key)) continue;
      const beginsMs = first.tradedAtS * SECOND_MS;
      const [firstId, lastIdBefore] = [first.tid, last.tid];
      const isNew = await archive.recordIdEpoch({
        ...{ marketId, beginsMs, firstId, lastIdBefore },
        lastBeforeMs: last.tradedAtS * SECOND_MS,
        ...{ endpoint: source.endpoint, atMs: Math.floor(time.nowMs()) },
      });
      this.#seams.add(key);
      if (isNew) telemetry.idsBegunAnew({ market, firstId, lastIdBefore, atMs: beginsMs });
    }
  }

  /** Lists gaps, and takes along what waits for a commit. */
  async record(...findings: readonly WalkFinding[]): Promise<void> {
    await this.#commit({}, findings);
  }

  /**
   * Commits a batch with all that is to go with it; that waits for the next commit when this one fails. Pages of both
   * endpoints are committed one after the other: each revocation goes with one of them, and none is lost.
   */
  #commit(batch: Batch, findings: readonly WalkFinding[]): Promise<CommitResult> {
    return this.#mutex.run(() => this.#commitNext(batch, findings));
  }

  async #commitNext(batch: Batch, findings: readonly WalkFinding[]): Promise<CommitResult> {
    const { archive, stream, time } = this.#options;
    const [revoke, begins] = [[...this.#revoke], this.#begins];
    const atMs = Math.floor(time.nowMs());
    const gaps = findings.map(({ waitMs, note, ...gap }): GapRecord => {
      // Exchange time and ours run alike as far as a pause goes.
      const nextAttemptAtMs = waitMs === null ? null : atMs + Math.ceil(waitMs);
      const attempt = note === undefined ? {} : { note, isAttempt: true };
      return { stream, ...gap, atMs, nextAttemptAtMs, ...attempt };
    });
    const result = await archive.commit({
      ...{ ...batch, revoke, findings: gaps },
      begins: begins === undefined ? [] : [{ streamId: stream.streamId, ...begins }],
    });
    this.#revoke.splice(0, revoke.length);
    if (begins !== undefined) {
      this.#collectFromMs = begins.fromMs;
      this.#begins = undefined;
    }
    for (const { span, reason } of findings) this.#report.gap(span, reason);
    return result;
  }

  /** Reads the covered ranges anew and forgets the rows known to be stored: they are suspect. */
  async reload(): Promise<void> {
    const { archive, stream } = this.#options;
    this.ranges.replace(await archive.coveredRanges(stream, RANGES_MAX));
    for (const { span } of this.#revoke) this.ranges.cut(span);
    this.#forgetRows();
  }

  #forgetRows(): void {
    this.#recent.forget();
    this.#flushedAtMs = Number.NEGATIVE_INFINITY;
  }

  /** Whether a claim only extends the newest coverage by a short time that can wait. */
  #isQuiet(spans: readonly Span[]): boolean {
    if (this.#revoke.length > 0 || this.#begins !== undefined) return false;
    const top = this.ranges.top;
    const [only] = spans;
    if (top === undefined || only === undefined || spans.length > 1) return spans.length === 0;
    const extendsTop = top.span.fromMs <= only.fromMs && only.fromMs <= top.span.toMs;
    return extendsTop && this.#options.clock.monotonicMs() - this.#flushedAtMs < QUIET_FLUSH_MS;
  }

  /** Lists a span as a gap because of rows in it that could not be read. */
  async recordRefused(span: Span): Promise<void> {
    if (this.#isNewlyRefused(span)) await this.record(refusedGap(span));
  }

  /**
   * Returns true if a span with unreadable rows must be written. The same rows come again with every page, and the span may
   * grow meanwhile: it is written when it grew or when the last word on its next attempt has grown old.
   */
  #isNewlyRefused({ fromMs, toMs }: Span): boolean {
    if (toMs <= fromMs) return false;
    const nowMs = this.#options.clock.monotonicMs();
    const last = this.#seenSpans.get(fromMs);
    if (last !== undefined && toMs <= last.toMs && nowMs - last.atMs < REFUSED_REWRITE_MS) {
      return false;
    }
    this.#seenSpans.set(fromMs, { toMs, atMs: nowMs });
    return true;
  }

  /** Returns the spans of a claim that refused rows leave uncovered, unless they were covered before. */
  #suspectsOf({ rejected }: TradePage, claim: Span, covered: readonly Span[]): Span[] {
    // A newest row that the page does not show is refused by no rule: the next page shows it.
    if (rejected.length === 0) return [];
    return subtractSpans(claim, [...covered, ...this.ranges.spans]);
  }
}

/** A gap as the walk lists it. */
export interface WalkFinding extends Pick<GapRecord, 'span' | 'state' | 'reason' | 'note'> {
  /** Until the next attempt; null: as soon as possible, or never for what is unfillable. */
  readonly waitMs: number | null;
}

function refusedGap(span: Span): WalkFinding {
  return { span, state: 'open', reason: 'refused rows', waitMs: REFUSED_RETRY_MS };
}

/** Stored rows that are remembered at least: the next page may reach below the last one. */
const RECENT_MIN = 300;

/**
 * Remembers the trades of the last pages that were stored, to drop their repetition at the next poll
 * without asking the archive. A trade with the same id and *other* fields is let through: the
 * archive decides on conflicts. One that lacks the exact time which is stored says nothing else.
 */
class RecentTrades {
  readonly #stored = new Map<number, StoredTrade>();

  /** The trades that are not known to be stored just so. */
  fresh(trades: readonly SourceTrade[]): SourceTrade[] {
    return trades.filter((trade) => {
      const stored = this.#stored.get(trade.tid);
      if (stored?.hash !== hashOf(trade)) return true;
      return trade.executedAtUs !== null && trade.executedAtUs !== stored.executedAtUs;
    });
  }

  /** Call only after the commit: what is remembered here is not sent again. @param trades newest first */
  remember(trades: readonly SourceTrade[]): void {
    const stored = this.#stored;
    const before = new Map(stored);
    stored.clear();
    for (const trade of trades) {
      const hash = hashOf(trade);
      const last = before.get(trade.tid);
      const known = last?.hash === hash ? last.executedAtUs : null;
      stored.set(trade.tid, { hash, executedAtUs: trade.executedAtUs ?? known });
    }
    for (const [tid, one] of before) {
      if (stored.size >= RECENT_MIN) break;
      if (!stored.has(tid)) stored.set(tid, one);
    }
  }

  forget(): void {
    this.#stored.clear();
  }
}

interface StoredTrade {
  /** Hash of all fields except the exact time. */
  readonly hash: number;
  readonly executedAtUs: number | null;
}

function hashOf({ tradedAtS, price, amount, total, side }: SourceTrade): number {
  return hashText(`${tradedAtS}|${price}|${amount}|${total}|${side}`);
}

function refusalHashOf({ reason, payload }: QuarantineRow): number {
  return hashText(`${reason}|${payload}`);
}
