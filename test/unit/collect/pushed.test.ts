import assert from 'node:assert/strict';
import test from 'node:test';
import { TradeEvidence } from '../../../src/collect/trades/evidence.js';
import { PushedTrades } from '../../../src/collect/trades/pushed.js';
import {
  type SourceTrade,
  type TradePage,
  toPushed,
  withoutNewest,
} from '../../../src/collect/trades/source.js';
import { type Random, seededRandom } from '../../../src/kernel/random.js';
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
  /** What is answered where the newest trades are asked for: nothing, those of now, or those of the pages. */
  readonly answers: 'none' | 'fresh' | 'cached';
  /** How long an answer is under way. */
  readonly answerS: number;
  /** Longest step from one id to the next. */
  readonly stepMax: number;
  /** Share of pushed trades that never arrive. */
  readonly lostShare: number;
  /** Share of frames with a trade that never was. */
  readonly falseShare: number;
  /** Share of frames that cannot be read. */
  readonly unreadShare: number;
  /** Share of frames that come behind the one that follows them. */
  readonly lateShare: number;
  /** When nothing is pushed over a connection that stays, seconds from the beginning. */
  readonly silentS?: readonly [number, number];
  /** When no page of history is to be had, seconds from the beginning. */
  readonly unansweredS?: readonly [number, number];
}

const WELL: FeedWorldOptions = {
  ...{ perS: 25, seconds: 600, cutEveryS: 60, awayS: 1, answers: 'fresh', answerS: 0 },
  ...{ stepMax: 3, lostShare: 0, falseShare: 0, unreadShare: 0, lateShare: 0 },
};
/** Between two questions for the newest trades. */
const ASK_EVERY_S = 2;

class FeedWorld {
  readonly world: TradeWorld;
  readonly pushed = new PushedTrades();
  readonly evidence: TradeEvidence;
  readonly truth: Trade[] = [];
  looks = 0;
  /** A frame that comes behind the next one. */
  #late: readonly SourceTrade[] = [];
  /** An answer under way, and when the next one may be asked for. */
  #answer: { readonly trades: readonly Trade[]; readonly atS: number } | undefined;
  #askableS = 0;

  constructor() {
    this.world = new TradeWorld([], 0);
    this.world.mode = 'id';
    this.world.cap = PAGE_ROWS;
    const { clock, record: telemetry } = this.world;
    const time = new FakeTime(clock);
    this.evidence = new TradeEvidence({ market: 'A', time, clock, telemetry });
    const cacheMarginMs = CACHE_S * 1000;
    this.world.extras = { pushed: this.pushed, evidence: this.evidence, cacheMarginMs };
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
    const { perS, seconds, cutEveryS, awayS, stepMax } = options;
    const random = seededRandom(seed);
    const { world, pushed, truth } = this;
    const walker = world.walkerOfHistory();
    // A history of before, so that the first page is full.
    for (let at = 0; at < 1000; at += 1) truth.push({ tid: at + 1, atS: at * 0.04 });
    world.clock.advance(40_000);
    let [tid, nextS, cachedS, lookedS] = [1000, 40, -Infinity, -Infinity];
    let openAtS = this.nowS;
    let isOpen = false;
    const startS = this.nowS;
    const endS = startS + seconds;
    const [awayFromS, awayToS] = options.unansweredS ?? [0, 0];
    const [silentFromS, silentToS] = options.silentS ?? [0, 0];
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
        this.#late = [];
        this.#answer = undefined;
        isOpen = false;
        openAtS = nowS + awayS;
      } else if (!isOpen && nowS >= openAtS) {
        pushed.opened(world.clock.wallMs());
        isOpen = true;
        openAtS = nowS;
      } else if (isOpen && (nowS < startS + silentFromS || nowS >= startS + silentToS)) {
        this.#push(fresh, options, random);
      }
      if (isOpen) this.#ask(options);
      if (nowS - cachedS >= CACHE_S) {
        cachedS = nowS;
        world.trades = [...truth];
      }
      if (nowS - lookedS < (walker.isPushed ? 15 : 5)) continue;
      if (nowS >= startS + awayFromS && nowS < startS + awayToS) continue;
      lookedS = nowS;
      this.looks += 1;
      await walker.pollHead(signal).catch((error: unknown) => {
        if ((error as { code?: string }).code !== 'walk_stalled') throw error;
      });
    }
    world.trades = truth;
  }

  /** Trades are pushed in a frame, with what is wrong with it. */
  #push(fresh: readonly Trade[], options: FeedWorldOptions, random: Random): void {
    const { lostShare, falseShare, unreadShare, lateShare } = options;
    const frame = this.frame(fresh.filter(() => random() >= lostShare));
    const [first] = frame;
    if (first === undefined) return;
    if (random() < falseShare) {
      const by = 1 + Math.floor(random() * (random() < 0.5 ? 9 : 1_000_000));
      this.pushed.push([{ ...first, tid: (fresh.at(-1)?.tid ?? 0) + by }]);
    }
    const late = this.#late;
    const isLate = late.length === 0 && random() < lateShare;
    this.#late = isLate ? frame : [];
    if (!isLate && random() < unreadShare) this.pushed.unread(this.world.clock.wallMs());
    else if (!isLate) this.#arrived(frame);
    this.#arrived(late);
  }

  #arrived(frame: readonly SourceTrade[]): void {
    if (frame.length > 0) this.pushed.push(frame);
    for (const one of frame) this.evidence.pushed(one);
  }

  #ask({ answers, answerS }: FeedWorldOptions): void {
    const { nowS, pushed, truth, world } = this;
    if (this.#answer !== undefined && nowS >= this.#answer.atS) {
      pushed.answered(this.frame(this.#answer.trades));
      this.#answer = undefined;
    }
    if (answers === 'none' || !pushed.isLoose || nowS < this.#askableS) return;
    this.#askableS = nowS + ASK_EVERY_S;
    const trades = (answers === 'fresh' ? truth : world.trades).slice(-PAGE_ROWS);
    this.#answer = { trades, atS: nowS + answerS };
  }

  /** Share of the time since the first look that is covered. */
  coveredShare(seconds: number): number {
    const covered = this.world.covered().reduce((sum, [fromS, toS]) => {
      return sum + Math.max(0, Math.min(toS, this.nowS) - Math.max(fromS, this.nowS - seconds));
    }, 0);
    return covered / seconds;
  }
}

const AT = { receivedAtMs: START_MS, exchangeMs: START_MS };

/** Trades by id; a second has two of them, so that ids and times say the same. */
function tradesOf(...ids: readonly number[]): readonly SourceTrade[] {
  const rows = ids.map((id) => ({
    ...{ id, time: START_S - 1000 + id / 2, price: '10', amount: '1', total: '10' },
    type: 'buy' as const,
  }));
  const frame = { kind: 'trades', origin: 'update', market: 'A', rejected: [], ...AT } as const;
  return toPushed({ ...frame, trades: rows.toReversed() }).trades;
}

function pageOf(...ids: readonly number[]): TradePage {
  const times = { sentAtMs: START_MS, dateMs: START_MS, receivedAtMs: START_MS };
  const trades = tradesOf(...ids);
  const ends = { first: trades[0], last: trades.at(-1) };
  const nothing = { rejected: [], unread: [], gaps: [], held: [], isRaised: false };
  return { ...times, ...nothing, trades, ends, rowCount: trades.length };
}

const upTo = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, at) => from + at);
const idsOf = ({ trades }: TradePage) => trades.map(({ tid }) => tid).toReversed();

test('a page is made longer by what was pushed below it, as far as that goes without a break', () => {
  const pushed = new PushedTrades();
  pushed.opened(START_MS);
  for (const id of upTo(10, 40)) pushed.push(tradesOf(id * 2));
  const { page } = pushed.join(pageOf(70, 72, 74, 76, 78, 80, 82));
  assert.deepEqual(idsOf(page), [...upTo(10, 40).map((id) => id * 2), 82]);
  assert.equal(page.ends.last?.tid, 20);
  assert.equal(page.rowCount, 7, 'the rows that the exchange gave');
  assert.equal(pushed.isKept, true);
  pushed.closed();
  assert.equal(pushed.isKept, false);
  pushed.opened(0);
  pushed.push(tradesOf(100, 102));
  const after = pushed.join(pageOf(100, 102, 104)).page;
  assert.deepEqual(
    idsOf(after),
    [100, 102, 104],
    'between two connections anything may have happened',
  );
});

test('a page, and an answer, that reach over a break join what was pushed before and after it', () => {
  for (const by of ['page', 'answer'] as const) {
    const pushed = new PushedTrades();
    pushed.opened(0);
    pushed.push(tradesOf(...upTo(10, 20)));
    pushed.closed();
    pushed.opened(0);
    pushed.push(tradesOf(...upTo(25, 30)));
    if (by === 'page') assert.equal(pushed.join(pageOf(...upTo(19, 27))).page.trades.length, 18);
    // What is newer than all that was pushed will be pushed.
    else pushed.answered(tradesOf(...upTo(19, 32)));
    const { page } = pushed.join(pageOf(...upTo(28, 31)));
    assert.deepEqual(idsOf(page), upTo(10, 31), by);
  }
});

test('a page that holds what was not pushed, or lacks what was, refutes all of it', () => {
  const cases = [
    { pushed: [10, 12, 14, 16, 20, 22], page: [16, 18, 20, 22], unshown: [], unpushed: [18] },
    { pushed: [10, 12, 14, 16, 18, 20, 22], page: [14, 16, 20, 22], unshown: [18], unpushed: [] },
  ];
  for (const one of cases) {
    const pushed = new PushedTrades();
    pushed.opened(0);
    pushed.push(tradesOf(...one.pushed));
    const page = pageOf(...one.page);
    const joined = pushed.join(page);
    assert.equal(joined.page, page);
    assert.deepEqual(
      joined.unshown.map(({ tid }) => tid),
      one.unshown,
    );
    assert.deepEqual(
      joined.unpushed.map(({ tid }) => tid),
      one.unpushed,
    );
    assert.equal(pushed.isKept, false);
    assert.deepEqual(idsOf(pushed.join(pageOf(20, 22)).page), [20, 22], 'nothing is left of it');
    pushed.push(tradesOf(24));
    pushed.push(tradesOf(26));
    assert.deepEqual(idsOf(pushed.join(pageOf(26)).page), [24, 26], 'what is pushed since counts');
  }
});

test('what is pushed does not follow on an answer, but where both have a trade', () => {
  const pushed = new PushedTrades();
  pushed.opened(0);
  pushed.push(tradesOf(...upTo(10, 20)));
  pushed.closed();
  pushed.opened(0);
  // From a cache: it knows nothing of what happened since.
  pushed.answered(tradesOf(...upTo(15, 22)));
  pushed.push(tradesOf(...upTo(30, 34)));
  assert.equal(pushed.isLoose, true);
  const page = pageOf(...upTo(33, 35));
  assert.deepEqual(idsOf(pushed.join(page).page), upTo(30, 35));
  assert.equal(pushed.isLoose, false, 'a page has met it, which reaches as far as an answer');
  pushed.answered(tradesOf(...upTo(22, 31)));
  assert.deepEqual(idsOf(pushed.join(page).page), upTo(10, 35));
});

test('an answer that holds what was not pushed, or lacks what was, refutes all of it', () => {
  for (const answer of [
    [14, 16, 18, 20],
    [10, 12, 20],
  ]) {
    const pushed = new PushedTrades();
    pushed.opened(0);
    pushed.push(tradesOf(10, 12, 16, 18));
    pushed.push(tradesOf(20, 22));
    pushed.answered(tradesOf(...answer));
    pushed.push(tradesOf(24));
    const page = pageOf(22, 24, 26);
    assert.ok(pushed.join(page).unshown.length > 0, 'it is told of with the next page');
    pushed.push(tradesOf(26));
    assert.deepEqual(idsOf(pushed.join(pageOf(26, 28)).page), [24, 26, 28]);
  }
});

test('nothing reaches over what could not be read, nor does the frame behind it begin anything', () => {
  const pushed = new PushedTrades();
  pushed.unread(0);
  pushed.push(tradesOf(5));
  assert.equal(pushed.kept, 0, 'there is no connection');
  pushed.opened(0);
  pushed.push(tradesOf(...upTo(10, 20)));
  // In place of 25 to 28; the trades before them come late.
  pushed.unread(0);
  pushed.push(tradesOf(...upTo(21, 24)));
  pushed.push(tradesOf(...upTo(29, 31)));
  pushed.push(tradesOf(32));
  assert.deepEqual(idsOf(pushed.join(pageOf(32, 33)).page), upTo(29, 33));
  pushed.unread(0);
  // Here it is those behind it that come late.
  pushed.push(tradesOf(...upTo(40, 42)));
  pushed.push(tradesOf(...upTo(37, 39)));
  pushed.push(tradesOf(...upTo(43, 45)));
  assert.deepEqual(idsOf(pushed.join(pageOf(45, 46)).page), upTo(43, 46));
});

test('trades that a page shows and others are pushed in place of refute what was pushed', () => {
  const pushed = new PushedTrades();
  pushed.opened(0);
  pushed.push(tradesOf(10, 12));
  assert.deepEqual(pushed.join(pageOf(10, 12, 14, 16)).unpushed, [], 'they may still come');
  pushed.push(tradesOf(14));
  pushed.push(tradesOf(...upTo(20, 30)));
  const { page, unpushed } = pushed.join(pageOf(29, 30));
  assert.deepEqual(
    unpushed.map(({ tid }) => tid),
    [16],
  );
  assert.deepEqual(idsOf(page), [29, 30]);
  pushed.push(tradesOf(31));
  assert.deepEqual(pushed.join(pageOf(31, 32)).unpushed, [], 'told of once');
});

test('a row whose id and time are at odds with later ones ends the run that has both', () => {
  for (const [falseId, atId] of [
    [9000, 26],
    [3, 30],
  ] as const) {
    const pushed = new PushedTrades();
    pushed.opened(0);
    pushed.push(tradesOf(...upTo(10, 25)));
    const [row] = tradesOf(atId);
    const odd = { ...(row as SourceTrade), tid: falseId };
    pushed.push([odd]);
    pushed.push(tradesOf(...upTo(32, 40)));
    const joined = pushed.join(pageOf(...upTo(38, 40)));
    assert.deepEqual(idsOf(joined.page), upTo(38, 40), 'not by the page that tells of it');
    assert.equal(joined.unshown.length, 1);
    const { page, unshown } = pushed.join(pageOf(...upTo(38, 40)));
    assert.deepEqual(unshown, []);
    const since = falseId === 3 ? upTo(32, 40) : upTo(33, 40);
    assert.deepEqual(idsOf(page), since, 'what was pushed since counts');
    const deeper = pushed.join(pageOf(...upTo(20, 40)));
    assert.deepEqual(deeper.unshown, []);
    assert.deepEqual(idsOf(deeper.page), upTo(20, 40), 'nor what was pushed before it');
  }
});

test('the feed is trusted where a page shows old trades that were pushed, and not where one was not', () => {
  const missed: number[] = [];
  const pushed = new PushedTrades((tradedMs) => missed.push(tradedMs));
  pushed.opened(0);
  pushed.push(tradesOf(...upTo(10, 20)));
  pushed.join(pageOf(...upTo(15, 20)));
  assert.equal(pushed.isKept, true);
  assert.deepEqual(missed, []);
  pushed.join(pageOf(...upTo(15, 22)));
  assert.equal(pushed.isKept, false);
  assert.deepEqual(missed, [(START_S - 1000 + 11) * 1000]);
});

test('a trade that is pushed twice is kept once', () => {
  const pushed = new PushedTrades();
  pushed.opened(0);
  pushed.push(tradesOf(...upTo(10, 20)));
  pushed.push(tradesOf(20, 21));
  pushed.push(tradesOf(21));
  assert.equal(pushed.kept, 12);
});

test('of one run the newest twenty thousand trades are kept', () => {
  const pushed = new PushedTrades();
  pushed.opened(0);
  for (let frame = 0; frame < 21; frame += 1) {
    pushed.push(tradesOf(...upTo(frame * 1000, frame * 1000 + 999)));
  }
  assert.equal(pushed.kept, 20_000);
});

test('of what an answer contradicts a hundred rows are reported at most', () => {
  const pushed = new PushedTrades();
  pushed.opened(0);
  pushed.push(tradesOf(...upTo(1, 400)));
  pushed.answered(tradesOf(1, 400));
  assert.equal(pushed.join(pageOf(400, 401)).unshown.length, 100);
});

test('a row is at odds with later ones across a break, in one frame, and in an answer', () => {
  const far = { ...(tradesOf(26)[0] as SourceTrade), tid: 9000 };
  for (const by of ['push', 'frame', 'answer'] as const) {
    const pushed = new PushedTrades();
    pushed.opened(0);
    pushed.push(tradesOf(...upTo(10, 25)));
    if (by === 'frame') pushed.push([...tradesOf(...upTo(33, 36)), far]);
    else {
      pushed.push([far]);
      pushed.closed();
      pushed.opened(0);
      if (by === 'answer') pushed.answered([...tradesOf(...upTo(20, 36)), far]);
      else pushed.push(tradesOf(...upTo(33, 36)));
    }
    pushed.push(tradesOf(...upTo(37, 40)));
    assert.deepEqual(pushed.join(pageOf(...upTo(38, 40))).unshown, [far], by);
    const { page } = pushed.join(pageOf(...upTo(38, 40)));
    assert.equal(idsOf(page)[0], by === 'answer' ? 37 : 34, by);
  }
});

test('trades that history shows for seconds and that were not pushed end the trust in the feed', () => {
  const pushed = new PushedTrades();
  pushed.opened(START_MS - 500_000);
  pushed.push(tradesOf(1900));
  pushed.join(pageOf(1898, 1900));
  assert.equal(pushed.isKept, true);
  // The newest of them is 10 s old.
  pushed.join(pageOf(1900, 1980));
  assert.equal(pushed.isKept, false);
});

test('an answer without trades, or after its connection, is no part of what is pushed', () => {
  const pushed = new PushedTrades();
  pushed.answered(tradesOf(...upTo(10, 20)));
  assert.equal(pushed.kept, 0);
  pushed.opened(0);
  pushed.answered([]);
  pushed.push(tradesOf(...upTo(20, 30)));
  pushed.closed();
  pushed.opened(0);
  for (let answer = 0; answer < 5; answer += 1) pushed.answered([]);
  assert.deepEqual(idsOf(pushed.join(pageOf(...upTo(28, 31))).page), upTo(20, 31));
});

test('a page of which something is not known is neither made longer nor held against what was pushed', () => {
  for (const page of [
    { ...pageOf(20, 22), unread: [{ newerS: undefined, olderS: START_S - 1000 }] },
    // An offset of 1 was sent, and it counts trades.
    withoutNewest({ ...pageOf(20, 22), isRaised: true }),
  ]) {
    const pushed = new PushedTrades();
    pushed.opened(0);
    pushed.push(tradesOf(...upTo(10, 22)));
    assert.deepEqual(pushed.join(page), { page, unshown: [], unpushed: [] });
    // The next one is, also where an offset of 1 was sent, which is the newest page where it is an id.
    const next = { ...pageOf(21, 22), isRaised: true };
    assert.deepEqual(idsOf(pushed.join(next).page), upTo(10, 22));
  }
});

test('a trade that a page has shown and the next frames leave out is missed, though it is stored', () => {
  const pushed = new PushedTrades();
  pushed.opened(0);
  pushed.push(tradesOf(...upTo(10, 30)));
  pushed.join(pageOf(...upTo(28, 31)));
  pushed.push(tradesOf(32));
  const { unpushed } = pushed.join(pageOf(...upTo(29, 33)));
  assert.deepEqual(
    unpushed.map(({ tid }) => tid),
    [31],
  );
});

test('a row of a page that an answer refutes is reported once, and not missed among later ones', () => {
  const pushed = new PushedTrades();
  pushed.opened(0);
  pushed.push(tradesOf(...upTo(30, 40)));
  pushed.join(pageOf(22, 25, ...upTo(30, 40)));
  pushed.answered(tradesOf(22, ...upTo(30, 40)));
  pushed.push(tradesOf(...upTo(50, 60)));
  const page = pageOf(22, ...upTo(30, 40), ...upTo(50, 60));
  const odd = [1, 2, 3].map(() => {
    const { unshown, unpushed } = pushed.join(page);
    return [...unshown, ...unpushed].map(({ tid }) => tid);
  });
  assert.deepEqual(odd, [[25], [], []]);
});

test('where ids count the trades of a market, one that is left out ends a run', () => {
  for (const [rows, lowest] of [
    [50, 157],
    [49, 100],
  ] as const) {
    const pushed = new PushedTrades();
    pushed.opened(0);
    pushed.push(tradesOf(...upTo(100, 150)));
    // So many rows of a page that follow each other by one show that they do.
    pushed.join(pageOf(...upTo(151 - rows, 150)));
    pushed.push(tradesOf(...upTo(151, 155), ...upTo(157, 160)));
    assert.equal(idsOf(pushed.join(pageOf(159, 160)).page)[0], lowest, `${rows} rows`);
    // A page that leaves one out shows that they do not.
    pushed.push(tradesOf(162));
    pushed.join(pageOf(160, 162));
    pushed.push(tradesOf(164));
    assert.equal(idsOf(pushed.join(pageOf(164, 165)).page)[0], lowest);
  }
});

test('a trade of the first two seconds of a connection, or of the last five, is not missed', () => {
  const atMs = (id: number) => START_MS - 1_000_000 + id * 500;
  for (const [openedMs, sentAtMs, isKept] of [
    [atMs(100) - 2000, atMs(100) + 5000, false],
    [atMs(100) - 1999, atMs(100) + 5000, true],
    [atMs(100) - 2000, atMs(100) + 4999, true],
  ] as const) {
    const missed: number[] = [];
    const pushed = new PushedTrades((tradedMs) => missed.push(tradedMs));
    pushed.opened(openedMs);
    pushed.join({ ...pageOf(90, 100), sentAtMs, dateMs: sentAtMs });
    assert.equal(pushed.isKept, isKept);
    assert.deepEqual(missed, isKept ? [] : [atMs(100)]);
  }
});

test('a hundred rows of each five seconds, and a connection cut each minute: whole, at a lower pace', async () => {
  const feed = new FeedWorld();
  await feed.live(WELL, 7);
  feed.world.assertHonest();
  assert.ok(feed.looks < 70, `${feed.looks} looks in ${WELL.seconds} s`);
  // What is newer than the last page is not claimed yet.
  const share = feed.coveredShare(WELL.seconds - 40);
  assert.ok(share > 0.95, `${share}`);
  const gaps = feed.world.covered().slice(0, -1);
  assert.deepEqual(gaps, [], JSON.stringify(feed.world.covered()));
});

test('ten minutes without a page of history, at twenty-five trades a second: whole all the same', async () => {
  const feed = new FeedWorld();
  await feed.live({ ...WELL, seconds: 720, unansweredS: [60, 660] }, 7);
  feed.world.assertHonest();
  assert.equal(feed.world.covered().length, 1, JSON.stringify(feed.world.covered()));
});

test('without the feed, and without answers after a break, most of that is lost and listed', async () => {
  const alone = new FeedWorld();
  await alone.live({ ...WELL, cutEveryS: 0, awayS: 10_000, answers: 'none' }, 7);
  alone.world.assertHonest();
  const shareAlone = alone.coveredShare(WELL.seconds - 40);
  const unanswered = new FeedWorld();
  await unanswered.live({ ...WELL, answers: 'none' }, 7);
  unanswered.world.assertHonest();
  const share = unanswered.coveredShare(WELL.seconds - 40);
  assert.ok(shareAlone < 0.9 && share > shareAlone, `${shareAlone} ${share}`);
});

test('of what lies below all that is covered, so many rows are kept as tie a page to it', () => {
  const pushed = new PushedTrades();
  pushed.opened(0);
  pushed.push(tradesOf(...upTo(100, 300)));
  const [newest] = tradesOf(250);
  assert.ok(newest !== undefined);
  pushed.settled(newest);
  const { page } = pushed.join(pageOf(...upTo(290, 300)));
  assert.deepEqual(idsOf(page), upTo(201, 300));
  pushed.settled(newest);
  assert.deepEqual(idsOf(pushed.join(pageOf(...upTo(290, 300))).page), upTo(201, 300));
});

test('a page grows the run that it meets, and no other', () => {
  const pushed = new PushedTrades();
  for (const ids of [upTo(10, 20), upTo(100, 120), upTo(200, 210), upTo(300, 310)]) {
    pushed.opened(0);
    pushed.push(tradesOf(...ids));
    pushed.closed();
  }
  pushed.opened(0);
  pushed.join(pageOf(...upTo(118, 125)));
  assert.equal(pushed.kept, 11 + 26 + 11 + 11);
});

test('what is pushed last stays as the tie to the next page, also where all of it is covered', () => {
  const pushed = new PushedTrades();
  pushed.opened(0);
  pushed.push(tradesOf(...upTo(10, 20)));
  pushed.settled(tradesOf(20)[0] as SourceTrade);
  assert.equal(pushed.kept, 11);
});

test('of what a page shows from before a contradiction nothing is missed any more', () => {
  const pushed = new PushedTrades();
  pushed.opened(0);
  pushed.push(tradesOf(...upTo(10, 20)));
  assert.ok(pushed.join(pageOf(10, 20)).unshown.length > 0);
  pushed.join(pageOf(...upTo(10, 20)));
  assert.equal(pushed.isKept, true);
});

test('a run that ends above all that is covered is kept behind a newer one, one that ends below is not', () => {
  const pushed = new PushedTrades();
  for (const ids of [upTo(10, 20), upTo(100, 120), upTo(200, 210), upTo(300, 310)]) {
    pushed.opened(0);
    pushed.push(tradesOf(...ids));
    pushed.closed();
  }
  const [newest] = tradesOf(110);
  assert.ok(newest !== undefined);
  pushed.settled(newest);
  assert.equal(pushed.kept, 21 + 11 + 11);
  const { page } = pushed.join(pageOf(...upTo(208, 302)));
  assert.deepEqual(idsOf(page), upTo(200, 302), 'joined to that before it');
  assert.deepEqual(idsOf(pushed.join(pageOf(...upTo(305, 311))).page), upTo(200, 311));
});

test('a feed that pushes what never was is reported, one that is true is not', async () => {
  for (const falseShare of [0, 0.05]) {
    const feed = new FeedWorld();
    await feed.live({ ...WELL, seconds: 120, falseShare }, 7);
    assert.equal(feed.world.record.refuted.length > 0, falseShare > 0);
  }
});

test('answers from a cache and frames that cannot be read cost coverage, and make no false claim', async () => {
  const worlds: Readonly<Record<string, Partial<FeedWorldOptions>>> = {
    'answers from the cache of the pages': { answers: 'cached' },
    'the same, and three seconds without a connection': { answers: 'cached', awayS: 3 },
    'answers that come late': { answerS: 3 },
    'frames that cannot be read': { unreadShare: 0.01 },
    'the same, while answers come late': { unreadShare: 0.03, answerS: 1.5 },
    'the same, among frames out of order': { unreadShare: 0.03, lateShare: 0.3 },
    'nothing pushed for a while': { cutEveryS: 300, silentS: [100, 150] },
  };
  for (const [name, own] of Object.entries(worlds)) {
    for (const seed of [1, 2, 3]) {
      const feed = new FeedWorld();
      await feed.live({ ...WELL, seconds: 300, ...own }, seed);
      feed.world.assertHonest();
      const share = feed.coveredShare(260);
      assert.ok(share > 0.75, `${name}, seed ${seed}: ${share}`);
    }
  }
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
        answers: random() < 0.4 ? 'none' : random() < 0.5 ? 'cached' : 'fresh',
        answerS: random() < 0.5 ? 0 : random() * 3,
        stepMax: isLossy ? 1 : 3,
        lostShare: isLossy ? random() * 0.05 : 0,
        falseShare: random() < 0.5 ? 0 : random() * 0.02,
        unreadShare: random() < 0.5 ? 0 : random() * 0.05,
        lateShare: random() < 0.5 ? 0 : random() * 0.1,
        ...(random() < 0.3 && { silentS: [60, 60 + 40 + Math.floor(random() * 60)] as const }),
      },
      seed,
    );
    feed.world.assertHonest();
  });
});
