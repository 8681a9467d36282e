import assert from 'node:assert/strict';
import test from 'node:test';
import {
  normalizeSpans,
  type Span,
  spanContains,
  subtractSpans,
} from '../../../src/kernel/span.js';
import { findGaps } from '../../../src/model/gaps.js';
import fc from '../../support/properties.js';

const anySpan = fc
  .tuple(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 60 }))
  .map(([a, b]): Span => ({ fromMs: Math.min(a, b), toMs: Math.max(a, b) }));
const anySpans = fc.array(anySpan, { maxLength: 8 });
const instants = Array.from({ length: 61 }, (_, at) => at);
const holds = (spans: readonly Span[], at: number) => spans.some((one) => spanContains(one, at));

test('gaps are what is expected and not covered, newest first, and end where a chain goes on', () => {
  const expected = [{ fromMs: 10, toMs: 100 }];
  const covered = [
    { fromMs: 20, toMs: 30 },
    { fromMs: 60, toMs: 80 },
  ];
  assert.deepEqual(findGaps(expected, covered, 80, [45, 20, 60]), [
    { fromMs: 45, edgeMs: 60 },
    { fromMs: 30, edgeMs: 45 },
    { fromMs: 10, edgeMs: 20 },
  ]);
  assert.deepEqual(findGaps([{ fromMs: -Infinity, toMs: 100 }], covered, 80)[1], {
    fromMs: -Infinity,
    edgeMs: 20,
  });
});

test('an instant lies in exactly one gap if it is expected and not covered, else in none', () => {
  const cuts = fc.array(fc.integer({ min: 0, max: 60 }), { maxLength: 5 });
  fc.assert(
    fc.property(
      anySpans,
      anySpans,
      fc.integer({ min: 0, max: 60 }),
      cuts,
      (want, have, topMs, at) => {
        const gaps = findGaps(want, have, topMs, at);
        for (const instant of instants) {
          const isHole = instant < topMs && holds(want, instant) && !holds(have, instant);
          const inside = gaps.filter(({ fromMs, edgeMs }) => fromMs <= instant && instant < edgeMs);
          assert.equal(inside.length, isHole ? 1 : 0);
        }
        const edges = gaps.map(({ edgeMs }) => edgeMs);
        assert.deepEqual(
          edges,
          [...edges].sort((a, b) => b - a),
        );
      },
    ),
  );
});

test('span arithmetic agrees with looking at every instant', () => {
  fc.assert(
    fc.property(anySpan, anySpans, (whole, parts) => {
      const rest = subtractSpans(whole, parts);
      const joined = normalizeSpans(parts);
      for (const at of instants) {
        assert.equal(holds(rest, at), spanContains(whole, at) && !holds(parts, at));
        assert.equal(holds(joined, at), holds(parts, at));
      }
      for (const list of [rest, joined]) {
        for (const [at, { fromMs, toMs }] of list.entries()) {
          assert.ok(fromMs < toMs);
          assert.ok(at === 0 || (list[at - 1]?.toMs ?? 0) < fromMs, 'apart from each other');
        }
      }
    }),
  );
});
