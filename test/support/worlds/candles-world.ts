import assert from 'node:assert/strict';
import { CandleCollector } from '../../../src/collect/candles/candles.js';
import type { ArchivePort } from '../../../src/collect/ports.js';
import type { Span } from '../../../src/kernel/span.js';
import type { StreamRef, TradeRow } from '../../../src/model/batch.js';
import { ScriptedExchange } from '../exchanges/scripted-exchange.js';
import { FakeClock } from '../fake-clock.js';
import { ModelArchive } from '../models/model-archive.js';
import { CollectRecord } from './collect-record.js';

/** A market of which candles of a minute are collected. Times are minutes after the start. */

export const START_MS = Date.UTC(2026, 0, 1);
export const MINUTE_MS = 60_000;
const MARKET = 'BTC_USDT';
export const { signal } = new AbortController();
export const minuteOf = (ms: number) => (ms - START_MS) / MINUTE_MS;
/** First minute, and the one behind the last. */
type Minutes = [from: number, to: number];
const minutesOf = ({ fromMs, toMs }: Span): Minutes => [minuteOf(fromMs), minuteOf(toMs)];
const OF_CANDLES = { streamId: 1, kind: 'candles', marketId: 7, variant: 60 } as const;
export const CANDLES: StreamRef = { ...OF_CANDLES, collectFromMs: null };

export class CandlesWorld {
  readonly clock = new FakeClock(START_MS);
  readonly archive = new ModelArchive();
  readonly record = new CollectRecord();
  readonly exchange: ScriptedExchange;
  /** Minutes whose candle is absent, or is sent broken. */
  readonly absent = new Set<number>();
  readonly broken = new Set<number>();
  /** Minutes that have a candle, where these are not all. */
  holds: (minute: number) => boolean = () => true;
  /** Changes the minutes of an answer; the number counts answers from 1. */
  cut: (minutes: number[], answer: number) => number[] = (minutes) => minutes;
  extra: unknown[] = [];
  /** Value of the answer's header. */
  interval = 60;
  volume = '1';
  /** Minutes that the answer is about, where it is not all that was asked for: the first and the last. */
  answered: { readonly fromMin: number; readonly toMin: number } | undefined;
  #answers = 0;

  constructor(nowMin: number) {
    this.clock.advance(nowMin * MINUTE_MS);
    this.exchange = new ScriptedExchange(this.clock, {
      kline: (asked) => {
        const { market } = asked;
        const { fromMin = -1e6, toMin = 1e6 } = this.answered ?? {};
        const at = (minute: number) => START_MS / 1000 + 60 * minute;
        const start = Math.max(Number(asked.start), at(fromMin));
        const end = Math.min(Number(asked.end), at(toMin));
        const minutes: number[] = [];
        for (let time = start; time <= end; time += 60) {
          const minute = minuteOf(time * 1000);
          if (this.holds(minute) && !this.absent.has(minute)) minutes.push(minute);
        }
        this.#answers += 1;
        const kline = this.cut(minutes, this.#answers).map((minute) =>
          this.candle(at(minute), this.broken.has(minute) ? 'NaN' : '5'),
        );
        return { market, start, end, interval: this.interval, kline: [...kline, ...this.extra] };
      },
    });
  }

  candle(time: unknown, close = '5', market = MARKET) {
    const { volume } = this;
    return { time, open: '5', close, highest: '5', lowest: '5', volume, amount: '5', market };
  }

  collector({
    collectFromMin = 0 as number | null,
    rereads = 0,
    coveredTrades = (): Span[] => [],
    archive = this.archive as ArchivePort,
    nowMs = () => this.clock.wallMs(),
  } = {}): CandleCollector {
    const collectFromMs = collectFromMin === null ? null : START_MS + collectFromMin * MINUTE_MS;
    return new CandleCollector(
      {
        ...{ market: MARKET, marketId: 7, intervalS: 60, rereads, coveredTrades, archive },
        stream: { ...CANDLES, collectFromMs },
        ...{ exchange: this.exchange, clock: this.clock, telemetry: this.record, time: { nowMs } },
        ...{ graceMs: 10_000, isFinest: true, givenUp: [] },
      },
      this.archive.allRanges(1),
    );
  }

  asked(): Minutes[] {
    return this.exchange.asked.map(({ params }) => [
      minuteOf(Number(params.start) * 1000),
      minuteOf(Number(params.end) * 1000) + 1,
    ]);
  }

  covered(): Minutes[] {
    return this.archive.allRanges(1).map(({ span }) => minutesOf(span));
  }

  stored(): number[] {
    const minutes = [...this.archive.klines.values()].map(({ openAtS }) =>
      minuteOf(openAtS * 1000),
    );
    return minutes.sort((a, b) => a - b);
  }

  /** Remembered gaps, oldest time first. */
  states() {
    return (this.archive.memories.get(1) ?? [])
      .filter(({ state }) => state !== 'filled')
      .map(({ state, reason, span }) => ({ state, reason, span: minutesOf(span) }));
  }

  gaps(): Minutes[] {
    return this.archive.gaps.map(({ span }) => minutesOf(span));
  }

  /** Everything from the first candle on is covered, every candle that there is is stored. */
  assertWhole(toMin: number): void {
    const all = Array.from({ length: toMin }, (_, minute) => minute).filter(this.holds);
    const fromMin = all[0] ?? toMin;
    assert.deepEqual(this.covered(), all.length === 0 ? [] : [[fromMin, toMin]]);
    assert.deepEqual(this.stored(), all);
    for (const { span, reason } of this.archive.gaps) {
      assert.equal(reason, 'beyond history');
      assert.ok(minuteOf(span.toMs) <= fromMin);
    }
    this.record.assertAccounted('candles');
  }
}

export const tradeAt = (minute: number): TradeRow => ({
  ...{ marketId: 7, tid: minute, side: 'buy', price: '5', amount: '1', total: '5' },
  ...{ tradedAtS: START_MS / 1000 + 60 * minute, executedAtUs: null, receivedAtMs: START_MS },
});

/** Polls until nothing is left to ask for, and returns how often. */
export async function pollAll(collector: CandleCollector): Promise<number> {
  let polls = 1;
  while (await collector.poll(signal)) {
    polls += 1;
    assert.ok(polls < 100, 'the collector never has enough');
  }
  return polls;
}
