import { MatchingEngine } from '../engine/engine.js';
import type { MarketRules } from '../engine/market.js';
import type { Trade } from '../engine/matching.js';
import { MarketTape } from '../market-tape.js';
import { describeMarket, flowShapeOf, type GeneratedMarket } from '../markets.js';
import { SESSION_US, Traders } from '../traders/traders.js';
import { LiveError } from './live-error.js';
import { checkMarket } from './live-markets.js';
import { LiveSource, type LiveTime } from './live-source.js';

/**
 * Whole sessions before the running one whose trades are kept: a day, so that every 24-hour figure
 * is whole, and no more, so that a start never has to simulate more than that.
 */
export const HISTORY_SESSIONS = 24;

/** A market with what was traded in it. */
export interface LiveMarket {
  readonly rules: MarketRules;
  readonly tape: MarketTape;
  readonly source: LiveSource;
}

export interface LiveExchangeOptions {
  readonly seed: number;
  /** Trades before it are not part of the history, UNIX microseconds. */
  readonly originUs: number;
  readonly historyMax: number;
  readonly takerFee: string;
  readonly makerFee: string;
  readonly keepAll: boolean;
}

/**
 * The exchange itself, in virtual time: engine, simulated traders, and the trades that were made.
 *
 * A market is *listed*, can be *blocked* and unblocked while it is, and is *delisted* in the end;
 * its trades remain known, and when it is listed again they go on.
 */
export class LiveExchange implements LiveTime {
  readonly engine: MatchingEngine;
  readonly #options: LiveExchangeOptions;
  readonly #traders: Traders;
  readonly #listed = new Map<string, LiveMarket>();
  readonly #delisted = new Map<string, LiveMarket>();

  constructor(options: LiveExchangeOptions, markets: readonly GeneratedMarket[]) {
    this.#options = options;
    this.engine = new MatchingEngine({ onTrade: (trade) => this.#keep(trade) });
    this.#traders = new Traders({
      engine: this.engine,
      seed: options.seed,
      fromUs: options.originUs,
      catchUpSessions: options.keepAll ? Number.POSITIVE_INFINITY : HISTORY_SESSIONS,
      onSession: (startUs) => this.#forgetBefore(startUs - HISTORY_SESSIONS * SESSION_US),
    });
    for (const market of markets) this.list(market, options.originUs);
  }

  get nextUs(): number {
    return this.#traders.nextUs;
  }

  advanceTo(timeUs: number): void {
    this.#traders.advanceTo(timeUs);
  }

  /** All listed markets, in the order of listing. */
  markets(): Iterable<LiveMarket> {
    return this.#listed.values();
  }

  /** A listed market. */
  market(name: string): LiveMarket | undefined {
    return this.#listed.get(name);
  }

  /** A market that is listed, or was. */
  anyMarket(name: string): LiveMarket | undefined {
    return this.#listed.get(name) ?? this.#delisted.get(name);
  }

  /**
   * Lists a market; traders come at once.
   *
   * @param fromUs its trades before that are not part of the history
   * @throws LiveError when it is listed already, or can not be traded as described
   */
  list(market: GeneratedMarket, fromUs: number): LiveMarket {
    checkMarket(market);
    const { name, stockPrec, moneyPrec, minAmount } = market;
    if (this.#listed.has(name)) throw new LiveError(`market ${name} is listed already`);
    const { takerFee, makerFee } = this.#options;
    const rules = { ...describeMarket(name, stockPrec, moneyPrec, minAmount), takerFee, makerFee };
    const made = this.#delisted.get(name) ?? this.#open(rules, fromUs);
    const { priceDigits, amountDigits } = made.tape.columns;
    if (priceDigits !== moneyPrec || amountDigits !== stockPrec) {
      throw new LiveError(`market ${name} was listed before with other precisions`);
    }
    this.engine.addMarket(rules);
    this.#delisted.delete(name);
    this.#listed.set(name, made);
    this.#traders.add(flowShapeOf(market));
    return made;
  }

  /** Ends a market: all open orders are cancelled and their funds released. */
  delist(name: string): void {
    const market = this.#listed.get(name);
    if (market === undefined) throw new LiveError(`no market ${name} is listed`);
    this.#traders.remove(name);
    this.engine.delistMarket(name);
    this.#listed.delete(name);
    this.#delisted.set(name, market);
  }

  /** While a market is blocked nobody can place orders in it; what rests stays. */
  block(name: string, isBlocked: boolean): void {
    if (!this.#listed.has(name)) throw new LiveError(`no market ${name} is listed`);
    this.engine.setBlocked(name, isBlocked);
    this.#traders.setHalted(name, isBlocked);
  }

  #open(rules: MarketRules, fromUs: number): LiveMarket {
    const { historyMax, keepAll } = this.#options;
    const { takerFee: _takerFee, makerFee: _makerFee, ...market } = rules;
    const digits = { price: rules.moneyPrec, amount: rules.stockPrec };
    const source = new LiveSource(this, digits, fromUs, keepAll);
    return { rules, source, tape: new MarketTape(market, 1n, source, historyMax) };
  }

  #keep(trade: Trade): void {
    this.#listed.get(trade.market)?.source.add(trade);
  }

  #forgetBefore(timeUs: number): void {
    for (const { source } of this.#listed.values()) source.forgetBefore(timeUs);
    for (const { source } of this.#delisted.values()) source.forgetBefore(timeUs);
  }
}
