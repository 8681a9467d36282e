import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EndpointName } from '../../../../src/contract/endpoints.js';
import { successEnvelope } from '../../../../src/contract/error-shapes.js';
import { resultTrade } from '../../../../src/contract/resources.js';
import { seededRandom } from '../../../../src/kernel/random.js';
import { DEFECTS } from '../../../../src/sandbox/faults/kinds.js';
import { ReplyRows } from '../../../../src/sandbox/faults/rows.js';
import { type FaultRuleInput, readFaultScript } from '../../../../src/sandbox/faults/script.js';
import fc from '../../../support/properties.js';

function ruleOf(written: FaultRuleInput) {
  const [rule] = readFaultScript([written]).rules;
  assert.ok(rule);
  return rule;
}

interface Trade {
  tid: number;
  date: number;
  price: string;
  type: string;
  amount: string;
  total: string;
}

function page(length: number): Trade[] {
  return Array.from({ length }, (_, at) => ({
    tid: 900_000 - at,
    date: 1_780_000_000 - at,
    price: `${100 + at}.5`,
    type: at % 2 === 0 ? 'buy' : 'sell',
    amount: `0.0${(at % 9) + 1}`,
    total: '1',
  }));
}

function spoil(written: FaultRuleInput, endpoint: EndpointName, body: object, seed = 1): unknown {
  const rows = ReplyRows.read(endpoint, JSON.stringify(body));
  const rule = ruleOf(written);
  if (rows === undefined || !rows.allows(rule)) return undefined;
  return JSON.parse(rows.spoil(rule, seededRandom(seed)));
}

const length = fc.integer({ min: 1, max: 60 });
const seed = fc.integer({ min: 0, max: 2 ** 32 - 1 });

test('the newest row alone gets another id and another time', () => {
  const before = page(3);
  const written = { kind: 'wrongHead', idBy: 1_000_000, timeByS: -86_400 } as const;
  const [head, ...others] = spoil(written, 'historyResult', before) as Trade[];
  assert.deepEqual(head, { ...before[0], tid: 1_900_000, date: 1_780_000_000 - 86_400 });
  assert.deepEqual(others, before.slice(1));
});

test('ids above one begin anew at 1', () => {
  const before = page(4);
  const ids = (spoil({ kind: 'idsAnew', above: 899_998 }, 'historyResult', before) as Trade[]).map(
    ({ tid }) => tid,
  );
  assert.deepEqual(ids, [2, 1, 899_998, 899_997]);
  assert.equal(spoil({ kind: 'idsAnew', above: 900_000 }, 'historyResult', before), undefined);
});

test('duplicated rows: each row once, and so many of them a second time right behind', () => {
  fc.assert(
    fc.property(length, fc.integer({ min: 1, max: 80 }), seed, (count, rows, drawn) => {
      const before = page(count);
      const after = spoil({ kind: 'duplicateRows', rows }, 'historyResult', before, drawn);
      const ids = (after as Trade[]).map(({ tid }) => tid);
      assert.equal(ids.length, count + Math.min(rows, count));
      assert.deepEqual(
        [...new Set(ids)],
        before.map(({ tid }) => tid),
      );
      const isBehind = ids.filter((id, at) => id === ids[at - 1]).length;
      assert.equal(isBehind, Math.min(rows, count));
    }),
  );
});

test('reordered rows: the same rows, never in their order', () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 60 }), seed, (count, drawn) => {
      const before = page(count);
      const after = spoil({ kind: 'reorderRows' }, 'historyResult', before, drawn) as Trade[];
      assert.notDeepEqual(after, before);
      assert.deepEqual(
        [...after].sort((left, right) => right.tid - left.tid),
        before,
      );
    }),
  );
  assert.equal(spoil({ kind: 'reorderRows' }, 'historyResult', page(1)), undefined);
});

test('missing rows: so many fewer, the first and the last among those that are left', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 3, max: 60 }),
      fc.integer({ min: 1, max: 80 }),
      seed,
      (count, rows, drawn) => {
        const before = page(count);
        const written = { kind: 'missingRows', rows } as const;
        const after = spoil(written, 'historyResult', before, drawn) as Trade[];
        assert.equal(after.length, count - Math.min(rows, count - 2));
        const left = new Set(after.map(({ tid }) => tid));
        assert.deepEqual(
          after,
          before.filter(({ tid }) => left.has(tid)),
        );
        assert.deepEqual([after[0], after.at(-1)], [before[0], before.at(-1)]);
      },
    ),
  );
  assert.equal(spoil({ kind: 'missingRows' }, 'historyResult', page(2)), undefined);
});

test('conflicting rows: the true row first, then one of the same id with another amount', () => {
  const before = page(20);
  const after = spoil({ kind: 'conflictRows', rows: 3 }, 'historyResult', before) as Trade[];
  assert.equal(after.length, 23);
  const extra = after.filter((row, at) => row.tid === after[at - 1]?.tid);
  assert.equal(extra.length, 3);
  for (const row of extra) {
    const truth = before.find(({ tid }) => tid === row.tid);
    assert.notEqual(row.amount, truth?.amount);
    assert.deepEqual({ ...row, amount: truth?.amount }, truth);
  }
});

test('each defect makes exactly the chosen rows unreadable or insane, in place', () => {
  for (const defect of DEFECTS) {
    const before = page(30);
    const written = { kind: 'badRows', defect, rows: 2 } as const;
    const after = spoil(written, 'historyResult', before) as Trade[];
    const changed = after.filter((row, at) => JSON.stringify(row) !== JSON.stringify(before[at]));
    assert.equal(changed.length, 2, defect);
    assert.equal(after.length, 30);
    for (const row of changed) {
      const isSane = row.date > 1_000_000_000 && row.date < 4_000_000_000;
      const reading = resultTrade.safeParse(row);
      assert.ok(!isSane || !reading.success, `${defect}: ${JSON.stringify(row).slice(0, 200)}`);
    }
  }
});

test('endpoints without the field, and replies without rows, are no opportunity', () => {
  const depth = { asks: [['1', '2']], bids: [] };
  assert.equal(spoil({ kind: 'badRows', defect: 'hugeId' }, 'depth', depth), undefined);
  assert.deepEqual(spoil({ kind: 'badRows', defect: 'notANumber' }, 'depth', depth), {
    asks: [['NaN', '2']],
    bids: [],
  });
  assert.equal(spoil({ kind: 'badRows' }, 'historyResult', []), undefined);
  assert.equal(spoil({ kind: 'badRows' }, 'ticker', successEnvelope({ last: '1' })), undefined);
  const tickers = successEnvelope({ A_B: { at: 1, ticker: { last: '5', vol: '1' } } });
  assert.deepEqual(
    spoil({ kind: 'badRows', defect: 'overflow' }, 'tickers', tickers),
    successEnvelope({ A_B: { at: 1, ticker: { last: '5', vol: '1e999' } } }),
  );
  assert.equal(spoil({ kind: 'duplicateRows' }, 'tickers', tickers), undefined);
});

test('short pages: the first rows as they are, and none of the others', () => {
  fc.assert(
    fc.property(length, fc.integer({ min: 0, max: 70 }), seed, (count, keep, drawn) => {
      const before = page(count);
      const after = spoil({ kind: 'shortPage', keep }, 'historyResult', before, drawn);
      assert.deepEqual(after, keep < count ? before.slice(0, keep) : undefined);
      const some = spoil({ kind: 'shortPage' }, 'historyResult', before, drawn) as Trade[];
      assert.ok(some.length < count);
      assert.deepEqual(some, before.slice(0, some.length));
    }),
  );
});

test('conflicting rows in place of the true ones: as many rows, so many with another amount', () => {
  fc.assert(
    fc.property(length, fc.integer({ min: 1, max: 80 }), seed, (count, rows, drawn) => {
      const before = page(count);
      const rule = { kind: 'conflictRows', rows, place: 'instead' } as const;
      const after = spoil(rule, 'historyResult', before, drawn) as Trade[];
      const other = after.filter(({ amount }, at) => amount !== before[at]?.amount);
      assert.equal(other.length, Math.min(rows, count));
      assert.deepEqual(
        after.map(({ amount: _amount, ...same }) => same),
        before.map(({ amount: _amount, ...same }) => same),
      );
    }),
  );
});
