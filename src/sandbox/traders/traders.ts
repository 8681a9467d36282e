import { firstNot } from '../../kernel/sorted.js';
import { MAX_PLACES, powerOfTen } from '../amounts.js';
import type { MatchingEngine } from '../engine/engine.js';
import { EngineError } from '../errors.js';
import type { FlowShape } from '../markets.js';
import { MAKERS } from './makers.js';
import { type FlowEventKind, MarketFlow, TAKERS } from './market-flow.js';

/** Raised whenever the same seed would give other trades. Part of the exchange's identity. */
export const TRADERS_VERSION = 1;

/** Length of a session, which begins on the full hour. */
export const SESSION_US = 3_600_000_000;
/** Ids of one session for all markets together; they stay below 2^53 for 15,000 years. */
const IDS_PER_SESSION = 2 ** 26;
/** Deposit of every currency for the traders, whenever they have less than half of it. */
const FUNDS = 10n ** 20n;

export interface Scheduled {
  /** UNIX microseconds. */
  readonly timeUs: number;
  /** Settles the order of events of one instant. */
  readonly rank: number;
}

/**
 * Events in order of time; those of one instant in order of rank, then in the order in which they
 * were added. About two a market wait at a time, so that inserting moves little.
 */
export class EventQueue<E extends Scheduled> {
  /** The event that comes next is the last. */
  readonly #events: E[] = [];

  /** The event that comes next. */
  get first(): E | undefined {
    return this.#events.at(-1);
  }

  add(event: E): void {
    const at = firstNot(this.#events.length, (place) => isAfter(this.#events[place], event));
    this.#events.splice(at, 0, event);
  }

  /** Takes out the event that comes next. */
  take(): E | undefined {
    return this.#events.pop();
  }

  clear(): void {
    this.#events.length = 0;
  }
}

function isAfter(event: Scheduled | undefined, { timeUs, rank }: Scheduled): boolean {
  if (event === undefined) return false;
  return event.timeUs === timeUs ? event.rank > rank : event.timeUs > timeUs;
}

interface FlowEvent extends Scheduled {
  readonly flow: MarketFlow;
  readonly kind: FlowEventKind;
}

interface Trading {
  readonly shape: FlowShape;
  /** Order of markets among events of one instant. */
  readonly rank: number;
  flow: MarketFlow | undefined;
  isHalted: boolean;
}

export interface TradersOptions {
  readonly engine: MatchingEngine;
  readonly seed: number;
  /** Start of the simulation, UNIX microseconds: at the start of the session of this time. */
  readonly fromUs: number;
  /** Sessions that are simulated to catch up after a long silence; earlier ones are left out. */
  readonly catchUpSessions: number;
  /** Called when a session has begun, before its first trade. */
  readonly onSession: (startUs: number) => void;
}

/** Number of the session that a time lies in. */
export function sessionOf(timeUs: number): number {
  return Math.floor(timeUs / SESSION_US);
}

/**
 * The simulated traders of an exchange, in virtual time: each event has its own microsecond, and
 * {@link Traders.advanceTo} lets everything happen that is due, in order, however seldom or often it
 * is called.
 *
 * Time is cut into *sessions*. When one begins, the traders take back all their orders, every market
 * starts over with the random numbers of that session, and ids go on from a number that follows from
 * the session. So any time can be reached by simulating from the start of its session, without
 * knowing what was before. Orders of others stay in the book.
 */
export class Traders {
  readonly #options: TradersOptions;
  readonly #queue = new EventQueue<FlowEvent>();
  readonly #markets = new Map<string, Trading>();
  #nextRank = 0;
  #session: number;
  #nowUs: number;
  #isOpen = false;

  constructor(options: TradersOptions) {
    this.#options = options;
    this.#session = sessionOf(options.fromUs);
    this.#nowUs = this.#session * SESSION_US;
  }

  /** The time up to which everything has happened, UNIX microseconds. */
  get nowUs(): number {
    return this.#nowUs;
  }

  /** The next time at which anything happens, UNIX microseconds. */
  get nextUs(): number {
    const boundaryUs = this.#isOpen ? (this.#session + 1) * SESSION_US : this.#nowUs;
    return Math.min(boundaryUs, this.#queue.first?.timeUs ?? boundaryUs);
  }

  /** Lets traders come to a market of the engine, from now on. */
  add(shape: FlowShape): void {
    const trading: Trading = { shape, rank: this.#nextRank, flow: undefined, isHalted: false };
    this.#nextRank += 1;
    this.#markets.set(shape.name, trading);
    if (this.#isOpen) {
      this.#fund();
      this.#openFlow(trading, this.#nowUs);
    }
  }

  /** Ends the trading in a market; its open orders are the engine's to cancel. */
  remove(market: string): void {
    const trading = this.#markets.get(market);
    if (trading !== undefined) trading.flow = undefined;
    this.#markets.delete(market);
  }

  /** Sends the traders of a market away, their orders left as they are, or lets them start over. */
  setHalted(market: string, isHalted: boolean): void {
    const trading = this.#markets.get(market);
    if (trading === undefined || trading.isHalted === isHalted) return;
    trading.isHalted = isHalted;
    if (isHalted || !this.#isOpen) return;
    trading.flow?.close();
    this.#openFlow(trading, this.#nowUs);
  }

  /** Lets everything happen up to and including a time. A time of the past changes nothing. */
  advanceTo(timeUs: number): void {
    const target = sessionOf(timeUs);
    const first = target - this.#options.catchUpSessions;
    if (!this.#isOpen || this.#session < first) {
      this.#begin(Math.max(this.#session, first));
    }
    while (this.#nowUs < timeUs) {
      const boundaryUs = (this.#session + 1) * SESSION_US;
      this.#advanceWithin(Math.min(timeUs, boundaryUs - 1));
      if (timeUs >= boundaryUs) this.#begin(this.#session + 1);
    }
  }

  #advanceWithin(timeUs: number): void {
    for (;;) {
      const { first } = this.#queue;
      if (first === undefined || first.timeUs > timeUs) break;
      this.#queue.take();
      this.#nowUs = first.timeUs;
      const trading = this.#markets.get(first.flow.market);
      const isOver = trading?.flow !== first.flow || trading.isHalted;
      if (!isOver) first.flow.happen(first.kind, first.timeUs);
    }
    this.#nowUs = Math.max(this.#nowUs, timeUs);
  }

  #begin(session: number): void {
    const { engine, onSession } = this.#options;
    for (const { flow, isHalted } of this.#markets.values()) if (!isHalted) flow?.close();
    this.#queue.clear();
    this.#session = session;
    this.#nowUs = session * SESSION_US;
    this.#isOpen = true;
    engine.advanceIds(session * IDS_PER_SESSION + 1);
    this.#fund();
    onSession(this.#nowUs);
    for (const trading of this.#markets.values()) {
      if (!trading.isHalted) this.#openFlow(trading, this.#nowUs);
    }
  }

  #openFlow(trading: Trading, timeUs: number): void {
    const { engine, seed } = this.#options;
    const { shape, rank } = trading;
    const flow = new MarketFlow(engine, shape, seed, this.#session, (kind, atUs) => {
      this.#queue.add({ timeUs: atUs, rank, flow, kind });
    });
    trading.flow = flow;
    flow.open(timeUs);
  }

  /** Far more than a session can use: what the traders do never depends on what they have. */
  #fund(): void {
    const { engine } = this.#options;
    const wanted = FUNDS * powerOfTen(MAX_PLACES);
    for (const { name, holdings } of engine.currencies()) {
      for (const account of [MAKERS, TAKERS]) {
        if ((holdings.get(account)?.available ?? 0n) * 2n >= wanted) continue;
        const refused = engine.deposit(account, name, String(FUNDS));
        if (refused !== undefined) throw new EngineError(`traders' funds: ${refused.message}`);
      }
    }
  }
}
