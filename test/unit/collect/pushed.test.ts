import assert from 'node:assert/strict';
import test from 'node:test';
import { TradeEvidence } from '../../../src/collect/trades/evidence.js';
import { PushedTrades } from '../../../src/collect/trades/pushed.js';
import { type SourceTrade, toPushed } from '../../../src/collect/trades/source.js';
import { seededRandom } from '../../../src/kernel/random.js';
import { FakeTime } from '../../support/fake-time.js';
import { inEachWorld, seedsOf } from '../../support/seeds.js';
import {
  START_MS,
  START_S,
  signal,
  type Trade,
  TradeWorld,
} from '../../support/worlds/trade-world.js';

/**
 * Trades that are pushed, held against pages of history that hold a hundred rows, come from a cache of five
 * seconds, and count their offset by ids: what WhiteBIT documents.
 */

const PAGE_ROWS = 100;
const CACHE_S = 5;
const STEP_S = 0.2;

interface FeedWorldOptions {
  readonly perS: number;
  readonly seconds: number;
  /** Seconds between two cuts of the connection, and how long there is none. */
  readonly cutEveryS: number;
  readonly awayS: number;
  /** Whether the newest trades are asked for after each connection. */
  readonly isAnswered: boolean;
  /** Longest step from one id to the next. */
  readonly stepMax: number;
  /** Share of pushed trades that never arrive. */
  readonly lostShare: number;
  /** Share of frames with a trade that never was. */
  readonly falseShare: number;
}

const WELL: FeedWorldOptions = {
  ...{ perS: 25, seconds: 600, cutEveryS: 60, awayS: 1, isAnswered: true },
  ...{ stepMax: 3, lostShare: 0, falseShare: 0 },
};

class FeedWorld {
  readonly world: TradeWorld;
  readonly pushed = new PushedTrades();
  readonly evidence: TradeEvidence;
  readonly truth: Trade[] = [];
  looks = 0;

  constructor() {
    this.world = new TradeWorld([], 0);
    this.world.mode = 'id';
    this.world.cap = PAGE_ROWS;
    const { clock, record: telemetry } = this.world;
    const time = new FakeTime(clock);
    this.evidence = new TradeEvidence({ market: 'A', time, clock, telemetry });
    this.world.extras = { pushed: this.pushed, evidence: this.evidence };
  }

  get nowS(): number {
    return (this.world.clock.wallMs() - START_MS) / 1000;
  }

  frame(trades: readonly Trade[]): readonly SourceTrade[] {
    const rows = trades.map(({ tid, atS }) => ({ tid, atS }));
    return toPushed({
      kind: 'trades',
      origin: 'update',
      market: 'A',
      trades: rows.map(({ tid, atS }) => ({
        ...{ id: tid, time: START_S + atS, price: '10', amount: '1', total: '10', type: 'buy' },
      })),
      rejected: [],
      receivedAtMs: this.world.clock.wallMs(),
      exchangeMs: this.world.clock.wallMs(),
    }).trades;
  }

  async live(options: FeedWorldOptions, seed: number): Promise<void> {
    const { perS, seconds, cutEveryS, awayS, isAnswered, stepMax, lostShare, falseShare } = options;
    const random = seededRandom(seed);
    const { world, pushed, truth } = this;
    const walker = world.walkerOfBoth();
    // A history of before, so that the first page is full.
    for (let at = 0; at < 1000; at += 1) truth.push({ tid: at + 1, atS: at * 0.04 });
    world.clock.advance(40_000);
    let [tid, nextS, cachedS, lookedS] = [1000, 40, -Infinity, -Infinity];
    let openAtS = this.nowS;
    let isOpen = false;
    const endS = this.nowS + seconds;
    while (this.nowS < endS) {
      world.clock.advance(STEP_S * 1000);
      const { nowS } = this;
      const fresh: Trade[] = [];
      for (; nextS <= nowS; nextS += (-Math.log(1 - random()) || 0.001) / perS) {
        tid += 1 + Math.floor(random() * stepMax);
        fresh.push({ tid, atS: Math.floor(nextS * 1000) / 1000 });
      }
      truth.push(...fresh);
      if (isOpen && nowS >= openAtS + cutEveryS) {
        pushed.closed();
        isOpen = false;
        openAtS = nowS + awayS;
      } else if (!isOpen && nowS >= openAtS) {
        pushed.opened(world.clock.wallMs());
        isOpen = true;
        openAtS = nowS;
        if (isAnswered) pushed.answered(this.frame(truth.slice(-PAGE_ROWS)));
      } else if (isOpen) {
        const arrived = fresh.filter(() => random() >= lostShare);
        const frame = this.frame(arrived);
        if (frame.length > 0 && random() < falseShare) {
          pushed.push([{ ...(frame[0] as SourceTrade), tid: tid + 1 + Math.floor(random() * 9) }]);
        }
        pushed.push(frame);
        for (const one of frame) this.evidence.pushed(one);
      }
      if (nowS - cachedS >= CACHE_S) {
        cachedS = nowS;
        world.trades = [...truth];
      }
      if (nowS - lookedS < (walker.isPushed ? 15 : 5)) continue;
      lookedS = nowS;
      this.looks += 1;
      await walker.pollHead(signal).catch((error: unknown) => {
        if ((error as { code?: string }).code !== 'walk_stalled') throw error;
      });
    }
    world.trades = truth;
  }

  /** Share of the time since the first look that is covered. */
  coveredShare(seconds: number): number {
    const covered = this.world.covered().reduce((sum, [fromS, toS]) => {
      return sum + Math.max(0, Math.min(toS, this.nowS) - Math.max(fromS, this.nowS - seconds));
    }, 0);
    return covered / seconds;
  }
}

test('a hundred rows of each five seconds, and a connection cut each minute: whole, at a lower pace', async () => {
  const feed = new FeedWorld();
  await feed.live(WELL, 7);
  feed.world.assertHonest(1);
  feed.world.assertHonest(2);
  assert.ok(feed.looks < 70, `${feed.looks} looks in ${WELL.seconds} s`);
  // What is newer than the last page is not claimed yet.
  const share = feed.coveredShare(WELL.seconds - 40);
  assert.ok(share > 0.95, `${share}`);
  const gaps = feed.world.covered().slice(0, -1);
  assert.deepEqual(gaps, [], JSON.stringify(feed.world.covered()));
});

test('without the feed, and without answers after a break, most of that is lost and listed', async () => {
  const alone = new FeedWorld();
  await alone.live({ ...WELL, cutEveryS: 0, awayS: 10_000, isAnswered: false }, 7);
  alone.world.assertHonest(1);
  const shareAlone = alone.coveredShare(WELL.seconds - 40);
  const unanswered = new FeedWorld();
  await unanswered.live({ ...WELL, isAnswered: false }, 7);
  unanswered.world.assertHonest(1);
  const share = unanswered.coveredShare(WELL.seconds - 40);
  assert.ok(shareAlone < 0.9 && share > shareAlone, `${shareAlone} ${share}`);
});

test('trades that were never pushed, or never were, break the evidence and nothing else', async () => {
  await inEachWorld(seedsOf(24), async (seed) => {
    const random = seededRandom(seed);
    const feed = new FeedWorld();
    // One that is lost where no page shows it shows by its id only.
    const isLossy = random() < 0.5;
    await feed.live(
      {
        perS: 2 + Math.floor(random() * 30),
        seconds: 240,
        cutEveryS: 20 + Math.floor(random() * 60),
        awayS: random() * 6,
        isAnswered: random() < 0.6,
        stepMax: isLossy ? 1 : 3,
        lostShare: isLossy ? random() * 0.05 : 0,
        falseShare: random() < 0.5 ? 0 : random() * 0.02,
      },
      seed,
    );
    feed.world.assertHonest(1);
    feed.world.assertHonest(2);
  });
});
