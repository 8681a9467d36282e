import assert from 'node:assert/strict';
import { OffsetModes } from '../../../src/collect/trades/offset-mode.js';
import { noTraits } from '../../../src/collect/trades/walk.js';
import { WalkStalledError } from '../../../src/collect/trades/walk-errors.js';
import { TradeWalker } from '../../../src/collect/trades/walker.js';
import { seededRandom } from '../../../src/kernel/random.js';
import type { Span } from '../../../src/kernel/span.js';
import type { CoveredRange, StreamRef } from '../../../src/model/batch.js';
import { FakeClock } from '../fake-clock.js';
import { noTelemetry } from '../no-telemetry.js';
import { ModelArchive } from './model-archive.js';
import { HISTORY_START_S, type HistoryTraits, ModelHistory } from './model-history.js';

const { signal } = new AbortController();

export interface WalkWorld extends HistoryTraits {
  readonly crashEvery: number;
  /** Share of answers that are cut to a few rows or none. */
  readonly shortShare: number;
  /** Every so many steps there is no reader for a while, and the exchange forgets all but its newest trades. */
  readonly forgetEvery: number;
  /** Every so many commits one fails. */
  readonly failEvery: number;
  /** Where expected coverage begins, as a share of the time of the first history; null: open. */
  readonly floor: number | null;
  /** Wanted spans as shares of that time; below 0 there is no history. */
  readonly wanted: readonly (readonly [number, number])[];
  readonly invalidateEvery: number;
}

/**
 * Seconds between the last rounds: one beyond every pause, then some that are soon enough for a second sign
 * of an end to count, also where the first one took two steps to come to.
 */
const ROUND_WAITS_S = [7200, 700, 700, 700];
/** Rounds in a row that change nothing until a world counts as settled. */
const SETTLED_ROUNDS = ROUND_WAITS_S.length;

/** What befell all the runs of this process. */
export const fired = {
  crashes: 0,
  lies: 0,
  refused: 0,
  invalidations: 0,
  failed: 0,
  horizons: 0,
  beyond: 0,
  cut: 0,
  cutTwice: 0,
  forgotten: 0,
};

/** One walk through one world, from its first look to the day when nothing is left to do. */
export class WalkRun {
  readonly exchange: ModelHistory;
  readonly archive = new ModelArchive();
  readonly clock = new FakeClock();
  readonly #world: WalkWorld;
  readonly #random: () => number;
  readonly #key = { streamId: 1, kind: 'trades', marketId: 7, variant: 0 } as const;
  readonly #firstFloorMs: number | null;
  readonly wanted: Span[];
  readonly #checked = new WeakSet<CoveredRange>();
  walker: TradeWalker;

  constructor(world: WalkWorld) {
    this.#world = world;
    this.#random = seededRandom(world.seed + 1);
    this.exchange = new ModelHistory(world);
    const lengthMs = Math.max(60_000, this.exchange.nowMs - HISTORY_START_S * 1000);
    const at = (part: number) => HISTORY_START_S * 1000 + Math.round(part * lengthMs);
    this.#firstFloorMs = world.floor === null ? null : at(world.floor);
    this.wanted = world.wanted
      .map(([a, b]) => ({ fromMs: at(Math.min(a, b)), toMs: at(Math.max(a, b)) }))
      .filter(({ fromMs, toMs }) => fromMs < toMs);
    for (const span of this.wanted) void this.archive.want(this.stream, span);
    this.archive.modes = {};
    let commits = 0;
    this.archive.before = (method) => {
      if (method !== 'commit' || !this.exchange.isMoving) return;
      commits += 1;
      if (commits % world.failEvery !== 0) return;
      fired.failed += 1;
      throw new Error('no database');
    };
    this.archive.onCommit = () => this.assertHonest();
    this.walker = this.begin();
  }

  get stream(): StreamRef {
    return { ...this.#key, collectFromMs: this.archive.floorOf(1) ?? this.#firstFloorMs };
  }

  /** A daemon that knows nothing but the archive. */
  begin(): TradeWalker {
    const { archive, clock } = this;
    const telemetry = noTelemetry.collect;
    const walker = new TradeWalker(
      {
        market: 'BTC_USDT',
        marketId: 7,
        stream: this.stream,
        source: this.exchange,
        archive,
        time: { nowMs: () => this.exchange.nowMs },
        clock,
        random: seededRandom(this.#world.seed),
        telemetry,
        cacheMarginMs: 60_000,
        keptAtLeastMs: 900_000,
        isAllWanted: this.stream.collectFromMs === null,
        traits: noTraits(),
        offsets: new OffsetModes({ archive, clock, telemetry }),
      },
      archive.allRanges(1),
      archive.trades.size > 0,
    );
    for (const span of this.wanted) walker.backfill(span);
    return walker;
  }

  async attempt(work: () => Promise<unknown>): Promise<void> {
    await work().catch((error: unknown) => {
      const isKnown = error instanceof WalkStalledError || /no database/.test(String(error));
      if (!isKnown) throw error;
    });
  }

  async invalidate(): Promise<void> {
    const { span } = this.archive.allRanges(1)[0] ?? {};
    if (span === undefined) return;
    const fromMs =
      span.fromMs + Math.floor((this.#random() * (span.toMs - span.fromMs)) / 2000) * 1000;
    const toMs = fromMs + Math.ceil(this.#random() * 20) * 1000;
    await this.attempt(() => this.walker.invalidate({ fromMs, toMs }, 'a test'));
    this.assertHonest();
    fired.invalidations += 1;
  }

  async live(): Promise<void> {
    const { crashEvery, invalidateEvery, forgetEvery } = this.#world;
    for (let turn = 1; turn <= 60; turn += 1) {
      await this.attempt(() => this.walker.pollHead(signal));
      for (let step = 0; step < 3; step += 1)
        await this.attempt(() => this.walker.fillStep(signal));
      if (turn % invalidateEvery === 0) await this.invalidate();
      this.clock.advance(6000);
      if (forgetEvery > 0 && turn % forgetEvery === 0) {
        this.exchange.away(1000, 40);
        this.clock.advance(1_000_000);
      }
      if (turn % crashEvery !== 0) continue;
      this.walker = this.begin();
      fired.crashes += 1;
    }
  }

  /** The exchange stands still and is truthful; what is put off is tried again, several times. */
  async settle(): Promise<void> {
    this.exchange.isMoving = false;
    this.exchange.rest(200);
    fired.lies += this.exchange.lies;
    fired.refused += this.exchange.broken.size;
    fired.cut += this.exchange.cuts;
    fired.cutTwice += this.exchange.cutsInRow;
    fired.forgotten += this.exchange.forgotten;
    let last = '';
    let sameRounds = 0;
    for (let round = 0; round < 24 && sameRounds < SETTLED_ROUNDS; round += 1) {
      const waitS = ROUND_WAITS_S[round % ROUND_WAITS_S.length] ?? 0;
      this.clock.advance(waitS * 1000);
      this.exchange.rest(waitS);
      await this.attempt(() => this.walker.pollHead(signal));
      let steps = 0;
      while (this.walker.pendingGap() !== undefined) {
        steps += 1;
        assert.ok(steps < 400, 'the walk never ends');
        await this.attempt(() => this.walker.fillStep(signal));
      }
      const now = this.#outcome();
      sameRounds = now === last ? sameRounds + 1 : 0;
      last = now;
    }
  }

  /** What the archive says now, but for the newest coverage, which grows with time alone. */
  #outcome(): string {
    const { archive, exchange, stream } = this;
    const [top, ...ranges] = archive.allRanges(1);
    const gaps = archive.gapsOf(stream, exchange.nowMs - 120_000);
    const found = gaps.map(({ span, state, reason }) => [span, state, reason]);
    return JSON.stringify([top?.span.fromMs, ranges, found]);
  }

  /**
   * Rows are stored only if they were issued (the archive's keys), so equal counts are equal sets:
   * this is looked at after every commit.
   */
  assertHonest(): void {
    for (const range of this.archive.allRanges(1)) {
      if (this.#checked.has(range)) continue;
      const { span } = range;
      const happened = this.exchange.countWithin(span);
      const stored = this.archive.storedWithin(7, span).length;
      const text = `of ${happened} trades in [${span.fromMs}, ${span.toMs}) ${stored} are stored`;
      assert.equal(stored, happened, text);
      // Nothing happens in the past any more, and a change makes another covered range of it.
      if (span.toMs <= this.exchange.nowMs) this.#checked.add(range);
    }
  }

  isStored({ tradedAtS, tid }: { tradedAtS: number; tid: number }): boolean {
    return this.archive.trades.has(`7 ${tradedAtS} ${tid}`);
  }

  /** Everything that was issued is stored, or lies in a gap that is listed with a true reason. */
  assertComplete(): void {
    const { exchange, archive } = this;
    const { mode } = this.#world;
    const hasTrades = exchange.issued.length - exchange.broken.size > 1;
    if (hasTrades) assert.equal(archive.modes.historyResult, mode);
    const gaps = archive.gapsOf(this.stream, exchange.nowMs - 120_000);
    const floorMs = this.stream.collectFromMs;
    for (const trade of exchange.issued) {
      if (this.isStored(trade)) continue;
      const ms = trade.tradedAtS * 1000;
      const isExpected =
        (floorMs !== null ? ms >= floorMs : mode === 'skip' && exchange.isServed(trade)) ||
        this.wanted.some(({ fromMs, toMs }) => fromMs <= ms && ms < toMs);
      if (!isExpected || (exchange.broken.has(trade.tid) && floorMs === null)) continue;
      const gap = gaps.find(({ span }) => span.fromMs <= ms && ms < span.toMs);
      assert.ok(gap !== undefined, `trade ${trade.tid} is neither stored nor in a listed gap`);
      if (mode === 'skip') {
        const isLost = exchange.broken.size > 0 || !exchange.isServed(trade);
        assert.ok(isLost, `trade ${trade.tid} could have been had`);
      }
    }
    if (!hasTrades || exchange.broken.size > 0) return;
    for (const gap of gaps) {
      const { span, state, reason } = gap;
      const text = `[${span.fromMs}, ${span.toMs}) ${state}: ${reason}, after ${gap.attempts} tries`;
      const last = exchange.issued.at(-1);
      // The last second has no later trade that would prove its end.
      if (last !== undefined && span.fromMs >= last.tradedAtS * 1000) continue;
      assert.equal(state, 'unfillable', text);
      if (reason === 'history horizon') fired.horizons += 1;
      if (reason === 'beyond history') fired.beyond += 1;
      const isBefore = span.toMs <= ((exchange.oldestServed?.tradedAtS ?? 0) + 1) * 1000;
      const expected = mode === 'id' ? ['history horizon', 'beyond history'] : ['beyond history'];
      assert.ok(expected.includes(reason), text);
      if (reason === 'beyond history') assert.ok(isBefore, `history begins later: ${text}`);
    }
  }
}
