import assert from 'node:assert/strict';
import test from 'node:test';
import type { TradeWalker } from '../../../src/collect/trades/walker.js';
import { every, START_MS, signal, TradeWorld } from '../../support/worlds/trade-world.js';

/**
 * What the way through history costs: requests are what the exchange rations, and one that brings
 * nothing new is freshness lost elsewhere. Between two steps the market trades on and its head is
 * looked at, as in life.
 */

const PAGE = 1000;
/** Every page but the first holds one trade that is known: the overlap. */
const pagesOf = (rows: number) => Math.ceil(rows / (PAGE - 1));
/** Two signs that history ends there, each with its second answer. */
const PROOF_OF_THE_END = 8;

/** A market that trades on at the same pace while the walk goes through what was. */
class BusyWorld extends TradeWorld {
  readonly #perS: number;
  /** Requests that steps into gaps took. */
  stepRequests = 0;

  constructor(rows: number, perS: number) {
    super(every(rows, 1 / perS), rows / perS + 1);
    this.#perS = perS;
  }

  get stored(): number {
    return this.archive.trades.size;
  }

  pass(seconds: number): void {
    this.clock.advance(seconds * 1000);
    const nowS = (this.clock.wallMs() - START_MS) / 1000;
    for (let at = this.trades.length; at / this.#perS < nowS; at += 1) {
      this.trades.push({ tid: at + 1, atS: at / this.#perS });
    }
  }

  /** Three steps to every look at the head, until no gap is left. */
  async walkDown(walker: TradeWalker, roundsMax = 100): Promise<void> {
    for (let round = 0; round < roundsMax; round += 1) {
      await walker.pollHead(signal);
      this.pass(1);
      if (walker.pendingGap() === undefined) return;
      for (let step = 0; step < 3 && walker.pendingGap() !== undefined; step += 1) {
        const before = this.exchange.countOf('historyResult');
        await walker.fillStep(signal);
        this.stepRequests += this.exchange.countOf('historyResult') - before;
        this.pass(1);
      }
    }
  }
}

for (const perS of [0.5, 1, 5, 30]) {
  test(`at ${perS} trades a second a walk through history asks for each page once`, async () => {
    const world = new BusyWorld(20_000, perS);
    await world.walkDown(world.walker());
    assert.equal(world.covered().length, 1);
    assert.ok(world.stored >= 20_000);
    // What happens while a step is under way is asked for once more with the next one.
    const most = pagesOf(20_000) * 1.06 + PROOF_OF_THE_END;
    assert.ok(world.stepRequests <= most, `${world.stepRequests} requests, at most ${most}`);
  });

  test(`at ${perS} trades a second the gap of an absence takes its pages, and no more`, async () => {
    const world = new BusyWorld(20_000, perS);
    await world.walkDown(world.walker(), 3);
    const before = world.stepRequests;
    world.pass(6000 / perS);
    const known = world.stored;
    await world.walkDown(world.walker());
    assert.equal(world.covered().length, 1);
    const pages = pagesOf(world.stored - known);
    const most = pages * 1.06 + PROOF_OF_THE_END + 2;
    const asked = world.stepRequests - before;
    assert.ok(asked <= most, `${asked} requests, at most ${most}`);
  });
}
