import assert from 'node:assert/strict';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { OrderBook, Side as TheirSide } from 'nodejs-order-book';
import { systemClock } from '../../src/kernel/clock.js';
import { Rejection } from '../../src/sandbox/errors.js';
import { placeText } from '../unit/sandbox/engine/invariants.js';
import { comparisonsAStep } from './engine-steps.js';
import {
  apply,
  drawStream,
  MARKET,
  newEngine,
  OPERATIONS,
  type Place,
  type Stream,
} from './engine-stream.js';
import { type BenchReport, median, tableOf } from './report.js';

export const about = 'matching engine against the npm package nodejs-order-book, orders a second';

/*
 * Both do the same seeded stream of new orders and cancels on a book that keeps its depth. Every
 * price is a whole number of ticks and every amount a whole number of units, so that the package,
 * which calculates in floats, is right too; both must end with the same number of fills and open
 * orders. Ours is exact beyond 2^53, checks and moves funds of two currencies, charges fees and
 * reports every trade; the package does none of that.
 */

const ROUNDS = 5;
const SEED = 11;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/**
 * Settles the heap before the clock starts. Otherwise the garbage of what was done before, which
 * grows with the depth, is collected on the time of the orders.
 */
function startTiming(): number {
  collectGarbage();
  return systemClock.monotonicMs();
}

interface Outcome {
  readonly ms: number;
  readonly fills: number;
  readonly open: number;
}

function runOurs({ resting, operations }: Stream): Outcome {
  let fills = 0;
  const engine = newEngine(() => {
    fills += 1;
  });
  for (const order of resting) apply(engine, order);
  fills = 0;
  const startMs = startTiming();
  for (const operation of operations) apply(engine, operation);
  const ms = systemClock.monotonicMs() - startMs;
  const open = engine.book(MARKET, 'buy', 0, 0).total + engine.book(MARKET, 'sell', 0, 0).total;
  return { ms, fills, open };
}

/** The same engine behind decimal texts, as orders come in over HTTP. */
function runOursAsText({ resting, operations }: Stream): Outcome {
  let fills = 0;
  const engine = newEngine(() => {
    fills += 1;
  });
  for (const order of resting) apply(engine, order);
  const texts = operations.map((operation) => {
    if (operation.kind === 'cancel') return operation;
    const { account, side, ticks, units } = operation;
    const price = (ticks / 100).toFixed(2);
    return { account, side, market: MARKET, price, amount: (units / 1e6).toFixed(6), timeUs: 0 };
  });
  fills = 0;
  const startMs = startTiming();
  for (const operation of texts) {
    if ('kind' in operation) engine.cancel(operation.id);
    else assert.ok(!(placeText(engine, operation) instanceof Rejection));
  }
  const ms = systemClock.monotonicMs() - startMs;
  const open = engine.book(MARKET, 'buy', 0, 0).total + engine.book(MARKET, 'sell', 0, 0).total;
  return { ms, fills, open };
}

function runTheirs({ resting, operations }: Stream): Outcome {
  const book = new OrderBook();
  let fills = 0;
  let open = 0;
  const put = ({ idText, side, ticks, units }: Place) => {
    const done = book.limit({
      id: idText,
      side: side === 'buy' ? TheirSide.BUY : TheirSide.SELL,
      size: units,
      price: ticks,
    });
    assert.equal(done.err, null);
    // `done` lists the makers that are used up and, at its end, the order itself if it is.
    const isUsedUp = done.quantityLeft === 0;
    const makersDone = done.done.length - (isUsedUp ? 1 : 0);
    const isMakerPartial = done.partial !== null && done.partial.id !== idText;
    fills += makersDone + (isMakerPartial ? 1 : 0);
    open += (isUsedUp ? 0 : 1) - makersDone;
  };
  for (const order of resting) put(order);
  fills = 0;
  const startMs = startTiming();
  for (const operation of operations) {
    if (operation.kind === 'place') put(operation);
    else if (book.cancel(operation.idText) !== undefined) open -= 1;
  }
  const ms = systemClock.monotonicMs() - startMs;
  return { ms, fills, open };
}

/** Open orders, and how many of them, next to the middle, come and go. */
const BOOKS = {
  depth1k: { depth: 1_000, zone: 1_000 },
  depth100k: { depth: 100_000, zone: 100_000 },
  depth100kNearTouch: { depth: 100_000, zone: 1_000 },
} as const;
type BookName = keyof typeof BOOKS;
const BOOK_NAMES = Object.keys(BOOKS) as BookName[];

type Who = 'ours' | 'asText' | 'theirs';
/** Milliseconds that each took for the stream of a book, by round. */
type Times = Record<Who, number[]>;

/** One round on one book. @returns how many fills there were */
function measureOnce(stream: Stream, times: Times): number {
  const theirs = runTheirs(stream);
  const ours = runOurs(stream);
  const asText = runOursAsText(stream);
  const seen = (outcome: Outcome) => [outcome.fills, outcome.open];
  assert.deepEqual(seen(ours), seen(theirs), 'both did the same work');
  assert.deepEqual(seen(asText), seen(ours));
  times.ours.push(ours.ms);
  times.asText.push(asText.ms);
  times.theirs.push(theirs.ms);
  return ours.fills;
}

const round2 = (value: number) => Math.round(value * 100) / 100;

/** How many times longer `book` takes than the small one: each round by itself, then the middle. */
function growthOf(times: Record<BookName, Times>, who: Who, book: BookName): number {
  const small = times.depth1k[who];
  return round2(median(times[book][who].map((ms, round) => ms / (small[round] ?? Number.NaN))));
}

/** @param options a number of rounds (default 5) */
export async function run([text = `${ROUNDS}`]: readonly string[]): Promise<BenchReport> {
  const rounds = Number(text);
  const byBook = <T>(of: (name: BookName) => T) =>
    Object.fromEntries(BOOK_NAMES.map((name) => [name, of(name)])) as Record<BookName, T>;
  const told = (what: string) => process.stderr.write(`engine: ${what}\n`);
  told(
    `warming up on ${BOOK_NAMES.length} books, then ${rounds} rounds; minutes on a busy machine`,
  );
  const streams = byBook((name) => drawStream(BOOKS[name].depth, BOOKS[name].zone, SEED));
  const times = byBook((): Times => ({ ours: [], asText: [], theirs: [] }));
  const warmingUp = byBook((): Times => ({ ours: [], asText: [], theirs: [] }));
  const fills = byBook((name) => {
    told(`warming up: ${name}`);
    return measureOnce(streams[name], warmingUp[name]);
  });
  // The books take turns, so that a busy moment of the machine does not fall on one of them alone.
  for (let round = 0; round < rounds; round += 1) {
    told(`round ${round + 1} of ${rounds}`);
    for (const name of BOOK_NAMES) measureOnce(streams[name], times[name]);
  }
  told('counting comparisons');
  const measured = byBook((name) => {
    const perS = (who: Who) => Math.round(OPERATIONS / (median(times[name][who]) / 1000));
    const comparisons = round2(comparisonsAStep(streams[name]));
    const speeds = { ours: perS('ours'), asText: perS('asText'), theirs: perS('theirs') };
    return { ...speeds, fills: fills[name], comparisons };
  });
  const ratio = byBook((name) =>
    round2(median(times[name].theirs.map((ms, round) => ms / (times[name].ours[round] ?? ms)))),
  );
  const growth = {
    log: round2(Math.log(100_000) / Math.log(1_000)),
    nearTouch: {
      comparisons: round2(measured.depth100kNearTouch.comparisons / measured.depth1k.comparisons),
      time: growthOf(times, 'ours', 'depth100kNearTouch'),
      packageTime: growthOf(times, 'theirs', 'depth100kNearTouch'),
    },
    everywhere: {
      comparisons: round2(measured.depth100k.comparisons / measured.depth1k.comparisons),
      time: growthOf(times, 'ours', 'depth100k'),
      packageTime: growthOf(times, 'theirs', 'depth100k'),
    },
  };
  return {
    table: `${speedTable(measured, ratio)}\n\n${growthTable(growth)}`,
    figures: { ratio, growth, ordersPerS: measured, seed: SEED, rounds },
  };
}

interface Speeds {
  readonly ours: number;
  readonly asText: number;
  readonly theirs: number;
  readonly fills: number;
  readonly comparisons: number;
}

function speedTable(measured: Record<BookName, Speeds>, ratio: Record<BookName, number>): string {
  const head = ['resting', 'ours/s', 'from text/s', 'package/s', 'ratio', 'fills', 'comparisons'];
  const rows = BOOK_NAMES.map((name) => {
    const { ours, asText, theirs, fills, comparisons } = measured[name];
    const share = round2(fills / OPERATIONS);
    return [name, ...[ours, asText, theirs, ratio[name], share, comparisons].map(String)];
  });
  return `${tableOf([head, ...rows])}\n(fills and comparisons of prices: for each order or cancel)`;
}

type Growth = Readonly<Record<'comparisons' | 'time' | 'packageTime', number>>;

function growthTable(growth: {
  readonly log: number;
  readonly nearTouch: Growth;
  readonly everywhere: Growth;
}): string {
  const head = ['from 1k to 100k', 'comparisons', 'time', 'package time', 'log n'];
  const row = (name: string, { comparisons, time, packageTime }: Growth) => [
    name,
    ...[comparisons, time, packageTime, growth.log].map(String),
  ];
  const rows = [
    row('activity next to the touch', growth.nearTouch),
    row('spread over the whole book', growth.everywhere),
  ];
  return (
    `${tableOf([head, ...rows])}\n` +
    'Comparisons are the same on every machine; times contain its caches and garbage collection.'
  );
}
