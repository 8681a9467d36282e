import assert from 'node:assert/strict';
import { createExchangeClock, type ExchangeClock } from '../../../src/client/exchange-clock.js';
import { StreamLedger } from '../../../src/collect/ledger.js';
import type { ArchivePort } from '../../../src/collect/ports.js';
import { TradeEvidence } from '../../../src/collect/trades/evidence.js';
import type { TradeSource } from '../../../src/collect/trades/source.js';
import { noTraits } from '../../../src/collect/trades/walk.js';
import { WalkStalledError } from '../../../src/collect/trades/walk-errors.js';
import { TradeWalker } from '../../../src/collect/trades/walker.js';
import { type Random, seededRandom } from '../../../src/kernel/random.js';
import type { StreamRef } from '../../../src/model/batch.js';
import { placeKey } from '../../../src/model/order.js';
import type { PagedEndpoint } from '../../../src/store/index.js';
import { FakeClock } from '../fake-clock.js';
import { noTelemetry } from '../no-telemetry.js';
import { knownMode } from '../worlds/trade-world.js';
import { LyingExchange, type LyingTraits, type ToldLie } from './lying-exchange.js';
import { ModelArchive } from './model-archive.js';

const { signal } = new AbortController();
const MARKET_ID = 7;
const STREAM_ID = 1;
const CACHE_MARGIN_MS = 2000;
/** Polls after the last lie within which coverage reaches the present again. */
const POLLS_MAX = 12;
/** Looks of one endpoint after which a row of one answer is no news any more. */
const GRACE_POLLS = 3;
const LYING_TURNS = 60;

class Killed extends Error {}

interface LyingWorld extends LyingTraits {
  /** Seconds between two looks. */
  readonly everyS: number;
  /** Steps at which ids start anew, a cache gets stuck and is mended. */
  readonly anewAt: number;
  readonly staleFrom: number;
  readonly staleUntil: number;
  /** Chance of a kill in each step, and right after a lie. */
  readonly killing: number;
  readonly killingAfterLie: number;
  readonly failing: number;
}

function pick<T>(random: Random, from: readonly [T, ...T[]]): T {
  return from[Math.floor(random() * from.length)] ?? from[0];
}

function makeWorld(seed: number): LyingWorld {
  const random = seededRandom(seed * 7919);
  const share = () => (random() < 0.5 ? 0 : pick(random, [0.02, 0.1, 0.3]));
  const staleFrom = random() < 0.3 ? Math.floor(random() * LYING_TURNS) : Infinity;
  return {
    seed,
    mode: random() < 0.2 ? 'id' : 'skip',
    rate: pick(random, [0.03, 0.3, 2]),
    cap: pick(random, [200, 100, 60]),
    rowLies: { head: share(), first: 2 * share(), last: share() },
    dateLies: share(),
    dateByMs: pick(random, [60_000, 3_600_000, -3_600_000, 5_000]),
    staleMs: pick(random, [4000, 10_000, 30_000]),
    isStaleBoth: random() < 0.5,
    everyS: pick(random, [1, 2, 5]),
    anewAt: random() < 0.3 ? Math.floor(random() * LYING_TURNS) : Infinity,
    staleFrom,
    staleUntil: staleFrom + 5 + Math.floor(random() * 30),
    killing: pick(random, [0, 0.02, 0.1]),
    killingAfterLie: pick(random, [0, 0.3, 1]),
    failing: pick(random, [0, 0, 0.03]),
  };
}

/** The port of an archive as a ledger takes it: its methods as they are, as the real one has them. */
function portOf(archive: ModelArchive): ArchivePort {
  const names = Object.getOwnPropertyNames(ModelArchive.prototype) as (keyof ArchivePort)[];
  const methods = names.flatMap((name) => {
    const method: unknown = archive[name];
    return typeof method === 'function' ? [[name, method.bind(archive) as unknown]] : [];
  });
  return Object.fromEntries(methods) as unknown as ArchivePort;
}

/** Rows of one answer so far, which no other answer could contradict yet. */
interface Excuse extends ToldLie {
  looksLeft: number;
}

/** A walk through an exchange whose two endpoints lie for a while, and what becomes of it. */
export class LyingWalks {
  readonly #world: LyingWorld;
  readonly #random: Random;
  readonly #clock = new FakeClock(Date.UTC(2026, 0, 1));
  readonly #exchange: LyingExchange;
  readonly #archive = new ModelArchive();
  readonly #fromMs: number;
  #time: ExchangeClock;
  #evidence: TradeEvidence;
  #walker: TradeWalker;
  #excuses: Excuse[] = [];
  #staleFromMs = Infinity;
  #staleLooksLeft = 0;
  /** Calls of the archive until the process is killed. */
  #callsLeft = Infinity;

  constructor(seed: number) {
    this.#world = makeWorld(seed);
    this.#random = seededRandom(seed);
    this.#exchange = new LyingExchange(this.#world, this.#clock);
    this.#clock.advance(200_000);
    this.#exchange.trade();
    this.#fromMs = this.#clock.wallMs() - 100_000;
    this.#archive.before = (method) => {
      if (this.#callsLeft <= 0) throw new Killed('killed');
      this.#callsLeft -= 1;
      const isFailing = this.#exchange.isLying && this.#random() < this.#world.failing;
      if (method === 'commit' && isFailing) throw new Error('no database');
    };
    [this.#time, this.#evidence, this.#walker] = this.#begin();
  }

  /** A daemon that knows nothing but the archive. */
  #begin(): [ExchangeClock, TradeEvidence, TradeWalker] {
    const { mode, seed } = this.#world;
    const clock = this.#clock;
    this.#callsLeft = Infinity;
    const time = createExchangeClock({ clock });
    const telemetry = noTelemetry.collect;
    const evidence = new TradeEvidence({ market: 'A', time, clock, telemetry });
    this.#time = time;
    const stream: StreamRef = {
      ...{ streamId: STREAM_ID, kind: 'trades', marketId: MARKET_ID, variant: 0 },
      collectFromMs: this.#fromMs,
    };
    const ports = { archive: portOf(this.#archive), time, clock, telemetry };
    const { archive } = new StreamLedger(ports, 'A', stream);
    const ranges = this.#archive.allRanges(STREAM_ID);
    for (const { span } of ranges) assert.ok(span.toMs <= clock.wallMs(), 'of the future');
    const walker = new TradeWalker(
      {
        ...{ market: 'A', marketId: MARKET_ID, stream, archive },
        ...{ source: this.#source('historyResult'), timed: this.#source('history') },
        ...{ time, clock, random: seededRandom(seed), telemetry, evidence },
        ...{ cacheMarginMs: CACHE_MARGIN_MS, keptAtLeastMs: 900_000 },
        ...{ traits: noTraits(), offsets: knownMode(() => mode), isAllWanted: false },
      },
      ranges,
      this.#archive.trades.size > 0,
    );
    return [time, evidence, walker];
  }

  #source(endpoint: PagedEndpoint): TradeSource {
    const fetch = async (_market: string, skip: number, limit: number) => {
      const sentMonotonicMs = this.#clock.monotonicMs();
      const page = this.#exchange.page(endpoint, skip, limit, 0);
      const receivedMonotonicMs = sentMonotonicMs + 20;
      const { dateMs } = page;
      if (dateMs !== null) {
        this.#time.observe({ dateMs, sentMonotonicMs, receivedMonotonicMs, resolutionMs: 1000 });
      }
      return { ...page, sentAtMs: this.#time.atMonotonicMs(sentMonotonicMs) };
    };
    return { endpoint, fetch };
  }

  /** Lives through all lies, and for a while after them. */
  async live(): Promise<void> {
    const { staleFrom, staleUntil, anewAt } = this.#world;
    for (let turn = 0; turn < 5; turn += 1) await this.#turn();
    this.#exchange.isLying = true;
    for (let turn = 0; turn < LYING_TURNS; turn += 1) {
      if (turn === anewAt) this.#exchange.beginIdsAnew();
      if (turn === staleFrom) this.#staleFromMs = this.#clock.wallMs() - this.#world.staleMs;
      this.#exchange.isStale = turn >= staleFrom && turn < staleUntil;
      await this.#turn();
      await this.#maybeKill();
      this.assertHonest();
    }
    this.#exchange.isLying = false;
    this.#exchange.isStale = false;
  }

  /** No more lies from here on: within some looks coverage reaches the present, and stays true. */
  async recover(): Promise<void> {
    let polls = 0;
    for (; polls < POLLS_MAX && this.#behindMs() > 0; polls += 1) await this.#turn();
    assert.ok(this.#behindMs() <= 0, `${this.#behindMs()} ms behind after ${polls} looks`);
    for (let turn = 0; turn < 2 * GRACE_POLLS; turn += 1) await this.#turn();
    this.#excuses = [];
    this.assertHonest();
    // Gaps are put off for longer and longer; in the end all of them are closed.
    this.#exchange.isOpen = false;
    // So is what a pass left without exact times, after a day.
    for (const waitS of [700, 700, 700, 90_000]) {
      this.#clock.advance(waitS * 1000);
      await this.#turn();
      await this.#turn();
    }
    this.assertHonest();
    if (this.#world.mode === 'skip') this.#assertWhole();
  }

  /** How far the newest coverage is behind what the next looks should prove. */
  #behindMs(): number {
    const allowedMs = CACHE_MARGIN_MS + 2000 + this.#world.everyS * 1000;
    const topMs = this.#archive.allRanges(STREAM_ID)[0]?.span.toMs ?? 0;
    return this.#clock.wallMs() - topMs - allowedMs;
  }

  async #turn(): Promise<void> {
    this.#clock.advance(this.#world.everyS * 1000);
    this.#exchange.trade();
    const nowMs = this.#time.nowMs();
    this.#evidence.looked('states', this.#exchange.figures, nowMs);
    this.#evidence.looked('tickers', this.#exchange.figures, nowMs);
    if (this.#random() < this.#world.killing && this.#exchange.isLying) {
      this.#callsLeft = Math.floor(this.#random() * 12);
    }
    const stepsMax = this.#exchange.isOpen ? 3 : 100;
    const { times } = this.#walker;
    await this.#attempt(async () => times?.pollHead(signal));
    this.#looked('history');
    await this.#attempt(() => this.#walker.pollHead(signal));
    this.#looked('historyResult');
    for (let step = 0; step < stepsMax && this.#walker.pendingGap() !== undefined; step += 1) {
      await this.#attempt(() => this.#walker.fillStep(signal));
    }
    for (let step = 0; step < stepsMax && times?.isDue === true; step += 1) {
      await this.#attempt(() => times.fillStep(signal));
    }
    if (this.#callsLeft <= 0) this.#restart();
  }

  #looked(endpoint: PagedEndpoint): void {
    for (const one of this.#excuses) if (one.endpoint === endpoint) one.looksLeft -= 1;
    this.#excuses = this.#excuses.filter(({ looksLeft }) => looksLeft > 0);
    const news = this.#exchange.told.filter(
      ({ place, truth, lie }) => place === 'head' && truth.tid === lie.tid,
    );
    this.#excuses.push(...news.map((one) => ({ ...one, looksLeft: GRACE_POLLS })));
    this.#exchange.told = [];
    if (this.#exchange.isStale) this.#staleLooksLeft = 2 * GRACE_POLLS;
    else this.#staleLooksLeft -= 1;
    if (this.#staleLooksLeft <= 0) this.#staleFromMs = Infinity;
  }

  async #attempt(work: () => Promise<unknown>): Promise<void> {
    await work().catch((error: unknown) => {
      const isKnown = error instanceof WalkStalledError || error instanceof Killed;
      if (!isKnown && !/no database/.test(String(error))) throw error;
    });
  }

  async #maybeKill(): Promise<void> {
    const hasLied = this.#excuses.some(({ looksLeft }) => looksLeft === GRACE_POLLS);
    if (hasLied && this.#random() < this.#world.killingAfterLie) this.#restart();
  }

  #restart(): void {
    const awayS = this.#random() < 0.5 ? 0 : Math.floor(this.#random() * 120);
    this.#clock.advance(awayS * 1000);
    this.#exchange.trade();
    for (const one of this.#excuses) one.looksLeft = GRACE_POLLS;
    [this.#time, this.#evidence, this.#walker] = this.#begin();
  }

  /** Covered is what is stored, and nothing else is there; but for what one answer alone had. */
  assertHonest(): void {
    const excused = new Set(
      this.#excuses.flatMap(({ truth, lie }) => [placeKey(truth), placeKey(lie)]),
    );
    const issued = new Set(this.#exchange.issued.map(placeKey));
    const spans = this.#archive.allRanges(STREAM_ID).map(({ span }) => span);
    const isCovered = ({ tradedAtS }: { tradedAtS: number }) =>
      spans.some(({ fromMs, toMs }) => fromMs <= tradedAtS * 1000 && tradedAtS * 1000 < toMs);
    for (const row of this.#exchange.issued) {
      const isHere = this.#archive.trades.has(`${MARKET_ID} ${placeKey(row)}`);
      if (row.tradedAtS * 1000 >= this.#staleFromMs || isHere) continue;
      if (!isCovered(row) || excused.has(placeKey(row))) continue;
      assert.fail(`trade ${this.#told(row)} is covered and not stored`);
    }
    for (const row of this.#archive.trades.values()) {
      const key = placeKey(row);
      if (issued.has(key) || excused.has(key) || !isCovered(row)) continue;
      assert.fail(`${this.#told(row)} never was, and is stored`);
    }
    for (const { toMs } of spans) assert.ok(toMs <= this.#clock.wallMs(), 'the future');
  }

  /** Nothing is left to be fetched, and exact times are as the exchange has them. */
  #assertWhole(): void {
    const spans = this.#archive.allRanges(STREAM_ID).map(({ span }) => span);
    const text = `left with gaps: ${JSON.stringify(spans.map(({ fromMs, toMs }) => [fromMs - this.#fromMs, toMs - this.#fromMs]))}`;
    assert.equal(spans.length, 1, text);
    const firstMs = ((this.#exchange.issued[0]?.tradedAtS ?? 0) + 1) * 1000;
    assert.ok((spans[0]?.fromMs ?? Infinity) <= Math.max(firstMs, this.#fromMs), text);
    for (const row of this.#exchange.issued) {
      const stored = this.#archive.trades.get(`${MARKET_ID} ${placeKey(row)}`);
      if (row.tradedAtS * 1000 < (spans[0]?.fromMs ?? 0)) continue;
      assert.equal(stored?.executedAtUs, row.executedAtUs, `exact time of ${this.#told(row)}`);
    }
  }

  #told({ tid, tradedAtS }: { tid: number; tradedAtS: number }): string {
    return `${tid} at ${tradedAtS - this.#fromMs / 1000} s`;
  }
}
