import assert from 'node:assert/strict';
import type { OffsetKnowledge } from '../../../src/collect/trades/offset-mode.js';
import { PAGE_MAX } from '../../../src/collect/trades/pace.js';
import { historySource, resultSource } from '../../../src/collect/trades/source.js';
import { noTraits, type WalkerOptions } from '../../../src/collect/trades/walk.js';
import { TradeWalker } from '../../../src/collect/trades/walker.js';
import { seededRandom } from '../../../src/kernel/random.js';
import type { StreamRef } from '../../../src/model/batch.js';
import type { OffsetMode } from '../../../src/store/index.js';
import { ScriptedExchange } from '../exchanges/scripted-exchange.js';
import { FakeClock } from '../fake-clock.js';
import { ModelArchive } from '../models/model-archive.js';
import { CollectRecord } from './collect-record.js';

export const START_MS = Date.UTC(2026, 0, 1);
export const START_S = START_MS / 1000;
const MARKET = 'BTC_USDT';
export const { signal } = new AbortController();

export interface Trade {
  tid: number;
  /** Seconds after the start, may have a fraction. */
  readonly atS: number;
  /** Sent in a form that validation refuses. */
  isBroken?: boolean;
  price?: string;
}

export const every = (count: number, stepS: number, fromS = 0): Trade[] =>
  Array.from({ length: count }, (_, index) => ({ tid: index + 1, atS: fromS + index * stepS }));

const clockOf = new WeakMap<TradeWalker, FakeClock>();
/** Longer than a first try is put off, and than two signs of an end must lie apart. */
const PAUSE_MS = 2500;

/** An exchange whose history is written down trade by trade, and walks over both its endpoints. */
export class TradeWorld {
  readonly clock = new FakeClock(START_MS);
  readonly archive = new ModelArchive();
  readonly record = new CollectRecord();
  readonly exchange: ScriptedExchange;
  trades: Trade[];
  /** Rows of the next answer instead, from the oldest on. */
  liesOnce: Trade[] | undefined;
  cap = 1000;
  /** What a walk believes. */
  keptAtLeastMs = 900_000;
  /** How the server reads the offset, and how the walk thinks that it does. */
  mode: OffsetMode = 'skip';
  isModeKnown = true;
  /** What the walk is given besides. */
  extras: Partial<WalkerOptions> = {};
  readonly offsets: OffsetKnowledge = knownMode(() => (this.isModeKnown ? this.mode : undefined));
  readonly traits = noTraits();

  constructor(trades: Trade[], nowS: number) {
    this.trades = trades;
    this.clock.advance(nowS * 1000);
    this.exchange = new ScriptedExchange(this.clock, {
      historyResult: ({ since, limit }) =>
        this.#page(since, limit).map((trade) => ({
          tid: trade.tid,
          date: START_S + Math.floor(trade.atS),
          ...fieldsOf(trade),
        })),
      history: ({ lastId, limit }) =>
        this.#page(lastId, limit).map((trade) => ({
          id: trade.tid,
          time: START_S + trade.atS,
          ...fieldsOf(trade),
        })),
    });
  }

  #page(skip: unknown, limit: unknown): Trade[] {
    assert.ok(Number(limit) <= PAGE_MAX, 'no page holds as many rows');
    const size = Math.min(Number(limit), this.cap);
    const newestFirst = [...(this.liesOnce ?? this.trades)].reverse();
    this.liesOnce = undefined;
    if (this.mode === 'id') {
      return newestFirst.filter(({ tid }) => tid > Number(skip)).slice(0, size);
    }
    return newestFirst.slice(Number(skip), Number(skip) + size);
  }

  /** The walk of an exchange that has no history/result. */
  walkerOfHistory(): TradeWalker {
    this.exchange.lacks.add('historyResult');
    this.extras = { ...this.extras, source: historySource(this.exchange) };
    return this.walker();
  }

  /** A walk that has exact times from the other endpoint. */
  walkerWithTimes(collectFromS?: number): TradeWalker {
    this.extras = { ...this.extras, timed: historySource(this.exchange) };
    return this.walker(collectFromS);
  }

  walker(collectFromS?: number, rangesMax = 1000): TradeWalker {
    const collectFromMs =
      this.archive.floorOf(1) ??
      (collectFromS === undefined ? null : START_MS + collectFromS * 1000);
    const stream: StreamRef = {
      ...{ streamId: 1, kind: 'trades', marketId: 7, variant: 0, collectFromMs },
    };
    const { clock, record } = this;
    const options = {
      market: MARKET,
      marketId: 7,
      stream,
      source: resultSource(this.exchange),
      archive: this.archive,
      time: { nowMs: () => this.clock.wallMs() },
      clock,
      random: seededRandom(1),
      telemetry: record,
      cacheMarginMs: 0,
      keptAtLeastMs: this.keptAtLeastMs,
      traits: this.traits,
      offsets: this.offsets,
      ...this.extras,
    };
    const isAllWanted = collectFromS === undefined;
    const ranges = this.archive.allRanges(1).slice(0, rangesMax);
    const hasTrades = this.archive.trades.size > 0;
    const walker = new TradeWalker({ ...options, isAllWanted }, ranges, hasTrades);
    clockOf.set(walker, this.clock);
    return walker;
  }

  /** Covered spans in seconds after the start, newest first. */
  covered(): Array<[number, number]> {
    return this.archive
      .allRanges(1)
      .map(({ span }) => [afterStart(span.fromMs), afterStart(span.toMs)]);
  }

  gaps(): Array<[number, number, string]> {
    return this.archive.gaps.map(({ span, state }) => [
      afterStart(span.fromMs),
      afterStart(span.toMs),
      state,
    ]);
  }

  /** Nothing is stored that did not happen just so. */
  assertNothingElse(): void {
    const issued = new Set(
      this.trades.map(({ tid, atS }) => `7 ${START_S + Math.floor(atS)} ${tid}`),
    );
    const wrong = [...this.archive.trades.keys()].filter((key) => !issued.has(key));
    assert.deepEqual(wrong, [], 'a trade that never was');
  }

  /** Stored trades without exact time. */
  get untimed(): number {
    return [...this.archive.trades.values()].filter((row) => row.executedAtUs === null).length;
  }

  assertHonest(): void {
    for (const { span } of this.archive.allRanges(1)) {
      for (const { tid, atS } of this.trades) {
        const second = Math.floor(atS);
        if (START_MS + second * 1000 < span.fromMs || START_MS + second * 1000 >= span.toMs)
          continue;
        const stored = this.archive.trades.get(`7 ${START_S + second} ${tid}`);
        assert.ok(stored !== undefined, `trade ${tid} is covered but not stored`);
      }
    }
  }
}

/** Knowledge that needs no looking up. */
export function knownMode(of: () => OffsetMode | undefined): OffsetKnowledge {
  return { of, look: async () => undefined, invalidate: () => undefined };
}

const afterStart = (ms: number) => (ms - START_MS) / 1000;
const fieldsOf = ({ price, isBroken }: Trade) => ({
  price: isBroken === true ? 'NaN' : (price ?? '10'),
  amount: '1',
  total: '10',
  type: 'buy',
});

/** Lets so many tries of a walk fail, each as soon as it is due. */
export async function failTries(
  world: TradeWorld,
  walker: TradeWalker,
  count: number,
): Promise<void> {
  const answer = world.exchange.answers.historyResult ?? assert.fail();
  world.exchange.answers.historyResult = () => {
    throw new Error('away');
  };
  for (let failed = 0; failed < count; failed += 1) {
    for (let s = 0; s < 700 && walker.pendingGap() === undefined; s += 1) world.clock.advance(1000);
    await assert.rejects(walker.fillStep(signal), /away/);
  }
  world.exchange.answers.historyResult = answer;
}

/** Fills until nothing is left to do, now and a pause later, which the world's time does not see. */
export async function fillAll(walker: TradeWalker, limit = 50): Promise<number> {
  let steps = 0;
  for (const pauseMs of [PAUSE_MS, 0]) {
    while (walker.pendingGap() !== undefined) {
      steps += 1;
      assert.ok(steps < limit, 'the walk does not end');
      await walker.fillStep(signal);
    }
    const clock = clockOf.get(walker);
    clock?.advance(pauseMs);
    clock?.stepWall(-pauseMs);
  }
  return steps;
}
