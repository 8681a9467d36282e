import assert from 'node:assert/strict';
import test from 'node:test';
import {
  ceilToMs,
  doOverlap,
  floorToMs,
  holdsSpan,
  normalizeSpans,
  type Span,
  spanContains,
  subtractSpans,
  totalLengthMs,
} from '../../../src/kernel/span.js';
import fc from '../../support/properties.js';

const anySpan = fc
  .tuple(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 20 }))
  .map(([fromMs, length]): Span => ({ fromMs, toMs: fromMs + length }));

test('expected minus covered holds exactly the instants that nothing covers', () => {
  fc.assert(
    fc.property(anySpan, fc.array(anySpan, { maxLength: 8 }), (whole, parts) => {
      const rest = subtractSpans(whole, parts);
      for (const gap of rest) assert.ok(gap.fromMs < gap.toMs, 'no gap is empty');
      for (let instant = 0; instant < 90; instant += 1) {
        const isMissing =
          spanContains(whole, instant) && !parts.some((part) => spanContains(part, instant));
        assert.equal(
          rest.some((gap) => spanContains(gap, instant)),
          isMissing,
        );
      }
    }),
  );
});

test('one span holds another, or overlaps it, as the instants in both say', () => {
  fc.assert(
    fc.property(anySpan, anySpan, (outer, inner) => {
      const ofInner = Array.from({ length: 90 }, (_, at) => at).filter((at) =>
        spanContains(inner, at),
      );
      const ofBoth = ofInner.filter((at) => spanContains(outer, at));
      fc.pre(ofInner.length > 0 && outer.fromMs < outer.toMs);
      assert.equal(holdsSpan(outer, inner), ofBoth.length === ofInner.length);
      assert.equal(doOverlap(outer, inner), ofBoth.length > 0);
    }),
  );
});

test('normalised spans are sorted, apart, and cover the same instants', () => {
  fc.assert(
    fc.property(fc.array(anySpan, { maxLength: 8 }), (spans) => {
      const joined = normalizeSpans(spans);
      for (const [index, next] of joined.entries()) {
        const before = joined[index - 1];
        if (before !== undefined) assert.ok(before.toMs < next.fromMs);
      }
      const instants = Array.from({ length: 90 }, (_, at) => at);
      const covered = instants.filter((at) => spans.some((one) => spanContains(one, at)));
      assert.equal(totalLengthMs(joined), covered.length);
    }),
  );
});

test('an instant lies between the steps of a grid next to it, and on one it is both', () => {
  fc.assert(
    fc.property(fc.integer({ min: -90, max: 90 }), fc.integer({ min: 1, max: 9 }), (at, step) => {
      const [below, above] = [floorToMs(at, step), ceilToMs(at, step)];
      assert.ok(below <= at && at <= above);
      assert.ok(below % step === 0 && above % step === 0, 'both are of the grid');
      assert.equal(above - below, at % step === 0 ? 0 : step);
    }),
  );
});
