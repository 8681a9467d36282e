import type { Market, StateRecord, Ticker, TickerEntry } from '../../../src/contract/resources.js';
import type { Clock } from '../../../src/kernel/clock.js';
import { type Random, seededRandom } from '../../../src/kernel/random.js';
import type { Backend, BackendTrade } from '../../../src/server/backend.js';

/** How a market of {@link PoissonExchange} trades. */
export interface PoissonMarket {
  readonly name: string;
  /** Occasions of trading a second; they come at random. */
  readonly occasionsPerS: number;
  /** Trades of one occasion on average (geometric), all within some milliseconds. */
  readonly tradesPerOccasion: number;
}

/** How often what has happened meanwhile is made up. */
const STEP_MS = 20;
const DIGITS = 4;
const AMOUNT = 100n;

interface State {
  readonly market: PoissonMarket;
  readonly trades: BackendTrade[];
  readonly listeners: Set<() => void>;
  nextAtMs: number;
  volume: bigint;
  deal: bigint;
  last: bigint;
}

/**
 * Markets whose trades come at random, without an engine behind them: hundreds of them cost nothing.
 * It serves only the newest `historyMax` trades of each, has no candles and an empty book, and knows
 * all that it ever issued.
 */
export class PoissonExchange implements Backend {
  readonly identity = 'poisson';
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #historyMax: number;
  readonly #states = new Map<string, State>();
  #nextId = 1;
  #cancel: () => void = () => undefined;

  constructor(options: {
    readonly clock: Clock;
    readonly seed: number;
    readonly markets: readonly PoissonMarket[];
    readonly historyMax: number;
    /** For how long it has traded already. */
    readonly pastMs: number;
  }) {
    this.#clock = options.clock;
    this.#random = seededRandom(options.seed);
    this.#historyMax = options.historyMax;
    const beginMs = options.clock.wallMs() - options.pastMs;
    for (const market of options.markets) {
      const nextAtMs = beginMs + this.#waitMs(market);
      const state = { market, trades: [], listeners: new Set<() => void>(), nextAtMs };
      this.#states.set(market.name, { ...state, volume: 0n, deal: 0n, last: 1_000_000n });
    }
    this.#step();
  }

  stop(): void {
    this.#cancel();
  }

  /** All trades of all markets, by id. */
  issued(): ReadonlyArray<{ readonly market: string; readonly trade: BackendTrade }> {
    return [...this.#states].flatMap(([market, { trades }]) =>
      trades.map((trade) => ({ market, trade })),
    );
  }

  #waitMs({ occasionsPerS }: PoissonMarket): number {
    return (-Math.log(1 - this.#random()) / occasionsPerS) * 1000;
  }

  #step(): void {
    const nowMs = this.#clock.wallMs();
    const due: Array<{ state: State; atMs: number }> = [];
    for (const state of this.#states.values()) {
      while (state.nextAtMs <= nowMs) {
        due.push({ state, atMs: state.nextAtMs });
        state.nextAtMs += this.#waitMs(state.market);
      }
    }
    // Ids grow with time over all markets, as one counter gives them.
    due.sort((a, b) => a.atMs - b.atMs);
    for (const { state, atMs } of due) this.#occur(state, atMs);
    for (const { listeners } of new Set(due.map(({ state }) => state))) {
      for (const listener of listeners) listener();
    }
    this.#cancel = this.#clock.after(STEP_MS, () => this.#step());
  }

  #occur(state: State, atMs: number): void {
    const goOn = 1 - 1 / state.market.tradesPerOccasion;
    do {
      const side = this.#random() < 0.5 ? 'sell' : 'buy';
      state.last += BigInt(Math.floor(this.#random() * 21) - 10);
      const total = (state.last * AMOUNT) / 10n ** BigInt(DIGITS);
      state.trades.push({
        id: this.#nextId,
        timeUs: Math.floor(atMs * 1000),
        price: textOf(state.last),
        amount: textOf(AMOUNT),
        total: textOf(total),
        side,
      });
      this.#nextId += 1;
      state.volume += AMOUNT;
      state.deal += total;
    } while (this.#random() < goOn);
  }

  #of(market: string): State {
    const state = this.#states.get(market);
    if (state === undefined) throw new Error(`no market ${market}`);
    return state;
  }

  #figures({ volume, deal, last }: State) {
    const price = textOf(last);
    const prices = { open: price, high: price, low: price, last: price };
    const vol = textOf(volume);
    return { ...prices, vol, deal: textOf(deal), change: '0' };
  }

  nowMs(): number {
    return this.#clock.wallMs();
  }

  hasMarket(market: string): boolean {
    return this.#states.has(market);
  }

  markets(): Market[] {
    return [...this.#states.keys()].map((name) => {
      const [stock = '', money = ''] = name.split('_');
      const precisions = { stockPrec: DIGITS, moneyPrec: DIGITS, feePrec: DIGITS };
      return { name, stock, money, ...precisions, minAmount: '0.01' };
    });
  }

  tickers(): Record<string, TickerEntry> {
    const at = Math.floor(this.nowMs() / 1000);
    return Object.fromEntries(
      [...this.#states].map(([name, state]) => {
        const figures = this.#figures(state);
        return [name, { at, ticker: { name, bid: figures.last, ask: figures.last, ...figures } }];
      }),
    );
  }

  ticker(market: string): Ticker {
    const { vol: volume, ...figures } = this.#figures(this.#of(market));
    return { name: market, bid: figures.last, ask: figures.last, ...figures, volume };
  }

  kline(): [] {
    return [];
  }

  trades(market: string, skip: number, limit: number): readonly BackendTrade[] {
    const { trades } = this.#of(market);
    const oldest = Math.max(0, trades.length - this.#historyMax);
    const end = Math.max(oldest, trades.length - skip);
    return trades.slice(Math.max(oldest, end - limit), end).reverse();
  }

  depth(): { asks: []; bids: [] } {
    return { asks: [], bids: [] };
  }

  book(): { total: number; rows: [] } {
    return { total: 0, rows: [] };
  }

  state(market: string, periodS: number): StateRecord {
    const { vol: volume, ...figures } = this.#figures(this.#of(market));
    return { period: periodS, close: figures.last, ...figures, volume };
  }

  watch(market: string, listener: () => void): () => void {
    const { listeners } = this.#of(market);
    const own = () => listener();
    listeners.add(own);
    return () => void listeners.delete(own);
  }
}

/** A number of {@link DIGITS} digits after the point, not negative. */
function textOf(scaled: bigint): string {
  const digits = String(scaled).padStart(DIGITS + 1, '0');
  return `${digits.slice(0, -DIGITS)}.${digits.slice(-DIGITS)}`;
}
