import assert from 'node:assert/strict';
import test from 'node:test';
import {
  Agreement,
  BELIEVED,
  contradictOf,
  lackedRule,
  type SaidSpans,
  sayOf,
} from '../../../src/model/agreement.js';

/** Answers that must agree before a statement is believed. */

const RULE = { answers: 2, apartMs: 1000, withinMs: 5000, kept: 10 };

for (const [name, answers, believed] of [
  ['one answer is not believed', [[0, 'a']], [false]],
  [
    'a second one that agrees is',
    [
      [0, 'a'],
      [1000, 'a'],
    ],
    [false, true],
  ],
  [
    'one too soon does not count',
    [
      [0, 'a'],
      [999, 'a'],
      [1000, 'a'],
    ],
    [false, false, true],
  ],
  [
    'one too late begins again',
    [
      [0, 'a'],
      [5001, 'a'],
      [6001, 'a'],
    ],
    [false, false, true],
  ],
  [
    'another statement begins again',
    [
      [0, 'a'],
      [1000, 'b'],
      [2000, 'a'],
    ],
    [false, false, false],
  ],
  [
    'what is believed stays so',
    [
      [0, 'a'],
      [1000, 'a'],
      [1001, 'a'],
    ],
    [false, true, true],
  ],
] as const) {
  test(name, () => {
    const said = new Agreement<string, string>(RULE);
    const results = answers.map(([atMs, statement]) => said.say('key', atMs, statement));
    assert.deepEqual(results, believed);
    assert.equal(said.agrees('another', 9000), false);
  });
}

test('a contradiction begins the count of its keys again, and of no other', () => {
  const said = new Agreement<string>(BELIEVED.lacked);
  for (const atMs of [0, 1, 2]) for (const key of ['a', 'b']) said.say(key, atMs);
  said.contradict(['a']);
  assert.deepEqual([said.say('a', 3), said.say('b', 3)], [false, true]);
});

test('of statements that are forgotten all answers are needed again', () => {
  const said = new Agreement<string>({ answers: 2, kept: 1 });
  said.say('a');
  said.say('b');
  assert.equal(said.say('a'), false);
});

test('three answers expose up to five rows, and more of them in 20 s; two of deep pages do', () => {
  for (const [count, isDeep, isLater, answers, ms, exposed] of [
    [5, false, true, 2, 60_000, false],
    [5, false, true, 3, 0, true],
    [6, false, true, 3, 19_999, false],
    [6, false, true, 3, 20_000, true],
    [6, false, true, 2, 60_000, false],
    [1000, false, true, 3, 20_000, true],
    [5, true, true, 1, 60_000, false],
    [5, true, true, 2, 0, true],
    [6, true, true, 2, 60_000, false],
    [6, true, true, 3, 20_000, true],
    [1, false, false, 3, 119_999, false],
    [1, false, false, 3, 120_000, true],
    [100, false, false, 3, 120_000, true],
    [101, false, false, 3, 600_000, false],
  ] as const) {
    const said = new Agreement<string>(BELIEVED.lacked);
    said.say('row', 0);
    for (let answer = 1; answer < answers; answer += 1) said.say('row', ms);
    const rule = lackedRule(count, isDeep, isLater);
    const isExposed = rule !== undefined && said.agrees('row', ms, rule);
    const what = `${count} rows, deep ${isDeep}, later ${isLater}, ${answers} answers in ${ms} ms`;
    assert.equal(isExposed, exposed, what);
  }
});

const span = (fromMs: number, toMs: number) => ({ fromMs, toMs });

test('of time ranges each part is counted on its own', () => {
  const rule = { answers: 3, kept: 10 };
  let said: SaidSpans = [];
  const say = (...spans: Array<ReturnType<typeof span>>) => {
    const { agreed, ...next } = sayOf(said, spans, rule);
    ({ said } = next);
    return agreed;
  };
  assert.deepEqual(say(span(0, 10)), []);
  assert.deepEqual(say(span(5, 20)), []);
  assert.deepEqual(say(span(0, 20)), [span(5, 10)]);
  said = contradictOf(said, [span(6, 7)]);
  assert.deepEqual(say(span(0, 20)), [span(0, 6), span(7, 20)]);
  assert.deepEqual(say(span(6, 7)), []);
  assert.deepEqual(say(span(6, 7)), [span(6, 7)]);
});
