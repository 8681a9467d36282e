import type { Market } from '../../contract/resources.js';
import { BoundedMap } from '../../kernel/bounded.js';
import type { BackendTrade } from '../../server/backend.js';
import { MatchingEngine } from '../engine/engine.js';
import type { MarketRules } from '../engine/market.js';
import type { Trade } from '../engine/matching.js';
import { LiveError } from '../errors.js';
import { MarketTape } from '../market-tape.js';
import { checkMarket, describeMarket, flowShapeOf, type MarketDescription } from '../markets.js';
import { TradeColumns } from '../trade-columns.js';
import { SESSION_US, Traders } from '../traders/traders.js';

/**
 * Whole sessions before the running one whose trades are kept: a day, so that every 24-hour figure
 * is whole, and no more, so that a start never has to simulate more than that.
 */
export const HISTORY_SESSIONS = 24;
/** Every market costs time in each second; more would fall behind. */
export const MARKETS_MAX = 2000;
/** Markets that are remembered after their end. */
const DELISTED_MAX = 2000;

export interface LiveExchangeOptions {
  readonly seed: number;
  /** Trades before it are not part of the history, UNIX microseconds. */
  readonly originUs: number;
  /** True if there were trades before the origin, which are unknown here. */
  readonly isCut: boolean;
  readonly historyMax: number;
  readonly takerFee: string;
  readonly makerFee: string;
  /** True if nothing is ever dropped. */
  readonly keepAll: boolean;
}

/** The trades of one market, as the engine makes them. */
class LiveTape extends MarketTape {
  protected override readonly canDrop: boolean;
  readonly #exchange: LiveExchange;
  readonly #priceFactor: bigint;
  readonly #amountFactor: bigint;
  #originUs: number;
  #isCut: boolean;
  /** First position of the trades since the origin. */
  #originAt: number;

  /** @param former the market as it was listed before: its trades come first */
  constructor(
    exchange: LiveExchange,
    market: Market,
    { originUs, isCut, historyMax, keepAll }: LiveExchangeOptions,
    former: LiveTape | undefined,
  ) {
    const { moneyPrec, stockPrec } = market;
    const { columns = new TradeColumns(0, 0), heldFromUs } = former ?? {};
    // With other precisions than before, the finer ones hold each value exactly.
    super(market, 1n, columns.withDigits(moneyPrec, stockPrec), historyMax);
    this.canDrop = !keepAll;
    this.#exchange = exchange;
    this.#priceFactor = 10n ** BigInt(this.columns.priceDigits - moneyPrec);
    this.#amountFactor = 10n ** BigInt(this.columns.amountDigits - stockPrec);
    this.#isCut = former === undefined ? isCut : heldFromUs !== undefined;
    this.#originUs = heldFromUs ?? former?.originUs ?? originUs;
    this.#originAt = this.columns.base;
  }

  override get originUs(): number {
    return this.#originUs;
  }

  /** All trades from this time on are known; undefined when all there ever were are. */
  get heldFromUs(): number | undefined {
    const { base, end } = this.columns;
    if (base === this.#originAt) return this.#isCut ? this.#originUs : undefined;
    // Some trades of one microsecond may be dropped.
    return base < end ? Math.max(this.#originUs, this.columns.timeUsAt(base) + 1) : this.#originUs;
  }

  add({ id, timeUs, price, amount, takerSide }: Trade): void {
    if (timeUs < this.#originUs) return;
    const scaledPrice = price * this.#priceFactor;
    const scaledAmount = amount * this.#amountFactor;
    this.columns.append(id, timeUs, scaledPrice, scaledAmount, takerSide === 'sell');
  }

  /** Forgets the trades before a time, unless all are kept. */
  forgetBefore(timeUs: number): void {
    if (!this.canDrop || timeUs <= this.#originUs) return;
    this.columns.dropBefore(this.columns.firstAtOrAfter(timeUs));
    this.#originUs = timeUs;
    this.#originAt = this.columns.base;
    this.#isCut = true;
  }

  protected override extendTo(timeUs: number): void {
    this.#exchange.advanceTo(timeUs);
  }

  override nextAfterMs(nowMs: number): number {
    return Math.ceil(Math.max(nowMs * 1000 + 1, this.#exchange.nextUs) / 1000);
  }

  override *issued(nowMs: number, fromUs: number): Iterable<BackendTrade> {
    this.extendTo(nowMs * 1000);
    const { heldFromUs = fromUs } = this;
    if (fromUs < heldFromUs) {
      const held = (heldFromUs / 1e6).toFixed(6);
      throw new LiveError(
        `from ${Number.isFinite(fromUs) ? (fromUs / 1e6).toFixed(6) : '(the beginning)'}: trades before ${held} (${new Date(heldFromUs / 1000).toISOString()}) are forgotten; ask with from=${held} or later, or start the exchange with --keep-all (keepAll)`,
      );
    }
    yield* super.issued(nowMs, fromUs);
  }
}

/** A market with what was traded in it. */
export interface LiveMarket {
  readonly description: MarketDescription;
  readonly rules: MarketRules;
  readonly tape: LiveTape;
  readonly isBlocked: boolean;
}

/**
 * The exchange itself, in virtual time: engine, simulated traders, and the trades that were made.
 *
 * A market is *listed*, can be *blocked* and unblocked while it is, and is *delisted* in the end;
 * its trades remain known, and when it is listed again, with these precisions or others, they go on.
 */
export class LiveExchange {
  readonly engine: MatchingEngine;
  readonly #options: LiveExchangeOptions;
  readonly #traders: Traders;
  readonly #listed = new Map<string, LiveMarket>();
  readonly #delisted = new BoundedMap<string, LiveMarket>(DELISTED_MAX);

  constructor(options: LiveExchangeOptions, markets: readonly MarketDescription[]) {
    this.#options = options;
    this.engine = new MatchingEngine({ onTrade: (trade) => this.#keep(trade) });
    this.#traders = new Traders({
      engine: this.engine,
      seed: options.seed,
      fromUs: options.originUs,
      catchUpSessions: options.keepAll ? Number.POSITIVE_INFINITY : HISTORY_SESSIONS,
      onSession: (startUs) => this.#forgetBefore(startUs - HISTORY_SESSIONS * SESSION_US),
    });
    for (const market of markets) this.list(market, options.originUs, options.isCut);
  }

  /** The next time at which anything may happen, UNIX microseconds. */
  get nextUs(): number {
    return this.#traders.nextUs;
  }

  /** Lets everything happen up to and including a time, UNIX microseconds. */
  advanceTo(timeUs: number): void {
    this.#traders.advanceTo(timeUs);
  }

  /** All listed markets by name, in the order of listing. */
  get listed(): ReadonlyMap<string, LiveMarket> {
    return this.#listed;
  }

  /** Markets that are not listed any more, in the order of their ends. */
  get delisted(): ReadonlyMap<string, LiveMarket> {
    return this.#delisted;
  }

  /** A market that is listed, or was. */
  anyMarket(name: string): LiveMarket | undefined {
    return this.#listed.get(name) ?? this.#delisted.get(name);
  }

  /** Ends a market: all open orders are cancelled and their funds released. */
  delist(name: string): void {
    const market = this.#required(name);
    this.#traders.remove(name);
    this.engine.delistMarket(name);
    this.#listed.delete(name);
    this.#delisted.set(name, { ...market, isBlocked: false });
  }

  /** A blocked market takes no new orders; what rests stays. */
  block(name: string, isBlocked: boolean): void {
    const market = this.#required(name);
    this.engine.setBlocked(name, isBlocked);
    this.#traders.setHalted(name, isBlocked);
    this.#listed.set(name, { ...market, isBlocked });
  }

  /**
   * Lists a market; traders come at once.
   *
   * @param fromUs when it was never listed, trades before that are not part of the history
   * @param isCut whether there were some, which are unknown here
   * @throws LiveError when it is listed already, or cannot be traded as described
   */
  list(description: MarketDescription, fromUs: number, isCut = false): LiveMarket {
    checkMarket(description);
    const { name, stockPrec, moneyPrec, minAmount } = description;
    if (this.#listed.has(name)) throw new LiveError(`market ${name} is listed already`);
    if (this.#listed.size >= MARKETS_MAX) {
      throw new LiveError(`market ${name}: ${MARKETS_MAX} markets are listed, which is the most`);
    }
    const { takerFee = this.#options.takerFee, makerFee = this.#options.makerFee } = description;
    const shown = describeMarket(name, stockPrec, moneyPrec, minAmount);
    const options = { ...this.#options, originUs: fromUs, isCut };
    const made: LiveMarket = {
      description,
      rules: { ...shown, takerFee, makerFee },
      tape: new LiveTape(this, shown, options, this.#delisted.get(name)?.tape),
      isBlocked: false,
    };
    this.engine.addMarket(made.rules);
    this.#delisted.delete(name);
    this.#listed.set(name, made);
    this.#traders.add(flowShapeOf(description));
    return made;
  }

  #required(name: string): LiveMarket {
    const market = this.#listed.get(name);
    if (market !== undefined) return market;
    const names = [...this.#listed.keys()].slice(0, 20).join(', ');
    throw new LiveError(
      `market ${JSON.stringify(name.slice(0, 80))} is not allowed; no market of this name is listed, but there are ${names}`,
    );
  }

  #keep(trade: Trade): void {
    this.#listed.get(trade.market)?.tape.add(trade);
  }

  #forgetBefore(timeUs: number): void {
    for (const { tape } of this.#listed.values()) tape.forgetBefore(timeUs);
    for (const { tape } of this.#delisted.values()) tape.forgetBefore(timeUs);
  }
}
