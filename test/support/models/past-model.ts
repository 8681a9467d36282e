import type {
  ArchiveEvent,
  CandleEvent,
  DepthEvent,
  StateEvent,
  TickerEvent,
  TradeEvent,
} from '../../../src/archive/events/event.js';
import { addDecimals, compareDecimals } from '../../../src/kernel/decimal.js';
import type { EventWorld } from '../worlds/event-world.js';

const US_PER_S = 1_000_000;

/** A candle as a replay shows it. */
export interface ModelCandle {
  readonly time: number;
  readonly open: string;
  readonly close: string;
  readonly highest: string;
  readonly lowest: string;
  readonly volume: string;
  readonly amount: string;
  readonly market: string;
}

/**
 * What could be seen of an archive at a time, worked out from all of its events by looking at each:
 * the rules of a replay, without an archive.
 */
export class PastModel {
  readonly #happened: readonly ArchiveEvent[];
  readonly #versions: readonly CandleEvent[];

  constructor(world: Pick<EventWorld, 'happened' | 'received'>) {
    this.#happened = world.happened;
    this.#versions = world.received.filter((one) => one.kind === 'candle');
  }

  /** Oldest first. */
  trades(market: string, nowMs: number): TradeEvent[] {
    const nowUs = nowMs * 1000;
    const second = Math.floor(nowUs / US_PER_S);
    const known = this.#tradesOf(market);
    const hidden = known.findIndex((one) => secondOf(one) === second && seenAtUs(one) > nowUs);
    const upTo = hidden === -1 ? known : known.slice(0, hidden);
    return upTo.filter((one) => secondOf(one) <= second);
  }

  /** Candles that begin at `fromS` or later, and the open one. */
  candles(market: string, intervalS: number, nowMs: number, isCollected: boolean): ModelCandle[] {
    const openS = Math.floor(nowMs / 1000 / intervalS) * intervalS;
    const visible = this.trades(market, nowMs);
    const inCandle = (fromS: number) =>
      visible.filter((one) => secondOf(one) >= fromS && secondOf(one) < fromS + intervalS);
    const open = madeOf(inCandle(openS), openS, market);
    const closed = isCollected
      ? this.#collected(market, intervalS, nowMs)
      : [...new Set(visible.map((one) => Math.floor(secondOf(one) / intervalS) * intervalS))]
          .filter((fromS) => fromS < openS)
          .flatMap((fromS) => madeOf(inCandle(fromS), fromS, market));
    return [...closed, ...open];
  }

  depth(market: string, nowMs: number): DepthEvent | undefined {
    return this.#last('depth', market, nowMs);
  }

  ticker(market: string, nowMs: number): TickerEvent | undefined {
    return this.#last('ticker', market, nowMs);
  }

  state(market: string, periodS: number, nowMs: number): StateEvent | undefined {
    return this.#last('state', market, nowMs, (one) => one.periodS === periodS);
  }

  /** The next time of which anything is recorded, whole milliseconds as time goes there. */
  nextMomentMs(nowMs: number): number | undefined {
    const nowUs = nowMs * 1000;
    const moments: number[] = [];
    const markets = new Set(this.#happened.map((one) => one.market));
    for (const market of markets) {
      const next = this.#tradesOf(market).find((one) => seenAtUs(one) > nowUs);
      if (next !== undefined) moments.push(seenAtUs(next));
    }
    for (const one of this.#happened) {
      const isSeen = one.kind === 'depth' || one.kind === 'ticker' || one.kind === 'state';
      if (isSeen && one.atUs > nowUs) moments.push(one.atUs);
    }
    return moments.length === 0 ? undefined : Math.ceil(Math.min(...moments) / 1000);
  }

  #tradesOf(market: string): TradeEvent[] {
    return this.#happened
      .filter((one) => one.kind === 'trade' && one.market === market)
      .map((one) => one as TradeEvent)
      .sort(comparePlaces);
  }

  #collected(market: string, intervalS: number, nowMs: number): ModelCandle[] {
    const versions = new Map<number, CandleEvent>();
    for (const one of this.#versions) {
      const isMeant = one.market === market && one.intervalS === intervalS;
      if (!isMeant || one.atUs > nowMs * 1000) continue;
      const other = versions.get(one.openAtUs);
      if (other === undefined || other.revision < one.revision) versions.set(one.openAtUs, one);
    }
    return [...versions.values()]
      .sort((a, b) => a.openAtUs - b.openAtUs)
      .map(
        ({ openAtUs, open, close, high: highest, low: lowest, volume, quoteVolume: amount }) => ({
          ...{ time: openAtUs / US_PER_S, open, close, highest, lowest, volume, amount, market },
        }),
      );
  }

  #last<Kind extends 'depth' | 'ticker' | 'state', E = Extract<ArchiveEvent, { kind: Kind }>>(
    kind: Kind,
    market: string,
    nowMs: number,
    isMeant: (one: E) => boolean = () => true,
  ): E | undefined {
    return this.#happened.findLast(
      (one) =>
        one.kind === kind && one.market === market && one.atUs <= nowMs * 1000 && isMeant(one as E),
    ) as E | undefined;
  }
}

const secondOf = ({ atUs }: TradeEvent) => Math.floor(atUs / US_PER_S);
/** Where only the second is known, from its end on. */
const seenAtUs = ({ atUs, isExactTime }: TradeEvent) => (isExactTime ? atUs : atUs + 1);

const comparePlaces = (a: TradeEvent, b: TradeEvent) => secondOf(a) - secondOf(b) || a.id - b.id;

function madeOf(trades: readonly TradeEvent[], time: number, market: string): ModelCandle[] {
  const [first] = trades;
  const last = trades.at(-1);
  if (first === undefined || last === undefined) return [];
  const prices = trades.map(({ price }) => price);
  const sum = (values: readonly string[]) => values.reduce(addDecimals, '0');
  return [
    {
      ...{ time, market, open: first.price, close: last.price },
      highest: prices.reduce((a, b) => (compareDecimals(b, a) > 0 ? b : a)),
      lowest: prices.reduce((a, b) => (compareDecimals(b, a) < 0 ? b : a)),
      volume: sum(trades.map(({ amount }) => amount)),
      amount: sum(trades.map(({ total }) => total)),
    },
  ];
}
