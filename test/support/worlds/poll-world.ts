import type { RequestTurn } from '../../../src/client/index.js';
import { PollDispatcher } from '../../../src/collect/polling/dispatcher.js';
import type { HeadWalker } from '../../../src/collect/polling/poll-target.js';
import type { HeadLook } from '../../../src/collect/trades/head.js';
import { RequestBudget } from '../../../src/kernel/budget.js';
import { sleep } from '../../../src/kernel/clock.js';
import { seededRandom } from '../../../src/kernel/random.js';
import { FakeClock } from '../fake-clock.js';
import { CollectRecord } from './collect-record.js';

export interface Polled {
  readonly market: string;
  readonly endpoint: HeadWalker['endpoint'];
  readonly atMs: number;
}

/** A walk whose polls take a time that the test sets, and bring what the test puts there. */
export class FakeWalker implements HeadWalker {
  readonly market: string;
  readonly endpoint: HeadWalker['endpoint'];
  isPushed = false;
  isBusy = false;
  readonly largestPage = 1000;
  latencyMs = 10;
  /** Trades that are at the exchange and were not asked for yet. */
  waiting = 0;
  /** The other endpoint is to be asked. */
  isOpen = false;
  error: Error | undefined;
  underWay = 0;
  readonly #world: PollWorld;

  constructor(world: PollWorld, market: string, endpoint: HeadWalker['endpoint']) {
    this.#world = world;
    this.market = market;
    this.endpoint = endpoint;
  }

  async pollHead(signal: AbortSignal, turn?: RequestTurn): Promise<HeadLook> {
    const { clock } = this.#world;
    this.underWay += 1;
    this.#world.begun(this, turn);
    const newRows = this.waiting;
    this.waiting = 0;
    try {
      await sleep(clock, this.latencyMs, signal);
    } finally {
      this.underWay -= 1;
    }
    if (this.error !== undefined) throw this.error;
    const newTimesMs = Array.from({ length: newRows }, () => clock.wallMs());
    return {
      newRows,
      newTimesMs,
      asked: 1000,
      received: newRows,
      isConnected: true,
      isOpen: this.isOpen,
    };
  }
}

/** A dispatcher with a real budget, over walks and time that the test moves. */
export class PollWorld {
  readonly clock = new FakeClock();
  readonly record = new CollectRecord();
  readonly polls: Polled[] = [];
  readonly walkers = new Map<string, FakeWalker[]>();
  readonly budget: RequestBudget;
  readonly dispatcher: PollDispatcher;
  /** Admissions that are held at present. */
  held = 0;
  mostOfOneWalk = 0;
  readonly #used = new WeakSet<RequestTurn>();

  constructor(ratePerS: number, burst = 1) {
    const { clock, record } = this;
    this.budget = new RequestBudget({ clock, ratePerS, burst, maxWaiting: 10_000 });
    this.dispatcher = new PollDispatcher({
      ...{ clock, random: seededRandom(3), telemetry: record },
      time: { nowMs: () => clock.wallMs() },
      exchange: { reserve: (_endpoint, priority, signal) => this.#reserve(priority, signal) },
      requestsPerS: () => ratePerS,
    });
  }

  async #reserve(priority: number, signal: AbortSignal): Promise<RequestTurn> {
    await this.budget.take(priority, signal);
    this.held += 1;
    const turn: RequestTurn = {
      giveBack: () => {
        if (this.#used.has(turn)) return;
        this.#used.add(turn);
        this.held -= 1;
        this.budget.giveBack();
      },
    };
    return turn;
  }

  begun(walker: FakeWalker, turn: RequestTurn | undefined): void {
    if (turn === undefined) throw new Error('a poll without a turn');
    this.#used.add(turn);
    this.held -= 1;
    this.mostOfOneWalk = Math.max(this.mostOfOneWalk, walker.underWay);
    const { market, endpoint } = walker;
    this.polls.push({ market, endpoint, atMs: this.clock.monotonicMs() });
  }

  /** @param hasTimes beside the walk that proves trades there is an endpoint with exact times */
  add(market: string, hasTimes = false): FakeWalker[] {
    const walker = new FakeWalker(this, market, 'historyResult');
    const times = hasTimes ? new FakeWalker(this, market, 'history') : undefined;
    const walkers = times === undefined ? [walker] : [times, walker];
    this.walkers.set(market, walkers);
    this.dispatcher.add(market, walker, times);
    return walkers;
  }

  /** Names of the markets polled since the last call, in order. */
  taken(): string[] {
    return this.polls.splice(0).map(({ market }) => market);
  }
}
