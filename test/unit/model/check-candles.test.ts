import assert from 'node:assert/strict';
import test from 'node:test';
import type { Span } from '../../../src/kernel/span.js';
import { CandleGrid } from '../../../src/model/candle-grid.js';
import {
  absentOf,
  believedOf,
  type CandleKnowledge,
  type EmptyEnd,
  judge,
  learnReach,
  type Reach,
  type SeenCandles,
  type TradedSlots,
} from '../../../src/model/check-candles.js';

/** What a response with candles proves. Times are slots, of a minute each. */

const STEP_MS = 60_000;
type Slots = readonly [from: number, to: number];
const spanOf = ([from, to]: Slots): Span => ({ fromMs: from * STEP_MS, toMs: to * STEP_MS });
const spansOf = (slots: readonly Slots[] = []) => slots.map(spanOf);
const slotsOf = (spans: readonly Span[]) =>
  spans.map(({ fromMs, toMs }) => [fromMs / STEP_MS, toMs / STEP_MS]);
const range = (from: number, to: number, but: readonly number[] = []) =>
  Array.from({ length: to - from }, (_, n) => from + n).filter((slot) => !but.includes(slot));

interface Case {
  /** Slots that were asked for, all of them final. */
  readonly asked: Slots;
  readonly held: readonly number[];
  readonly refused?: readonly (number | undefined)[];
  readonly unknown?: readonly Slots[];
  /** Age of the oldest candle that was shown lately; left out: none was. */
  readonly reach?: number;
  /** Start of responses. */
  readonly since?: number;
  readonly covered?: readonly Slots[];
  readonly paused?: readonly Slots[];
  readonly trades?: readonly Slots[];
  readonly absentOnce?: readonly Slots[];
  readonly lackedTwice?: readonly Slots[];
  readonly traded?: readonly number[];
  readonly left?: readonly number[];
  readonly end?: EmptyEnd;
  readonly proven: readonly Slots[];
  /** Reason and slots. */
  readonly findings?: ReadonlyArray<readonly [string, ...Slots]>;
  /** Questions that follow. */
  readonly ask?: readonly Slots[];
}

function answerOf({ asked, held, refused = [], unknown }: Case): SeenCandles {
  const closed = spanOf(asked);
  const readable = refused.filter((slot) => slot !== undefined);
  return {
    ...{ seenMs: closed.toMs, closed, finalToMs: closed.toMs, unknown: spansOf(unknown) },
    rows: held.map((slot) => ({ openAtS: slot * 60 })),
    refusedMs: refused.map((slot) => slot && slot * STEP_MS),
    isReadable: readable.length === refused.length,
    heldMs: [...held, ...readable].map((slot) => Math.floor(slot) * STEP_MS),
  };
}

function decide(one: Case) {
  const answer = answerOf(one);
  const nowMs = answer.seenMs;
  const twice = spansOf(one.lackedTwice);
  const reach = {
    ...{ ageMs: (one.reach ?? 0) * STEP_MS, shownAtMs: nowMs, answeredAtMs: nowMs },
    sinceMs: (one.since ?? one.asked[1]) * STEP_MS,
  };
  const k: CandleKnowledge = {
    ...{ grid: new CandleGrid(STEP_MS, undefined), nowMs, reach },
    ...{ beginsMs: 0, pageMs: 1000 * STEP_MS },
    ...{ covered: spansOf(one.covered), paused: spansOf(one.paused) },
    ...{ tradedSlots: spansOf(one.trades), absent: [spansOf(one.absentOnce)] },
    lacked: [twice, twice],
  };
  const said = absentOf(answer, k, one.end);
  const among = (slots: readonly number[] = []) =>
    slots
      .map((slot) => slot * STEP_MS)
      .filter((ms) => said.absent.some(({ fromMs, toMs }) => fromMs <= ms && ms < toMs));
  const stored: TradedSlots = { traded: among(one.traded), left: among(one.left) };
  const { proven, findings, next } = judge(answer, k, said, stored);
  const found = findings.flatMap(({ spans, reason, isLost }) =>
    slotsOf(spans).map((slots) => [isLost ? `${reason}, lost` : reason, ...slots]),
  );
  const ask = said.ends.map(({ asked }) => asked);
  return { proven: slotsOf(proven), findings: found, ask: slotsOf(ask), next };
}

const CASES: Readonly<Record<string, Case>> = {
  'a whole response covers its slots': { asked: [0, 10], held: range(0, 10), proven: [[0, 10]] },
  'an absent candle takes two responses': {
    ...{
      asked: [0, 10],
      held: range(0, 10, [4, 5]),
      proven: [
        [0, 4],
        [6, 10],
      ],
    },
  },
  'the second one proves what both lack': {
    ...{ asked: [0, 10], held: range(0, 10, [4, 5]), absentOnce: [[5, 6]] },
    proven: [
      [0, 4],
      [5, 10],
    ],
  },
  'of covered slots no second one is needed': {
    ...{ asked: [0, 10], held: range(0, 10, [4]), covered: [[4, 5]], proven: [[0, 10]] },
  },
  'a long end is asked for again with its neighbour': {
    ...{ asked: [0, 20], held: range(0, 10), reach: 20, proven: [[0, 10]], ask: [[9, 20]] },
  },
  'a long end that another response left out is not': {
    ...{ asked: [0, 20], held: range(0, 10), reach: 20, absentOnce: [[10, 20]] },
    proven: [[0, 20]],
  },
  'a short end is not': {
    ...{ asked: [0, 20], held: range(0, 15), reach: 20, proven: [[0, 15]] },
  },
  'a response without a candle is asked for with other bounds': {
    ...{ asked: [0, 20], held: [], reach: 30, proven: [], ask: [[0, 19]] },
  },
  'an end below which no candle was shown is asked for with what lies below': {
    ...{ asked: [90, 100], held: range(92, 100), proven: [[92, 100]], ask: [[0, 93]] },
  },
  'a second response that shows the neighbour alone proves the end': {
    asked: [9, 20],
    held: [9],
    end: { span: spanOf([10, 20]), question: spanOf([9, 20]), asked: spanOf([9, 20]) },
    proven: [[10, 20]],
  },
  'one that is about less proves less': {
    asked: [9, 20],
    held: [9],
    unknown: [[15, 20]],
    end: { span: spanOf([10, 20]), question: spanOf([9, 20]), asked: spanOf([9, 20]) },
    proven: [[10, 15]],
    findings: [['walk stalled', 15, 20]],
  },
  'one that misses the neighbour proves nothing': {
    asked: [9, 20],
    held: [],
    end: { span: spanOf([10, 20]), question: spanOf([9, 20]), asked: spanOf([9, 20]) },
    proven: [],
  },
  'below the oldest candle nothing counts': {
    ...{ asked: [0, 10], held: range(6, 10), absentOnce: [[0, 6]], paused: [[0, 6]] },
    ...{ proven: [[6, 10]], findings: [['beyond history, lost', 0, 6]] },
  },
  'unless trades cover it': {
    ...{ asked: [0, 10], held: range(6, 10), absentOnce: [[0, 6]], paused: [[0, 6]] },
    ...{ trades: [[2, 10]], proven: [[2, 10]], findings: [['beyond history, lost', 0, 2]] },
  },
  'covered trades that are in files show nothing': {
    ...{ asked: [0, 10], held: range(6, 10), absentOnce: [[0, 6]], paused: [[0, 6]] },
    ...{ trades: [[0, 10]], left: [0, 1, 2] },
    ...{ proven: [[3, 10]], findings: [['beyond history, lost', 0, 3]] },
  },
  'within history a slot is quiet though its trades are in files': {
    ...{ asked: [0, 10], held: range(0, 10, [4]), absentOnce: [[4, 5]], left: [4] },
    proven: [[0, 10]],
  },
  'what closed while the exchange answered is quiet without an older candle': {
    ...{ asked: [0, 10], held: [], since: 5, absentOnce: [[0, 10]], paused: [[0, 5]] },
    ...{ proven: [[5, 10]], findings: [['beyond history, lost', 0, 5]] },
  },
  'a slot with trades is not quiet, however many responses lack it': {
    ...{ asked: [0, 10], held: range(0, 10, [4]), absentOnce: [[4, 5]], traded: [4] },
    ...{
      proven: [
        [0, 4],
        [5, 10],
      ],
      findings: [['walk stalled', 4, 5]],
    },
  },
  'the third response gives it up': {
    ...{ asked: [0, 10], held: range(0, 10, [4]), absentOnce: [[4, 5]], traded: [4] },
    ...{
      lackedTwice: [[4, 5]],
      proven: [
        [0, 4],
        [5, 10],
      ],
    },
    findings: [['walk stalled, lost', 4, 5]],
  },
  'a response during its pause does not count': {
    ...{ asked: [0, 10], held: range(0, 10, [4]), absentOnce: [[4, 5]], traded: [4] },
    ...{
      paused: [[4, 5]],
      proven: [
        [0, 4],
        [5, 10],
      ],
    },
  },
  'a slot with trades below the oldest candle is beyond history': {
    ...{ asked: [0, 10], held: range(6, 10), absentOnce: [[0, 6]], paused: [[0, 6]] },
    ...{
      trades: [[0, 10]],
      traded: [4],
      proven: [
        [0, 4],
        [5, 10],
      ],
    },
    findings: [['beyond history, lost', 4, 5]],
  },
  'a refused candle leaves its slot open': {
    ...{ asked: [0, 10], held: range(0, 10, [4]), refused: [4] },
    ...{
      proven: [
        [0, 4],
        [5, 10],
      ],
      findings: [['refused rows', 4, 5]],
    },
  },
  'one beside the grid leaves both slots open that it lies across': {
    ...{ asked: [0, 10], held: range(0, 10, [4]), refused: [4.5] },
    ...{
      proven: [
        [0, 4],
        [6, 10],
      ],
      findings: [['refused rows', 4, 6]],
    },
  },
  'one of no readable time leaves all of it open': {
    ...{ asked: [0, 10], held: range(5, 10), refused: [undefined], traded: [4] },
    ...{ absentOnce: [[0, 5]], proven: [], findings: [['refused rows', 0, 10]] },
  },
  'of what a response is not about nothing is believed': {
    ...{
      asked: [0, 10],
      held: range(2, 8),
      unknown: [
        [0, 2],
        [8, 10],
      ],
      proven: [[2, 8]],
    },
    findings: [
      ['walk stalled', 0, 2],
      ['walk stalled', 8, 10],
    ],
  },
};

for (const [name, one] of Object.entries(CASES)) {
  test(name, () => {
    const { next: _, ...decided } = decide(one);
    const { proven, findings = [], ask = [] } = one;
    assert.deepEqual(decided, { proven, findings, ask });
  });
}

test('the count of an absent candle begins again when it is believed, or came', () => {
  const first = decide({ asked: [0, 10], held: range(0, 10, [4, 6]), proven: [] });
  assert.deepEqual(first.next.absent.map(slotsOf), [
    [
      [4, 5],
      [6, 7],
    ],
  ]);
  const second = decide({
    ...{
      asked: [0, 10],
      held: range(0, 10, [4]),
      absentOnce: [
        [4, 5],
        [6, 7],
      ],
      proven: [],
    },
  });
  assert.deepEqual(second.next.absent.map(slotsOf), [[]]);
});

test('a candle that came ends the count of its slot, and an unreadable response no count', () => {
  const one = { asked: [0, 10], held: range(0, 10), lackedTwice: [[4, 5]], proven: [] } as const;
  assert.deepEqual(decide(one).next.lacked.map(slotsOf), [[], []]);
  const unreadable = decide({ ...one, refused: [undefined] });
  assert.deepEqual(unreadable.next.lacked.map(slotsOf), [[[4, 5]], [[4, 5]]]);
});

test('how far back the exchange has candles is learned, and forgotten after a time', () => {
  const begun: Reach = { ageMs: 0, shownAtMs: -Infinity, sinceMs: 0, answeredAtMs: 0 };
  const learn = (reach: Reach, nowSlot: number, ageSlots?: number) => {
    const seenMs = nowSlot * STEP_MS;
    const rows = ageSlots === undefined ? [] : [{ openAtS: (nowSlot - ageSlots) * 60 }];
    const empty = answerOf({ asked: [0, nowSlot], held: [], proven: [] });
    return learnReach(reach, { ...empty, rows, seenMs }, seenMs, STEP_MS);
  };
  const shown = learn(begun, 5, 50);
  assert.deepEqual([shown.ageMs, shown.sinceMs], [50 * STEP_MS, 0]);
  assert.equal(learn(shown, 15, 20).ageMs, 50 * STEP_MS);
  assert.equal(learn(shown, 15).sinceMs, 0);
  assert.equal(learn(shown, 16).sinceMs, 16 * STEP_MS, 'after a pause');
  assert.equal(learn(shown, 105).ageMs, 50 * STEP_MS);
  assert.equal(learn(shown, 106, 20).ageMs, 20 * STEP_MS, 'what was shown long ago may be gone');
  assert.equal(learn(shown, 3).ageMs, 0, 'measured by a time that was ahead');
});

test('candles lie on the grid, and refused ones are cut out of it', () => {
  for (const [step, offset] of [
    [60_000, 0],
    [86_400_000, 57_600_000],
  ] as const) {
    const grid = new CandleGrid(step, offset);
    const at = (steps: number) => offset + steps * step;
    const span = (from: number, to: number) => ({ fromMs: at(from), toMs: at(to) });
    assert.deepEqual(grid.within(span(1.25, 4.25)), span(2, 4));
    assert.deepEqual(grid.within(span(1.25, 1.75)), span(2, 2));
    assert.deepEqual(grid.without(span(0, 5), [at(1)]), [span(0, 1), span(2, 5)]);
    assert.deepEqual(grid.without(span(0, 5), [at(1.5)]), [span(0, 1), span(3, 5)]);
    assert.deepEqual(grid.without(span(0, 5), [at(1), undefined]), []);
  }
});

test('a second answer that is cut confirms none of the slots at its ends, be they few', () => {
  const slot = (from: number, to: number) => ({ fromMs: from * STEP_MS, toMs: to * STEP_MS });
  const end = { span: slot(99, 100), question: slot(99, 101) };
  const below = [0, 1, 2].map((minute) => minute * STEP_MS);
  assert.deepEqual(believedOf(end, below, STEP_MS), [], 'not even the neighbour showed');
  assert.deepEqual(believedOf(end, [...below, 100 * STEP_MS], STEP_MS), [end.span]);
});
