import type { Clock } from '../../kernel/clock.js';
import type { Span } from '../../kernel/span.js';
import type { CoverageClaim, Evidence, Island, StreamRef } from '../../ledger/batch.js';
import { IslandList } from '../../ledger/islands.js';
import { withoutDoubts } from '../../ledger/proof.js';
import type { CollectEvents } from '../../observe/events.js';
import type { ArchivePort, ExchangeTime } from '../ports.js';
import { quarantineRows } from '../quarantine.js';
import { RecentTrades } from './recent.js';
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

type Outcome = 'stored' | 'updated' | 'duplicate' | 'conflict' | 'rejected';

/**
 * Brings pages of one stream into the archive and keeps the stream's islands as the archive last
 * reported them. Every row that comes in is accounted for exactly once.
 */
export class PageStore {
  readonly #options: PageStoreOptions;
  readonly #recent = new RecentTrades();
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
    if (fresh.length === 0 && page.rejected.length === 0 && this.#isQuiet(spans)) {
      return { islands: this.islands.all.slice(0, 1), doubtfulEdgesMs: [] };
    }
    const { receivedAtMs } = page;
    const result = await archive.commit({
      trades: fresh.map((trade) => ({ ...trade, marketId, receivedAtMs })),
      quarantine: quarantineRows(source.endpoint, market, page.rejected, receivedAtMs),
      claims: spans.map((span): CoverageClaim => ({ stream, span, evidence })),
    });
    this.#flushedAtMs = clock.monotonicMs();
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

  /** Rows that only served to find a place in history. */
  countRepeated(count: number): void {
    const { telemetry, market, source } = this.#options;
    telemetry.received({ stream: source.kind, market, count });
    this.#settled('duplicate', count);
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

  /** Lists what refused rows leave uncovered within a claim. */
  async #noteDoubts(claim: Span, covered: readonly Span[]): Promise<number[]> {
    const edgesMs: number[] = [];
    let toMs = claim.toMs;
    for (const part of [{ fromMs: claim.fromMs, toMs: claim.fromMs }, ...covered].reverse()) {
      if (part.toMs < toMs) {
        const span = { fromMs: part.toMs, toMs };
        await this.recordGap(span, 'open', 'rows refused by validation', 'refused_rows');
        edgesMs.push(toMs);
      }
      toMs = part.fromMs;
    }
    return edgesMs;
  }

  #settled(outcome: Outcome, count: number): void {
    const { telemetry, market, source } = this.#options;
    if (count > 0) telemetry.settled({ stream: source.kind, market, outcome, count });
  }
}
