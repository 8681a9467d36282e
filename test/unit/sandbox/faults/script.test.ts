import assert from 'node:assert/strict';
import { test } from 'node:test';
import { faultKinds, shapeOf } from '../../../../src/sandbox/faults/kinds.js';
import { readFaultScript } from '../../../../src/sandbox/faults/script.js';

/** Scripts that are refused, each with what the message must hold. */
const refused: ReadonlyArray<readonly [unknown, ...string[]]> = [
  ['x', 'rules "x"', 'a list'],
  [undefined, 'rules is missing', 'a list'],
  [{ rules: [], chance: 1 }, 'chance 1', 'seed, rules'],
  [{ rules: [], seed: -1 }, 'seed -1', '0 to 4294967295'],
  [[7], 'rule 1', '7', 'an object with a kind'],
  [[{}], 'rule 1', 'kind is missing', 'latency'],
  [[{ kind: 'constructor' }], 'rule 1', 'kind "constructor"', 'latency'],
  [
    [{ kind: 'reset' }, { kind: 'latency', ms: 'fast' }],
    'rule 2 (latency)',
    'ms "fast"',
    '3600000',
  ],
  [[{ kind: 'latency', ms: 1.5 }], 'ms 1.5', 'a whole number from 0'],
  [[{ kind: 'latency', ms: -1 }], 'ms -1'],
  [[{ kind: 'latency', bytes: 3 }], 'bytes 3', 'ms, jitterMs'],
  [[{ kind: 'status', status: 199 }], 'status 199', '200 to 599'],
  [[{ kind: 'stale', oldDate: 'yes' }], 'oldDate "yes"', 'true or false'],
  [[{ kind: 'badRows', defect: 'odd' }], 'defect "odd"', 'hugeId'],
  [[{ kind: 'reset', where: 'realtime' }], 'where "realtime"', 'one of *, markets'],
  [[{ kind: 'dropSocket', where: 'history' }], 'where "history"', 'one of *, realtime'],
  [[{ kind: 'conflictRows', where: 'depth' }], 'where "depth"', 'history, historyResult, kline'],
  [[{ kind: 'reset', where: 'histroy' }], 'where "histroy"'],
  [[{ kind: 'reset', market: '' }], 'market ""', '1 to 64'],
  [[{ kind: 'reset', where: 'tickers', market: 'A' }], 'market "A"', 'tickers are of no market'],
  [[{ kind: 'reset', probability: 1.01 }], 'probability 1.01', 'from 0 to 1'],
  [[{ kind: 'reset', probability: Number.NaN }], 'probability null', 'from 0 to 1'],
  [[{ kind: 'reset', every: 0 }], 'every 0', 'from 1'],
  [[{ kind: 'reset', after: -1 }], 'after -1'],
  [[{ kind: 'reset', maxCount: '3' }], 'maxCount "3"'],
  [[{ kind: 'reset', from: '2026-01-01' }], 'from "2026-01-01"', 'UTC'],
  [[{ kind: 'reset', from: '2026-13-01T00:00:00Z' }], 'from "2026-13-01T00:00:00Z"'],
  [
    [{ kind: 'reset', from: '2026-01-02T00:00Z', to: '2026-01-01T00:00Z' }],
    'to "2026-01-01T00:00Z"',
    'after from',
  ],
  [
    [
      { kind: 'reset', id: 'a' },
      { kind: 'hang', id: 'a' },
    ],
    'rule 2',
    'id "a"',
  ],
  [Array.from({ length: 101 }, () => ({ kind: 'reset' })), 'at most 100 rules'],
];

test('a bad script is refused by rule, key, value and what is allowed', () => {
  for (const [script, ...texts] of refused) {
    assert.throws(
      () => readFaultScript(script),
      (error: Error & { code?: string }) => {
        assert.equal(error.code, 'fault_script_invalid');
        for (const text of texts) assert.ok(error.message.includes(text), error.message);
        return true;
      },
      JSON.stringify(script),
    );
  }
});

test('every kind is a rule by its name alone, and its defaults are allowed values', () => {
  const { rules } = readFaultScript(faultKinds.map((kind) => ({ kind })));
  for (const rule of rules) {
    const { parameters } = shapeOf(rule.kind);
    const filled = Object.keys(parameters).filter((key) => key in rule);
    const written = Object.fromEntries(
      filled.map((key) => [key, (rule as unknown as Record<string, unknown>)[key]]),
    );
    const [again] = readFaultScript([{ kind: rule.kind, ...written }]).rules;
    assert.deepEqual({ ...again, id: rule.id, written: rule.written }, rule);
  }
});
