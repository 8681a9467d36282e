import type {
  ActiveOrder,
  Balance,
  BookOrder,
  CreatedOrder,
  Depth,
} from '../contract/resources.js';
import type { Side } from '../contract/values.js';
import { type Backend, RefusedError, type Slice } from '../server/backend.js';
import { MarketData, type MarketDataParts, type Touch } from './market-data.js';
import type { MarketTape } from './market-tape.js';
import { drawBook, EMPTY_BOOK, type TapeBook } from './tape-book.js';
import { TapeError } from './tape-error.js';

/** What a tape backend is put together from. */
export interface TapeParts extends MarketDataParts {
  readonly tapes: readonly MarketTape[];
  /** Draws the order books. */
  readonly seed: number;
  /** Secrets by API key; a tape has no accounts, but signed requests can be answered. */
  readonly keys: ReadonlyMap<string, string>;
}

/**
 * An exchange that plays tapes. There is no engine behind it: orders are refused as blocked,
 * balances and active orders are empty.
 */
export class TapeBackend extends MarketData implements Backend {
  readonly #tapes: ReadonlyMap<string, MarketTape>;
  readonly #seed: number;
  readonly #keys: ReadonlyMap<string, string>;
  readonly #books = new Map<string, { readonly lastId: number; readonly book: TapeBook }>();

  constructor(parts: TapeParts) {
    super(parts);
    this.#tapes = new Map(parts.tapes.map((tape) => [tape.market.name, tape]));
    this.#seed = parts.seed;
    this.#keys = parts.keys;
  }

  hasMarket(market: string): boolean {
    return this.#tapes.has(market);
  }

  depth(market: string, limit: number): Depth {
    const { buy, sell } = this.#book(this.tapeOf(market));
    const side = (levels: TapeBook[Side]) =>
      levels.slice(0, limit).map(({ price, amount }): [string, string] => [price, amount]);
    return { asks: side(sell), bids: side(buy) };
  }

  book(market: string, side: Side, offset: number, limit: number): Slice<BookOrder> {
    const orders = this.#book(this.tapeOf(market))[side].flatMap((level) => level.orders);
    return { total: orders.length, rows: orders.slice(offset, offset + limit) };
  }

  secretOf(apiKey: string): string | undefined {
    return this.#keys.get(apiKey);
  }

  balances(): Record<string, Balance> {
    return {};
  }

  placeOrder(): CreatedOrder {
    throw new RefusedError('operationBlocked', 'a tape takes no orders');
  }

  activeOrders(): Slice<ActiveOrder> {
    return { total: 0, rows: [] };
  }

  protected override tapes(): Iterable<MarketTape> {
    return this.#tapes.values();
  }

  protected override tapeOf(market: string): MarketTape {
    const tape = this.#tapes.get(market);
    if (tape === undefined)
      throw new TapeError(`market ${JSON.stringify(market)}: no tape of it is open`);
    return tape;
  }

  protected override touchOf(market: string): Touch {
    const { buy, sell } = this.#book(this.tapeOf(market));
    return { bid: buy[0]?.price ?? '0', ask: sell[0]?.price ?? '0' };
  }

  #book(tape: MarketTape): TapeBook {
    const visible = tape.visible(this.nowMs());
    if (visible.first === visible.end) return EMPTY_BOOK;
    const lastId = tape.columns.idAt(visible.end - 1);
    const known = this.#books.get(tape.market.name);
    if (known?.lastId === lastId) return known.book;
    const book = drawBook(tape, this.#seed, visible);
    this.#books.set(tape.market.name, { lastId, book });
    return book;
  }
}
