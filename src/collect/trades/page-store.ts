import type { Clock } from '../../kernel/clock.js';
import { type Span, subtractSpans } from '../../kernel/span.js';
import type { CoverageClaim, Evidence, Island, StreamRef } from '../../ledger/batch.js';
import { IslandList } from '../../ledger/islands.js';
import { withoutDoubts } from '../../ledger/proof.js';
import type { CollectEvents } from '../../observe/events.js';
import type { ArchivePort, ExchangeTime } from '../ports.js';
import { quarantineRows } from '../quarantine.js';
import { RecentRefusals, RecentTrades } from './recent.js';
import type { SourceTrade, TradePage, TradeSource } from './source.js';

export interface PageStoreOptions {
  readonly market: string;
  readonly marketId: number;
  readonly stream: StreamRef;
  readonly source: TradeSource;
  readonly archive: ArchivePort;
  readonly time: ExchangeTime;
  readonly clock: Clock;
  readonly telemetry: CollectEvents;
}

/** Without news, coverage is extended at most this often; a crash forgets no more than this. */
const QUIET_FLUSH_MS = 5000;
/** Spans in doubt that are remembered as told; beyond it they are told once more. */
const TOLD_MAX = 1000;

type Outcome = 'stored' | 'updated' | 'duplicate' | 'conflict' | 'rejected' | 'lost';

/**
 * Brings pages of one stream into the archive and keeps the stream's islands as the archive last
 * reported them. Every row that comes in is accounted for exactly once.
 */
export class PageStore {
  readonly #options: PageStoreOptions;
  readonly #recent = new RecentTrades();
  readonly #refused = new RecentRefusals();
  /** Where spans in doubt begin that were told already. */
  readonly #toldFromMs = new Set<number>();
  #flushedAtMs = Number.NEGATIVE_INFINITY;
  #collectFromMs: number | null;
  readonly islands: IslandList;

  constructor(options: PageStoreOptions, islands: readonly Island[]) {
    this.#options = options;
    this.#collectFromMs = options.stream.collectFromMs;
    this.islands = new IslandList(islands);
  }

  /** Where expected coverage begins; null while the start of history is not known. */
  get collectFromMs(): number | null {
    return this.#collectFromMs;
  }

  /** Sets where expected coverage begins, once that is known. */
  async beginAt(fromMs: number): Promise<void> {
    await this.#options.archive.setCollectFrom(this.#options.stream.streamId, fromMs);
    this.#collectFromMs = fromMs;
  }

  /**
   * Stores a page with the claim that it proves, less the seconds that refused rows put in doubt.
   *
   * @returns the islands that now hold the claim, and the upper edges of spans left in doubt
   */
  async commit(
    page: TradePage,
    claim: Span,
    evidence: Evidence,
  ): Promise<{ islands: readonly Island[]; doubtfulEdgesMs: number[] }> {
    const { archive, marketId, market, stream, source, telemetry, clock } = this.#options;
    const fresh = this.#recent.fresh(page.trades);
    const spans = withoutDoubts(claim, page.doubts);
    telemetry.received({ stream: source.kind, market, count: page.rowCount });
    this.#settled('duplicate', page.trades.length - fresh.length);
    this.#settled('rejected', page.rejected.length);
    const { receivedAtMs } = page;
    const refused = quarantineRows(source.endpoint, market, page.rejected, receivedAtMs);
    const quarantine = this.#refused.fresh(refused);
    if (fresh.length === 0 && quarantine.length === 0 && this.#isQuiet(spans)) {
      return { islands: this.islands.all.slice(0, 1), doubtfulEdgesMs: [] };
    }
    const batch = {
      trades: fresh.map((trade) => ({ ...trade, marketId, receivedAtMs })),
      quarantine,
      claims: spans.map((span): CoverageClaim => ({ stream, span, evidence })),
    };
    const result = await archive.commit(batch).catch((error: unknown) => {
      this.#settled('lost', fresh.length);
      throw error;
    });
    if (spans.length > 0) this.#flushedAtMs = clock.monotonicMs();
    this.#refused.remember(quarantine);
    const { stored, updated, duplicate, conflict, rejected } = result.outcomes.trade;
    this.#settled('stored', stored);
    if (source.kind === 'times' && stored > 0) {
      // A row of history that is a new trade is both: a trade that came in, and its exact time.
      telemetry.received({ stream: 'trades', market, count: stored });
      telemetry.settled({ stream: 'trades', market, outcome: 'stored', count: stored });
    }
    this.#settled('updated', updated);
    this.#settled('duplicate', duplicate);
    this.#settled('conflict', conflict);
    this.#settled('rejected', rejected);
    for (const island of result.islands) this.islands.absorb(island);
    const top = this.islands.top;
    if (top !== undefined) {
      telemetry.progressed({ stream: source.kind, market, newestMs: top.span.toMs });
    }
    return { islands: result.islands, doubtfulEdgesMs: await this.#noteDoubts(claim, spans) };
  }

  /** Call after the commit of a head page: its rows are not sent again while they stay the same. */
  remember(trades: readonly SourceTrade[]): void {
    this.#recent.remember(trades);
  }

  /** Lists a span as a gap, with its reason in words and as a short name for the metric. */
  async recordGap(
    span: Span,
    state: 'open' | 'unfillable',
    reason: string,
    label: string,
  ): Promise<void> {
    const { archive, stream, telemetry, market, source, time } = this.#options;
    await archive.recordGap({ stream, span, state, reason, atMs: Math.floor(time.nowMs()) });
    const lengthMs = span.toMs - span.fromMs;
    telemetry.gapFound({ stream: source.kind, market, reason: label, lengthMs });
  }

  /** Whether a claim only extends the newest coverage by a moment that can wait to be written. */
  #isQuiet(spans: readonly Span[]): boolean {
    const top = this.islands.top;
    const [only] = spans;
    if (top === undefined || only === undefined || spans.length > 1) return spans.length === 0;
    const extendsTop = top.span.fromMs <= only.fromMs && only.fromMs <= top.span.toMs;
    return extendsTop && this.#options.clock.monotonicMs() - this.#flushedAtMs < QUIET_FLUSH_MS;
  }

  /**
   * Lists a span as a gap because of rows in it that could not be read. The same rows come again at
   * every look, and the span may grow meanwhile; it is told once.
   */
  async recordRefused(span: Span): Promise<void> {
    if (span.toMs <= span.fromMs) return;
    const reason = 'rows refused by validation';
    if (!this.#toldFromMs.has(span.fromMs)) {
      if (this.#toldFromMs.size >= TOLD_MAX) this.#toldFromMs.clear();
      this.#toldFromMs.add(span.fromMs);
      return this.recordGap(span, 'open', reason, 'refused_rows');
    }
    const { archive, stream, time } = this.#options;
    const atMs = Math.floor(time.nowMs());
    await archive.recordGap({ stream, span, state: 'open', reason, atMs });
  }

  /** Lists what refused rows leave uncovered within a claim, unless it was covered before. */
  async #noteDoubts(claim: Span, covered: readonly Span[]): Promise<number[]> {
    const open = subtractSpans(claim, [...covered, ...this.islands.spans]);
    for (const span of open) await this.recordRefused(span);
    return open.map((span) => span.toMs);
  }

  #settled(outcome: Outcome, count: number): void {
    const { telemetry, market, source } = this.#options;
    if (count > 0) telemetry.settled({ stream: source.kind, market, outcome, count });
  }
}
