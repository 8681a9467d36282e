import assert from 'node:assert/strict';
import { test } from 'node:test';
import { drawBelow, RuleState } from '../../../../src/sandbox/faults/rule-state.js';
import { type FaultRuleInput, readFaultScript } from '../../../../src/sandbox/faults/script.js';

const START_MS = Date.UTC(2026, 0, 1);

function stateOf(conditions: Partial<FaultRuleInput>, seed = 7): RuleState {
  const [rule] = readFaultScript([{ kind: 'reset', ...conditions }]).rules;
  assert.ok(rule);
  return new RuleState(rule, seed, 1000);
}

/** The numbers, from 1, of those of `count` opportunities at which a rule fires. */
function firings(state: RuleState, count: number, atMs = START_MS, nowMs = 1000): number[] {
  return Array.from({ length: count }, (_, index) => index + 1).filter(
    () => state.offer(atMs, nowMs) !== undefined,
  );
}

test('after, every and maxCount choose by number', () => {
  assert.deepEqual(firings(stateOf({}), 3), [1, 2, 3]);
  assert.deepEqual(firings(stateOf({ after: 2 }), 5), [3, 4, 5]);
  assert.deepEqual(firings(stateOf({ every: 3 }), 10), [3, 6, 9]);
  assert.deepEqual(firings(stateOf({ after: 4, every: 3 }), 12), [7, 10]);
  assert.deepEqual(firings(stateOf({ every: 2, maxCount: 2 }), 10), [2, 4]);
  assert.deepEqual(firings(stateOf({ maxCount: 0 }), 3), []);
  assert.deepEqual(firings(stateOf({ probability: 0 }), 100), []);
});

test('times bound a rule, and what is outside is no opportunity', () => {
  const state = stateOf({ from: '2026-01-01T00:00:10Z', to: '2026-01-01T00:00:20Z', every: 2 });
  const fires = (ms: number) => state.offer(START_MS + ms, 1000) !== undefined;
  assert.deepEqual([fires(9999), fires(10_000), fires(10_001)], [false, false, true]);
  assert.deepEqual([fires(19_998), fires(19_999), fires(20_000)], [false, true, false]);
  assert.equal(state.count.offered, 4);

  const early = stateOf({ firstS: 2.5 });
  const isEarly = (nowMs: number) => early.offer(START_MS, nowMs) !== undefined;
  assert.deepEqual([isEarly(1000), isEarly(3499), isEarly(3500)], [true, true, false]);
});

test('luck: the share is the probability, a seed replays it, another seed or id does not', () => {
  const lucky = (probability: number, seed: number, id = 'a') =>
    firings(stateOf({ probability, id }, seed), 20_000);
  for (const probability of [0.05, 0.5, 0.95]) {
    for (const seed of [1, 2, 3]) {
      const share = lucky(probability, seed).length / 20_000;
      assert.ok(Math.abs(share - probability) < 0.015, `seed ${seed}: ${share} of ${probability}`);
    }
  }
  assert.deepEqual(lucky(0.1, 5), lucky(0.1, 5));
  assert.notDeepEqual(lucky(0.1, 5), lucky(0.1, 6));
  assert.notDeepEqual(lucky(0.1, 5), lucky(0.1, 5, 'b'));
});

test('the particulars of a fault depend on its number, not on what earlier ones drew', () => {
  const frugal = stateOf({ probability: 0.5 });
  const lavish = stateOf({ probability: 0.5 });
  for (let turn = 0; turn < 200; turn += 1) {
    const one = frugal.offer(START_MS, 1000);
    const other = lavish.offer(START_MS, 1000);
    assert.equal(one === undefined, other === undefined);
    if (one === undefined || other === undefined) continue;
    assert.equal(drawBelow(one, 1_000_000), drawBelow(other, 1_000_000));
    for (let extra = 0; extra < 5; extra += 1) other();
  }
  assert.deepEqual(frugal.count, lavish.count);
});
