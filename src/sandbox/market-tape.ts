import type { Market, StateRecord } from '../contract/resources.js';
import { BoundedMap } from '../kernel/bounded.js';
import { percentChange } from '../kernel/decimal.js';
import type { BackendTrade } from '../server/backend.js';
import { formatScaled, formatTrimmed } from './amounts.js';
import type { TradeColumns } from './trade-columns.js';

/** The positions `[first, end)` that are served at a time. */
export interface Visible {
  readonly first: number;
  readonly end: number;
}

/** Figures of a rolling window, as decimal texts; all zero before the first trade. */
type RollingFigures = Omit<StateRecord, 'period' | 'change'> & { readonly change: string };

const NOTHING: RollingFigures = {
  last: '0',
  open: '0',
  close: '0',
  high: '0',
  low: '0',
  deal: '0',
  volume: '0',
  change: '0',
};

interface KnownWindow {
  readonly from: number;
  readonly end: number;
  readonly figures: RollingFigures;
}

/** Lengths of windows that are remembered; the API names six, but any can be asked for. */
const WINDOWS_MAX = 16;
/** Trades beyond the history that are kept until it is worth dropping them. */
const DROP_STEP = 4096;

/**
 * One market with its trades, as seen at a given exchange time. Here all of them are there from the start;
 * a class of its own makes them as time goes on.
 */
export class MarketTape {
  readonly market: Market;
  /** Smallest step of the price, scaled by `priceDigits`. */
  readonly tick: bigint;
  /** Positions grow with time; all trades up to the last {@link MarketTape.extendTo} are in here. */
  readonly columns: TradeColumns;
  /** True if trades beyond the history may be dropped. */
  protected readonly canDrop: boolean = false;
  readonly #historyMax: number;
  /** The figures of each length as last worked out: between trades they are read many times. */
  readonly #windows = new BoundedMap<number, KnownWindow>(WINDOWS_MAX);
  /** Trades before it have been dropped here. */
  #droppedBeforeUs = Number.NEGATIVE_INFINITY;

  /** @param historyMax most trades served; older ones are beyond the exchange's history */
  constructor(market: Market, tick: bigint, columns: TradeColumns, historyMax: number) {
    this.market = market;
    this.tick = tick;
    this.columns = columns;
    this.#historyMax = historyMax;
  }

  /** All trades from this time on are in the columns but for those dropped here. May move forward. */
  get originUs(): number {
    return this.columns.timeUsAt(this.columns.base);
  }

  /** Makes sure that every trade up to and including `timeUs` is in the columns. */
  protected extendTo(_timeUs: number): void {}

  /** A time after `nowMs` when it is worth looking again; undefined when nothing will come. */
  nextAfterMs(nowMs: number): number | undefined {
    const next = this.columns.firstAfter(nowMs * 1000);
    return next < this.columns.end ? Math.ceil(this.columns.timeUsAt(next) / 1000) : undefined;
  }

  /**
   * Every trade from `fromUs` to `nowMs`, oldest first, dropped ones too. To be read at once: what is
   * read later may miss what was dropped meanwhile.
   *
   * @throws TapekeepError when some of them are not known any more
   */
  issued(nowMs: number, fromUs: number): Iterable<BackendTrade> {
    return this.columns.between(fromUs, nowMs * 1000);
  }

  /** Trades not later than `nowMs`, the newest `historyMax` of them. */
  visible(nowMs: number): Visible {
    const { columns } = this;
    this.extendTo(nowMs * 1000);
    const end = columns.firstAfter(nowMs * 1000);
    const first = Math.max(columns.base, end - this.#historyMax);
    if (this.canDrop && first - columns.base > DROP_STEP) {
      // One dropped trade is worth remembering: its time bounds what is complete.
      this.#droppedBeforeUs = columns.timeUsAt(first - 2) + 1;
      columns.dropBefore(first - 1);
    }
    return { first, end };
  }

  /** From this time on every trade is served: the earliest possible start of a true candle. */
  completeFromUs({ first }: Visible): number {
    if (first === this.columns.base) return Math.max(this.#droppedBeforeUs, this.originUs);
    return this.columns.timeUsAt(first - 1) + 1;
  }

  /**
   * Sums the trades in `(nowMs − lengthMs, nowMs]` add up to; with none, all prices are the last
   * known one.
   */
  rollingFigures(nowMs: number, lengthMs: number): RollingFigures {
    const { first, end } = this.visible(nowMs);
    if (first === end) return NOTHING;
    const from = Math.max(first, this.columns.firstAfter((nowMs - lengthMs) * 1000));
    const known = this.#windows.get(lengthMs);
    if (known?.from === from && known.end === end) return known.figures;
    const figures = this.#figures(from, end);
    this.#windows.set(lengthMs, { from, end, figures });
    return figures;
  }

  #figures(from: number, end: number): RollingFigures {
    const { columns } = this;
    const { priceDigits, amountDigits } = columns;
    const last = columns.priceAt(end - 1);
    const isEmpty = from === end;
    const sums = columns.figures(from, end);
    const price = (value: bigint) => formatScaled(isEmpty ? last : value, priceDigits);
    const open = price(columns.priceAt(from));
    return {
      last: price(last),
      open,
      close: price(last),
      high: price(sums.high),
      low: price(sums.low),
      deal: formatTrimmed(sums.quoteVolume, priceDigits + amountDigits),
      volume: formatTrimmed(sums.amount, amountDigits),
      change: percentChange(open, price(last)),
    };
  }
}
