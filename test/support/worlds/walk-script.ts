import assert from 'node:assert/strict';
import test from 'node:test';
import type { HeadLook } from '../../../src/collect/trades/head.js';
import type { TradeWalker } from '../../../src/collect/trades/walker.js';
import { every, fillAll, START_MS, signal, type Trade, TradeWorld } from './trade-world.js';

/** Walks through a history as rows of a table: what happens phase by phase, and what is there after it. */

type Fails = RegExp | { readonly code?: string; readonly message?: RegExp };

/** Times are in seconds after the start. Changes come first, then the walk, then what is expected. */
export interface Phase
  extends Partial<Pick<TradeWorld, 'cap' | 'mode' | 'isModeKnown' | 'liesOnce' | 'trades'>> {
  readonly add?: readonly Trade[];
  /** Where what is expected begins after the next restart. */
  readonly from?: number;
  /** Every request fails with this text, or no more; every commit of the archive fails, or no more. */
  readonly away?: string | null;
  readonly down?: boolean;
  /** Spans that are wanted, or tried again. */
  readonly wanted?: readonly [number, number];
  readonly retry?: readonly [number, number];
  /** One after the other: `look` at the head, `step` into a gap, `fill` all, `close` filled gaps, `restart`, or a pause such as `6.5s`. */
  readonly walk?: string;
  /** How the last of these ends. */
  readonly fails?: Fails;
  /** Newest first, as `201-400, 1-60`. */
  readonly covered?: string;
  /** End of the newest coverage, and of the oldest. */
  readonly top?: number;
  readonly lowest?: number;
  /** All that was listed, as `8-13 open`, and the last of it; and the reasons. */
  readonly gaps?: string;
  readonly lastGap?: string;
  readonly reasons?: readonly string[];
  /** Where what is expected begins; null: that is not known. */
  readonly floor?: number | null;
  /** Stored trades. */
  readonly stored?: number;
  /** Why rows were refused, in any order. */
  readonly refused?: readonly string[];
  /** Why the lowest trade was tried below in vain, and how often; the same of the oldest gap. */
  readonly tried?: string;
  readonly gapTried?: string;
  /** Gaps that were reported as new; rows that were lost on their way to the archive. */
  readonly found?: number;
  readonly lost?: number;
  /** Until when the oldest gap is not tried, from now on. */
  readonly pause?: number;
  /** End of the coverage that was reported last. */
  readonly news?: number;
  /** Remembered gaps that are not filled. */
  readonly left?: number;
  /** Edge of the gap that is next. */
  readonly next?: number | null;
  /** Gaps that were listed because the head moved on; walks that stopped for lack of progress. */
  readonly moved?: number;
  readonly stalls?: number;
  /** Of this phase: whether only the newest page was asked for; requests, the most there may be, and the rows that each asked for; commits. */
  readonly newest?: boolean;
  readonly asked?: number;
  readonly most?: number;
  readonly limits?: readonly number[];
  readonly commits?: number;
  /** Of the last look. */
  readonly look?: Partial<HeadLook>;
}

interface Start extends Partial<Pick<TradeWorld, 'cap' | 'mode' | 'isModeKnown'>> {
  readonly trades: readonly Trade[];
  /** When the first phase begins. */
  readonly now: number;
  /** Where what is expected begins; left out: everything is wanted. */
  readonly from?: number;
  /** A cache or a lost history hides trades, so that what is covered may lack some. */
  readonly hides?: boolean;
  /** Where an offset of 0 is refused, 1 is sent, as the client does it. */
  readonly refusesZero?: boolean;
}

export type Example = readonly [start: Start, ...phases: Phase[]];

/** Rows that differ in a value. */
export function each<T>(
  values: readonly T[],
  row: (value: T) => readonly [name: string, example: Example],
): Readonly<Record<string, Example>> {
  return Object.fromEntries(values.map(row));
}

/** The same moves so many times. */
export const times = (count: number, moves: string) => Array(count).fill(moves).join(' ');

/** Trades as of `every`, with ids that begin behind `tid`. */
export const shifted = (count: number, stepS: number, fromS: number, tid: number): Trade[] =>
  every(count, stepS, fromS).map((trade) => ({ ...trade, tid: trade.tid + tid }));

/** One test a row; after each phase only what is stored is covered, and in the end all rows are accounted for. */
export function testWalks(examples: Readonly<Record<string, Example>>): void {
  for (const [name, example] of Object.entries(examples)) {
    const [start, ...phases] = example;
    test(name, async () => {
      const run = new Run(start);
      for (const [at, phase] of phases.entries()) await run.live(phase, `phase ${at + 1}`);
      run.world.record.assertAccounted('trades');
    });
  }
}

class Run {
  readonly world: TradeWorld;
  readonly #hides: boolean;
  readonly #whole: TradeWorld['exchange']['answers']['historyResult'];
  #from: number | undefined;
  #walker: TradeWalker;
  #look: HeadLook | undefined;

  constructor({ trades, now, from, hides = false, refusesZero = false, ...how }: Start) {
    this.world = Object.assign(new TradeWorld(structuredClone([...trades]), now), how);
    this.#hides = hides;
    this.#whole = this.world.exchange.answers.historyResult;
    this.#from = from;
    if (refusesZero) refuseZero(this.world);
    this.#walker = this.world.walker(from);
  }

  async live(phase: Phase, at: string): Promise<void> {
    const { world } = this;
    const { add = [], away, down, wanted, retry, walk = '', fails } = phase;
    for (const name of ['cap', 'mode', 'isModeKnown', 'liesOnce', 'trades'] as const) {
      if (name in phase) Object.assign(world, { [name]: structuredClone(phase[name]) });
    }
    world.trades.push(...add);
    this.#from = phase.from ?? this.#from;
    const { answers } = world.exchange;
    if (typeof away === 'string') answers.historyResult = () => Promise.reject(new Error(away));
    else if (away === null && this.#whole !== undefined) answers.historyResult = this.#whole;
    if (down !== undefined) {
      world.archive.before = (method) => {
        if (down && method === 'commit') throw new Error('no database');
      };
    }
    if (wanted !== undefined) this.#walker.backfill(spanOf(wanted));
    if (retry !== undefined) this.#walker.retry(spanOf(retry));
    const [asked, commits] = [world.exchange.asked.length, world.archive.commits];
    const moves = walk.split(' ').filter((move) => move !== '');
    const last = fails === undefined ? undefined : moves.pop();
    for (const move of moves) await this.#move(move);
    if (last !== undefined) await assert.rejects(this.#move(last), fails as RegExp, at);
    this.#assert(phase, world.exchange.asked.slice(asked), world.archive.commits - commits, at);
  }

  async #move(move: string): Promise<void> {
    const { world } = this;
    if (move === 'look') this.#look = await this.#walker.pollHead(signal);
    else if (move === 'step') await this.#walker.fillStep(signal);
    else if (move === 'fill') await fillAll(this.#walker);
    else if (move === 'close') world.archive.closeFilledGaps();
    else if (move === 'restart') this.#walker = world.walker(this.#from);
    else world.clock.advance(Number(/^([\d.]+)s$/.exec(move)?.[1] ?? assert.fail(move)) * 1000);
  }

  #assert(phase: Phase, asked: TradeWorld['exchange']['asked'], commits: number, at: string): void {
    const { world } = this;
    if (!this.#hides) world.assertHonest();
    const { archive } = world;
    const [floorMs, nextMs] = [archive.floorOf(1), this.#walker.pendingGap()?.edgeMs];
    const secondsFrom = (fromMs: number, ms: number | null | undefined) =>
      typeof ms === 'number' ? (ms - fromMs) / 1000 : null;
    const secondsOf = (ms: number | null | undefined) => secondsFrom(START_MS, ms);
    const gaps = world.gaps().map(([fromS, toS, state]) => `${fromS}-${toS} ${state}`);
    const found = {
      covered: world
        .covered()
        .map((span) => span.join('-'))
        .join(', '),
      top: world.covered()[0]?.[1],
      lowest: world.covered().at(-1)?.[1],
      gaps: gaps.join(', '),
      lastGap: gaps.at(-1),
      reasons: archive.gaps.map(({ reason }) => reason),
      floor: secondsOf(floorMs),
      stored: archive.trades.size,
      refused: archive.quarantine.map(({ reason }) => reason.replace(/:.*/, '')).sort(),
      tried: triesOf(archive.tries.get(1)),
      gapTried: triesOf(archive.memories.get(1)?.[0]),
      left: archive.memories.get(1)?.filter(({ state }) => state !== 'filled').length,
      found: world.record.gaps.reduce((sum, { count }) => sum + count, 0),
      lost: world.record.outcomesOf('trades').lost,
      next: secondsOf(nextMs),
      pause: secondsFrom(world.clock.wallMs(), archive.memories.get(1)?.[0]?.nextAttemptAtMs),
      news: secondsOf(world.record.progress.at(-1)?.newestMs),
      moved: archive.gaps.filter(({ reason }) => reason === 'head moved').length,
      stalls: world.record.stalls.length,
      newest: asked.every(({ params }) => params.since === 0),
      asked: asked.length,
      limits: asked.map(({ params }) => params.limit),
      commits,
    };
    const names = (Object.keys(found) as (keyof typeof found)[]).filter((name) => name in phase);
    const pick = (from: Partial<Record<string, unknown>>) =>
      Object.fromEntries(names.map((name) => [name, from[name]]));
    assert.deepEqual(pick(found), pick({ ...phase }), at);
    const { look, most = Number.POSITIVE_INFINITY } = phase;
    assert.ok(asked.length <= most, `${at}: ${asked.length} requests`);
    if (look !== undefined) assert.deepEqual({ ...this.#look, ...look }, this.#look, at);
  }
}

/** As `3 exchange failed: not today`. */
const triesOf = (tries?: { attempts: number; reason: string; note: string | null }) =>
  tries === undefined ? '' : `${tries.attempts} ${tries.reason}: ${tries.note}`;

const spanOf = ([fromS, toS]: readonly [number, number]) => ({
  fromMs: START_MS + fromS * 1000,
  toMs: START_MS + toS * 1000,
});

function refuseZero({ exchange }: TradeWorld): void {
  const call = exchange.call.bind(exchange);
  exchange.call = async (name, params, options) => {
    const isNewest = 'since' in params && params.since === 0;
    const reply = await call(name, isNewest ? { ...params, since: 1 } : params, options);
    return { ...reply, isRaised: isNewest };
  };
}
