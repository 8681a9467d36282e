import assert from 'node:assert/strict';
import type { ArchivePort } from '../../../src/collect/ports.js';
import type { Market } from '../../../src/contract/resources.js';
import { DAY_MS } from '../../../src/kernel/durations.js';
import {
  doOverlap,
  floorToMs,
  normalizeSpans,
  type Span,
  spanContains,
  subtractSpans,
} from '../../../src/kernel/span.js';
import {
  type Batch,
  type CommitResult,
  type CoverageClaim,
  type CoveredRange,
  type DepthRow,
  type IdEpoch,
  type KlineRow,
  NO_OUTCOMES,
  type QuarantineRow,
  type Revocation,
  type RowOutcomes,
  type StartReason,
  type StateRow,
  type StreamRef,
  type TickerRow,
  type TradeExposure,
  type TradeRow,
} from '../../../src/model/batch.js';
import type { StartTries } from '../../../src/model/explain.js';
import { type GapFinding, type GapMemory, placeFinding } from '../../../src/model/gap-memories.js';
import { comparePlaces, type PageRow } from '../../../src/model/order.js';
import { type Series, tableOfStream } from '../../../src/model/series.js';
import type {
  FillRequests,
  Gap,
  GapFilter,
  MarketChanges,
  OffsetMode,
  PagedEndpoint,
  StartTry,
  StreamKey,
  StreamSpan,
  UntimedTrades,
} from '../../../src/store/index.js';
import { between, lowerBound } from './by-seconds.js';

const EVERY_MARKET = { wanted: [], max: Number.MAX_SAFE_INTEGER };

/** A gap as a collector reported it. */
export interface ReportedGap {
  readonly streamId: number;
  readonly span: Span;
  readonly state: string;
  readonly reason: string;
}

/** A connection as a collector reported it. */
export interface ReportedSession {
  readonly sessionId: number;
  readonly openedMs: number;
  closed: { atMs: number; code: number; reason: string } | undefined;
}

interface TradeKey {
  readonly marketId: number;
  readonly tid: number;
  readonly tradedAtS: number;
  readonly text: string;
}

type Counts = { -readonly [Outcome in keyof RowOutcomes]: number };

/**
 * The archive's rules for rows and their coverage in the fewest words: what the real one must do,
 * without a database. For tests that check thousands of histories of a walk.
 */
export class ModelArchive implements ArchivePort {
  readonly trades = new Map<string, TradeRow>();
  readonly klines = new Map<string, KlineRow>();
  /** Time whose trades have left the database, for looks at slots. */
  readonly tradesInFiles: Span[] = [];
  readonly tickers: TickerRow[] = [];
  readonly depths: DepthRow[] = [];
  readonly states: StateRow[] = [];
  readonly gaps: ReportedGap[] = [];
  readonly sessions: ReportedSession[] = [];
  readonly quarantine: QuarantineRow[] = [];
  readonly streams: StreamRef[] = [];
  readonly listed = new Map<string, Market>();
  /** What is remembered of gaps, by stream; apart from each other. */
  readonly memories = new Map<number, GapMemory[]>();
  /** Tries to find the start of history, by stream. */
  readonly tries = new Map<number, StartTries>();
  /** Why the expectation of each stream begins where it does. */
  readonly startReasons = new Map<number, StartReason | null>();
  /** Epochs of ids that were recorded. */
  readonly epochs: IdEpoch[] = [];
  /** What was found out of the offsets; by default nothing is left to find out. */
  modes: Partial<Record<PagedEndpoint, OffsetMode>> = { history: 'skip', historyResult: 'skip' };
  /** The exchange's time as it was noted last. */
  presentMs: number | null = null;
  commits = 0;
  /** Called before anything is stored; what it throws is what the collector sees. */
  before: (method: keyof ArchivePort, batch?: Batch) => void | Promise<void> = () => undefined;
  /** Called after every commit. */
  onCommit: () => void = () => undefined;
  #ranges: CoveredRange[] = [];
  /**
   * Keys of stored trades by market, in the order of seconds: covered ranges are counted at every
   * commit.
   */
  readonly #keys = new Map<number, TradeKey>();
  readonly #keysInOrder = new Map<number, TradeKey[]>();
  #floors = new Map<number, number>();
  /** Streams by id, also those that tests made up. */
  readonly #known = new Map<number, StreamRef>();
  readonly #wanted: StreamSpan[] = [];
  #lastGapId = 0;
  #marketIds = new Map<string, number>();

  async commit(batch: Batch): Promise<CommitResult> {
    await this.before('commit', batch);
    this.commits += 1;
    const none = (): Counts => ({ ...NO_OUTCOMES });
    const outcomes: Record<Series, Counts> = {
      trade: none(),
      kline: none(),
      ticker: none(),
      depth: none(),
      market_state: none(),
    };
    for (const one of batch.revoke ?? []) this.#revoke(one);
    for (const one of batch.expose ?? []) this.#expose(one);
    for (const row of batch.trades ?? []) outcomes.trade[this.#storeTrade(row)] += 1;
    for (const row of batch.klines ?? []) outcomes.kline[this.#storeKline(row)] += 1;
    this.tickers.push(...(batch.tickers ?? []));
    outcomes.ticker.stored += batch.tickers?.length ?? 0;
    this.depths.push(...(batch.depths ?? []));
    outcomes.depth.stored += batch.depths?.length ?? 0;
    this.states.push(...(batch.states ?? []));
    outcomes.market_state.stored += batch.states?.length ?? 0;
    this.quarantine.push(...(batch.quarantine ?? []));
    const ranges = (batch.claims ?? []).map((claim) => this.#merge(claim));
    for (const { nextAttemptAtMs = null, ...gap } of batch.findings ?? []) {
      this.#remember({ isAttempt: false, nextAttemptAtMs, ...gap });
    }
    for (const { streamId, fromMs, reason } of batch.begins ?? []) {
      this.startReasons.set(streamId, reason ?? null);
      this.#floors.set(streamId, fromMs);
    }
    this.onCommit();
    return { outcomes, ranges };
  }

  /** Nothing is ever covered beyond the present here: only what the gate lets through comes in. */
  async revokeBeyond(): ReturnType<ArchivePort['revokeBeyond']> {
    await this.before('revokeBeyond');
    return [];
  }

  async notePresent(read: () => { readonly presentMs: number } | undefined): Promise<void> {
    await this.before('notePresent');
    this.presentMs = read()?.presentMs ?? this.presentMs;
  }

  #storeTrade(row: TradeRow): keyof RowOutcomes {
    const seen = this.#keys.get(row.tid);
    const isSeen = seen?.marketId === row.marketId && seen.tradedAtS === row.tradedAtS;
    const key = isSeen ? seen.text : `${row.marketId} ${row.tradedAtS} ${row.tid}`;
    const known = this.trades.get(key);
    if (known === undefined) {
      this.trades.set(key, row);
      const keys = this.#keysInOrder.get(row.marketId) ?? [];
      const { tid, tradedAtS, marketId } = row;
      const made = { tid, tradedAtS, marketId, text: key };
      // A test may have taken the row away; its place is kept.
      if (!isSeen) keys.splice(lowerBound(keys, tradedAtS), 0, made);
      this.#keys.set(tid, made);
      this.#keysInOrder.set(row.marketId, keys);
      return 'stored';
    }
    if (known.price !== row.price || known.amount !== row.amount) return 'conflict';
    if (known.executedAtUs !== null || row.executedAtUs === null) return 'duplicate';
    this.trades.set(key, { ...known, executedAtUs: row.executedAtUs });
    return 'updated';
  }

  #storeKline(row: KlineRow): keyof RowOutcomes {
    const key = `${row.marketId} ${row.intervalS} ${row.openAtS}`;
    const known = this.klines.get(key);
    this.klines.set(key, row);
    if (known === undefined) return 'stored';
    return known.close === row.close && known.volume === row.volume ? 'duplicate' : 'updated';
  }

  #merge({ stream, span }: CoverageClaim): CoveredRange {
    this.#known.set(stream.streamId, stream);
    const { streamId } = stream;
    const touching = this.#ranges.filter(
      (range) =>
        range.streamId === streamId &&
        range.span.fromMs <= span.toMs &&
        range.span.toMs >= span.fromMs,
    );
    const all = [span, ...touching.map((range) => range.span)];
    const merged = {
      fromMs: Math.min(...all.map((one) => one.fromMs)),
      toMs: Math.max(...all.map((one) => one.toMs)),
    };
    const range = { streamId, span: merged };
    this.#ranges = [...this.#ranges.filter((one) => !touching.includes(one)), range];
    return range;
  }

  allRanges(streamId: number): CoveredRange[] {
    return this.#ranges
      .filter((range) => range.streamId === streamId)
      .sort((a, b) => b.span.fromMs - a.span.fromMs);
  }

  floorOf(streamId: number): number | null {
    return this.#floors.get(streamId) ?? null;
  }

  async coveredRanges(stream: StreamRef, limit: number): Promise<CoveredRange[]> {
    await this.before('coveredRanges');
    return this.allRanges(stream.streamId).slice(0, limit);
  }

  #remember(
    gap: Omit<GapFinding, 'note'> & { readonly stream: StreamRef; readonly note?: string },
  ): void {
    const { stream, span, state, reason, note = null } = gap;
    this.#known.set(stream.streamId, stream);
    const all = this.memories.get(stream.streamId) ?? [];
    const isNear = (one: GapMemory) =>
      one.state !== 'filled' && one.span.fromMs <= span.toMs && span.fromMs <= one.span.toMs;
    const near = all.filter(isNear);
    const { kept, removed } = placeFinding(near, { ...gap, note });
    const placed = kept.map((one) => {
      this.#lastGapId += one.gapId === null ? 1 : 0;
      return one.gapId === null ? { ...one, gapId: this.#lastGapId } : one;
    });
    const gone = new Set([...removed, ...kept.map(({ gapId }) => gapId)]);
    this.memories.set(stream.streamId, [...all.filter(({ gapId }) => !gone.has(gapId)), ...placed]);
    this.gaps.push({ streamId: stream.streamId, span, state, reason });
  }

  /** Expects a span besides what is collected anyway, as `tapekeep backfill` does. */
  async want({ streamId, marketId }: StreamRef, span: Span): Promise<StreamSpan> {
    const wanted = { streamId, marketId, span };
    this.#wanted.push(wanted);
    return wanted;
  }

  /** Expected and not covered, cut along memories, newest first. */
  gapsOf(stream: StreamRef, untilMs: number): Gap[] {
    const { streamId, kind, marketId, variant } = stream;
    const market = [...this.#marketIds].find(([, id]) => id === marketId)?.[0] ?? '';
    const ranges = this.allRanges(streamId);
    const oldestMs = ranges.at(-1)?.span.fromMs ?? untilMs;
    const fromMs = this.floorOf(streamId) ?? stream.collectFromMs ?? oldestMs;
    const wanted = this.#wanted.filter((one) => one.streamId === streamId).map(({ span }) => span);
    const expected = normalizeSpans([{ fromMs, toMs: untilMs }, ...wanted]);
    const all = this.memories.get(streamId) ?? [];
    const memories = all.filter(({ state }) => state !== 'filled');
    const cutsMs = memories.flatMap(({ span }) => [span.fromMs, span.toMs]);
    const gaps: Gap[] = [];
    for (const whole of expected) {
      for (const gap of subtractSpans(
        whole,
        ranges.map(({ span }) => span),
      )) {
        const inside = cutsMs.filter((ms) => gap.fromMs < ms && ms < gap.toMs);
        const bounds = [...new Set([gap.fromMs, ...inside, gap.toMs])].sort((a, b) => a - b);
        for (const [at, toMs] of bounds.entries()) {
          const lowerMs = bounds[at - 1];
          if (lowerMs === undefined) continue;
          const span = { fromMs: lowerMs, toMs };
          const memory = memories.findLast(
            (one) => one.span.fromMs <= lowerMs && toMs <= one.span.toMs,
          );
          gaps.push({
            ...{ streamId, kind, marketId, market, variant, span },
            ...{ gapId: memory?.gapId ?? null, note: memory?.note ?? null },
            isBeforeHistory: false,
            firstSeenAtMs: memory?.firstSeenAtMs ?? null,
            state: memory?.state === 'unfillable' ? 'unfillable' : 'open',
            reason: memory?.reason ?? 'not collected',
            attempts: memory?.attempts ?? 0,
            nextAttemptAtMs: memory?.nextAttemptAtMs ?? null,
          });
        }
      }
    }
    return gaps.reverse();
  }

  async listGaps(filter: GapFilter, untilMs: number): Promise<Gap[]> {
    const { marketIds, kinds, states, reasons, limit } = filter;
    await this.before('listGaps');
    return [...this.#known.values()]
      .filter(({ marketId }) => marketIds?.includes(marketId) ?? true)
      .filter(({ kind }) => kinds?.includes(kind) ?? true)
      .flatMap((stream) => this.gapsOf(stream, untilMs))
      .filter(
        ({ state, reason }) =>
          (states?.includes(state) ?? true) && (reasons?.includes(reason) ?? true),
      )
      .slice(0, limit);
  }

  async fillRequests(nowMs: number, streamIds?: readonly number[] | null): Promise<FillRequests> {
    await this.before('fillRequests');
    const isAsked = ({ streamId }: { readonly streamId: number }) =>
      streamIds?.includes(streamId) ?? true;
    const open = [...this.memories]
      .flatMap(([streamId, memories]) =>
        memories.filter(({ state }) => state === 'open').map((one) => ({ ...one, streamId })),
      )
      .filter(isAsked);
    const isSuspect = ({ reason, streamId, span, revokedAtMs }: (typeof open)[number]) =>
      reason === 'suspect' &&
      revokedAtMs === null &&
      this.allRanges(streamId).some(
        (range) => range.span.fromMs < span.toMs && span.fromMs < range.span.toMs,
      );
    const isDue = (one: (typeof open)[number]) =>
      (one.nextAttemptAtMs ?? 0) <= nowMs && !isSuspect(one);
    const request = ({ gapId, streamId, span }: (typeof open)[number]) => {
      return { gapId: gapId ?? 0, streamId, span };
    };
    return {
      expired: { trades: null, candles: null },
      candlesInFiles: [],
      wanted: this.#wanted.filter(isAsked),
      suspects: open.filter(isSuspect).map(request),
      due: open.filter(isDue).map((one) => {
        const { attempts, nextAttemptAtMs } = one;
        return { ...request(one), attempts, nextAttemptAtMs };
      }),
    };
  }

  async startTries(streamId: number): Promise<StartTries | null> {
    await this.before('startTries');
    return this.tries.get(streamId) ?? null;
  }

  async noteStartTry(streamId: number, failed: StartTry | null): Promise<void> {
    await this.before('noteStartTry');
    if (failed === null || this.floorOf(streamId) !== null) this.tries.delete(streamId);
    else {
      const attempts = (this.tries.get(streamId)?.attempts ?? 0) + 1;
      this.tries.set(streamId, { ...failed, attempts });
    }
  }

  async tradedSlots(marketId: number, spans: readonly Span[], stepMs: number) {
    await this.before('tradedSlots');
    const slots = new Set<number>();
    for (const trade of this.trades.values()) {
      const span = spans.find((one) => spanContains(one, trade.tradedAtS * 1000));
      if (trade.marketId !== marketId || span === undefined) continue;
      slots.add(span.fromMs + floorToMs(trade.tradedAtS * 1000 - span.fromMs, stepMs));
    }
    const all = spans.flatMap(({ fromMs, toMs }) =>
      Array.from({ length: Math.ceil((toMs - fromMs) / stepMs) }, (_, n) => fromMs + n * stepMs),
    );
    const left = all.filter((fromMs) =>
      this.tradesInFiles.some((one) => doOverlap(one, { fromMs, toMs: fromMs + stepMs })),
    );
    const traded = [...slots].sort((a, b) => a - b);
    return { traded, left: left.filter((fromMs) => !slots.has(fromMs)) };
  }

  async hasTradeBefore(marketId: number, ms: number): Promise<boolean> {
    const [oldest] = await this.storedTrades(marketId, { fromMs: 0, toMs: ms }, 1);
    return oldest !== undefined;
  }

  /** Sets memories that coverage holds by now to filled. */
  closeFilledGaps(): void {
    for (const [streamId, memories] of this.memories) {
      const spans = this.allRanges(streamId).map(({ span }) => span);
      const closed = memories.map((one): GapMemory => {
        const isSuspect = one.reason === 'suspect' && one.revokedAtMs === null;
        const isFilled = !isSuspect && subtractSpans(one.span, spans).length === 0;
        return isFilled ? { ...one, state: 'filled' } : one;
      });
      this.memories.set(streamId, closed);
    }
  }

  #revoke({ stream, span, ...gap }: Revocation): void {
    const cut = this.#ranges.filter(
      (range) => range.streamId === stream.streamId && doOverlap(range.span, span),
    );
    this.#ranges = this.#ranges.filter((range) => !cut.includes(range));
    const { streamId } = stream;
    for (const range of cut) {
      this.#ranges.push(
        ...subtractSpans(range.span, [span]).map((part) => ({ streamId, span: part })),
      );
    }
    const finding = { ...gap, nextAttemptAtMs: null, isAttempt: false, revokedAtMs: gap.atMs };
    this.#remember({ ...finding, stream, span, state: 'open' });
  }

  async storedTrades(
    marketId: number,
    span: Span,
    limit: number,
    end: 'oldest' | 'newest' = 'oldest',
  ): Promise<PageRow[]> {
    await this.before('storedTrades');
    const stored = this.storedWithin(marketId, span).sort(comparePlaces);
    return (end === 'oldest' ? stored : stored.reverse()).slice(0, limit);
  }

  async storedAbove(marketId: number, fromMs: number): Promise<number> {
    await this.before('storedAbove');
    return this.storedWithin(marketId, { fromMs, toMs: Number.POSITIVE_INFINITY }).length;
  }

  /** Stored trades of a market in a span, by second. */
  storedWithin(marketId: number, { fromMs, toMs }: Span): TradeKey[] {
    const keys = this.#keysInOrder.get(marketId) ?? [];
    return between(keys, fromMs / 1000, toMs / 1000).filter(({ text }) => this.trades.has(text));
  }

  /** Partitions are days. */
  async untimedTrades(marketId: number, beforeMs: number): Promise<UntimedTrades | undefined> {
    await this.before('untimedTrades');
    const lacking = [...this.trades.values()].flatMap((row) =>
      row.marketId === marketId && row.executedAtUs === null ? [row.tradedAtS * 1000] : [],
    );
    const fromMs = Math.max(
      ...lacking.map((ms) => floorToMs(ms, DAY_MS)).filter((ms) => ms < beforeMs),
    );
    if (!Number.isFinite(fromMs)) return undefined;
    const partition = { fromMs, toMs: fromMs + DAY_MS };
    const within = lacking.filter((ms) => spanContains(partition, ms));
    return {
      partition,
      lacking: { fromMs: Math.min(...within), toMs: Math.max(...within) + 1000 },
    };
  }

  #expose({ marketId, rows, span, note, atMs }: TradeExposure): void {
    for (const { tradedAtS, tid } of rows) {
      const key = `${marketId} ${tradedAtS} ${tid}`;
      const row = this.trades.get(key);
      if (row === undefined) continue;
      this.trades.delete(key);
      const payload = JSON.stringify(row);
      const refused = { receivedAtMs: row.receivedAtMs, endpoint: 'store:trade', market: null };
      this.quarantine.push({ ...refused, reason: note, payload });
    }
    const streams = [...this.#known.values()].filter(
      (stream) => stream.marketId === marketId && tableOfStream(stream.kind) === 'trade',
    );
    for (const stream of streams) {
      this.#revoke({ stream, span, reason: 'suspect', note, atMs });
      for (const { tradedAtS } of rows) {
        const isCovered = this.allRanges(stream.streamId).some((range) =>
          spanContains(range.span, tradedAtS * 1000),
        );
        assert.ok(!isCovered, 'no row leaves a second that is covered');
      }
    }
  }

  async recordIdEpoch(epoch: IdEpoch): Promise<boolean> {
    await this.before('recordIdEpoch');
    const isKnown = this.epochs.some(
      ({ marketId, beginsMs }) => marketId === epoch.marketId && beginsMs === epoch.beginsMs,
    );
    if (!isKnown) this.epochs.push(epoch);
    return !isKnown;
  }

  async offsetModes(): Promise<Partial<Record<PagedEndpoint, OffsetMode>>> {
    await this.before('offsetModes');
    return { ...this.modes };
  }

  async rememberOffsetMode(endpoint: PagedEndpoint, mode: OffsetMode): Promise<void> {
    await this.before('rememberOffsetMode');
    this.modes = { ...this.modes, [endpoint]: mode };
  }

  async listedMarkets(): ReturnType<ArchivePort['listedMarkets']> {
    await this.before('listedMarkets');
    const ids = [...this.listed.keys()].map(
      (name) => [name, this.#marketIds.get(name) ?? 0] as const,
    );
    const delisted = [...this.#marketIds.keys()].filter((name) => !this.listed.has(name));
    return { ids: new Map(ids), delisted };
  }

  async ensureMarkets(
    markets: readonly Market[],
    _atMs: number,
    list: Parameters<ArchivePort['ensureMarkets']>[2] = { isComplete: true },
  ): Promise<MarketChanges> {
    await this.before('ensureMarkets');
    const { isComplete, take = EVERY_MARKET } = list;
    const kept = isComplete ? [] : [...this.listed.keys()];
    const isWanted = (name: string) => take.wanted.length === 0 || take.wanted.includes(name);
    const isKnown = (name: string) => this.#marketIds.has(name);
    const named = [...new Set([...kept, ...markets.map(({ name }) => name)])];
    const known = named.filter(isKnown);
    const room = Math.max(0, take.max - known.filter(isWanted).length);
    const fresh = named.filter((name) => isWanted(name) && !isKnown(name)).sort();
    const names = new Set([...known, ...fresh.slice(0, room)]);
    const removed = [...this.listed.keys()].filter((name) => !names.has(name));
    const added = [...names].filter((name) => !this.listed.has(name));
    if (isComplete) this.listed.clear();
    for (const market of markets) {
      if (!names.has(market.name)) continue;
      this.listed.set(market.name, market);
      if (!this.#marketIds.has(market.name)) {
        this.#marketIds.set(market.name, this.#marketIds.size + 1);
      }
    }
    const ids = new Map([...names].map((name) => [name, this.#marketIds.get(name) ?? 0]));
    const delisted = [...this.#marketIds.keys()].filter((name) => !ids.has(name));
    return { ids, added, removed, changed: [], delisted, givenUp: [] };
  }

  async ensureStream(key: StreamKey): Promise<StreamRef> {
    await this.before('ensureStream');
    const { kind, marketId, variant, collectFromMs } = key;
    const known = this.streams.find(
      (one) => one.kind === kind && one.marketId === marketId && one.variant === variant,
    );
    if (known !== undefined) return known;
    const streamId = this.streams.length + 1;
    const made = { streamId, kind, marketId, variant, collectFromMs: collectFromMs ?? null };
    this.streams.push(made);
    this.#known.set(streamId, made);
    return made;
  }

  async openSession(_stream: StreamRef, atMs: number): Promise<number> {
    await this.before('openSession');
    const sessionId = this.sessions.length + 1;
    this.sessions.push({ sessionId, openedMs: atMs, closed: undefined });
    return sessionId;
  }

  async closeSession(
    sessionId: number,
    end: { atMs: number; code: number; reason: string },
  ): Promise<void> {
    await this.before('closeSession');
    const session = this.sessions[sessionId - 1];
    if (session !== undefined) session.closed = end;
  }
}
