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
  readonly #isKnownOnly: boolean;

  constructor(world: Pick<EventWorld, 'happened' | 'received'>, isKnownOnly: boolean) {
    this.#happened = world.happened;
    this.#versions = world.received.filter((one) => one.kind === 'candle');
    this.#isKnownOnly = isKnownOnly;
  }

  /** Oldest first. */
  trades(market: string, nowMs: number): TradeEvent[] {
    const nowUs = nowMs * 1000;
    const second = Math.floor(nowUs / US_PER_S);
    const known = this.#tradesOf(market).filter((one) => this.#isThere(one, nowUs));
    const hidden = known.findIndex((one) => secondOf(one) === second && seenAtUs(one) > nowUs);
    const upTo = hidden === -1 ? known : known.slice(0, hidden);
    return upTo.filter((one) => secondOf(one) <= second);
  }

  /**
   * What a page of trades lacks because it was received later: what lies below the trade above the page,
   * down to the last of the page, or to the first of all where the page is not full.
   */
  lateOfPage(market: string, nowMs: number, skip: number, limit: number): string[] {
    const newestFirst = this.trades(market, nowMs).reverse();
    const page = newestFirst.slice(skip, skip + limit);
    const above = skip === 0 ? undefined : newestFirst[skip - 1];
    const lowest = page.length < limit ? undefined : page.at(-1);
    const asked = this.#tradesOf(market).filter(
      (one) =>
        (above === undefined || comparePlaces(one, above) < 0) &&
        (lowest === undefined || comparePlaces(one, lowest) > 0),
    );
    const runs: TradeEvent[][] = [[]];
    for (const one of asked) {
      if (this.#isLate(one, nowMs)) runs.at(-1)?.push(one);
      else if (page.includes(one)) runs.push([]);
    }
    return runs.flatMap((run) => lateText('trades', run.map(secondOf), 1, nowMs));
  }

  /** What the answer to {@link PastModel.candles} lacks because it was received later. */
  lateOfCandles(market: string, intervalS: number, nowMs: number, isCollected: boolean): string[] {
    const openS = Math.floor(nowMs / 1000 / intervalS) * intervalS;
    const late = this.#tradesOf(market).filter((one) => this.#isLate(one, nowMs));
    const there = this.#collected(market, intervalS, nowMs).map(({ time }) => time);
    const begins = isCollected
      ? this.#versions
          .filter((one) => one.market === market && one.intervalS === intervalS)
          .map(({ openAtUs }) => openAtUs / US_PER_S)
          .filter((begin) => this.#isKnownOnly && !there.includes(begin))
      : late.map((one) => Math.floor(secondOf(one) / intervalS) * intervalS);
    const runs: number[][] = [];
    for (const begin of [...new Set(begins)].sort((a, b) => a - b)) {
      if (begin >= openS) continue;
      if (runs.at(-1)?.at(-1) === begin - intervalS) runs.at(-1)?.push(begin);
      else runs.push([begin]);
    }
    const inOpen = late.map(secondOf).filter((second) => second >= openS);
    const kind = isCollected ? 'candles' : 'trades';
    return [
      ...runs.flatMap((run) => lateText(kind, run, intervalS, nowMs)),
      ...lateText('trades', inOpen, 1, nowMs),
    ];
  }

  /** Whether what was seen last is outdated by something that was received later. */
  lateOf(
    kind: 'depth' | 'tickers' | 'states',
    market: string,
    nowMs: number,
    periodS = 0,
  ): string[] {
    const eventKind = { depth: 'depth', tickers: 'ticker', states: 'state' } as const;
    const isOf = (one: ArchiveEvent) =>
      one.kind === eventKind[kind] &&
      one.market === market &&
      (one.kind !== 'state' || one.periodS === periodS);
    const known = this.#last(eventKind[kind], market, nowMs, isOf);
    const late = this.#happened.find(
      (one) =>
        isOf(one) &&
        one.atUs >= (known?.atUs ?? 0) &&
        one.atUs <= nowMs * 1000 &&
        !this.#isThere(one, nowMs * 1000),
    );
    if (late === undefined) return [];
    const fromMs = Math.floor(late.atUs / 1000);
    const to = new Date(Math.max(nowMs, fromMs + 1)).toISOString();
    return [`${kind} ${new Date(fromMs).toISOString()} ${to} received later`];
  }

  /** Candles that begin at `fromS` or later, and the open one. */
  candles(market: string, intervalS: number, nowMs: number, isCollected: boolean): ModelCandle[] {
    const openS = Math.floor(nowMs / 1000 / intervalS) * intervalS;
    const visible = this.trades(market, nowMs);
    const inCandle = (fromS: number) =>
      visible.filter((one) => secondOf(one) >= fromS && secondOf(one) < fromS + intervalS);
    const late = this.#tradesOf(market).filter((one) => this.#isLate(one, nowMs));
    const lowest = late.find((one) => secondOf(one) >= openS);
    const newest = visible.at(-1);
    const isHole =
      lowest !== undefined && newest !== undefined && comparePlaces(newest, lowest) > 0;
    const open = isHole ? [] : madeOf(inCandle(openS), openS, market);
    const isWhole = (fromS: number) =>
      !late.some((one) => secondOf(one) >= fromS && secondOf(one) < fromS + intervalS);
    const closed = isCollected
      ? this.#collected(market, intervalS, nowMs)
      : [...new Set(visible.map((one) => Math.floor(secondOf(one) / intervalS) * intervalS))]
          .filter((fromS) => fromS < openS && isWhole(fromS))
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
      if (!isMeant || one.atUs > nowMs * 1000 || !this.#isThere(one, nowMs * 1000)) continue;
      const other = versions.get(one.openAtUs);
      if (other === undefined || other.revision < one.revision) versions.set(one.openAtUs, one);
    }
    return [...versions.values()]
      .sort((a, b) => a.openAtUs - b.openAtUs)
      .map(({ openAtUs, open, close, high: highest, low: lowest, volume, amount }) => ({
        ...{ time: openAtUs / US_PER_S, open, close, highest, lowest, volume, amount, market },
      }));
  }

  #last<Kind extends 'depth' | 'ticker' | 'state', E = Extract<ArchiveEvent, { kind: Kind }>>(
    kind: Kind,
    market: string,
    nowMs: number,
    isMeant: (one: E) => boolean = () => true,
  ): E | undefined {
    return this.#happened.findLast(
      (one) =>
        one.kind === kind &&
        one.market === market &&
        one.atUs <= nowMs * 1000 &&
        this.#isThere(one, nowMs * 1000) &&
        isMeant(one as E),
    ) as E | undefined;
  }

  /** Happened by then, and received later. */
  #isLate(one: TradeEvent, nowMs: number): boolean {
    return seenAtUs(one) <= nowMs * 1000 && !this.#isThere(one, nowMs * 1000);
  }

  #isThere(one: ArchiveEvent, nowUs: number): boolean {
    return !this.#isKnownOnly || ('receivedAtUs' in one && one.receivedAtUs <= nowUs);
  }
}

const secondOf = ({ atUs }: TradeEvent) => Math.floor(atUs / US_PER_S);
/** Where only the second is known, from its end on. */
const seenAtUs = ({ atUs, isExactTime }: TradeEvent) => (isExactTime ? atUs : atUs + 1);

const comparePlaces = (a: TradeEvent, b: TradeEvent) => secondOf(a) - secondOf(b) || a.id - b.id;

/** As a header has it; nothing for no starts. None ends later than the time at which it is sent. */
function lateText(kind: string, begins: readonly number[], lengthS: number, nowMs: number) {
  if (begins.length === 0) return [];
  const fromMs = Math.min(...begins) * 1000;
  const toMs = Math.min((Math.max(...begins) + lengthS) * 1000, Math.max(nowMs, fromMs + 1));
  const [from, to] = [new Date(fromMs), new Date(toMs)];
  return [`${kind} ${from.toISOString()} ${to.toISOString()} received later`];
}

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
