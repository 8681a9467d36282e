import assert from 'node:assert/strict';
import test from 'node:test';
import {
  deeperSpan,
  headSpan,
  latestMs,
  provenUntilMs,
  withoutUnread,
} from '../../../src/model/proof.js';
import fc from '../../support/properties.js';

const rowsAt = (...seconds: number[]) =>
  seconds.map((tradedAtS, index) => ({ tid: 100 - index, tradedAtS }));
const span = (fromS: number, toS: number) => ({ fromMs: fromS * 1000, toMs: toS * 1000 });

test('a reply proves up to its request, its Date and the margin, and never part of a second', () => {
  assert.equal(provenUntilMs({ sentAtMs: 10_900, dateMs: null }, 0), 10_000);
  assert.equal(provenUntilMs({ sentAtMs: 10_900, dateMs: 9000 }, 0), 9000);
  assert.equal(provenUntilMs({ sentAtMs: 10_900, dateMs: 11_000 }, 1000), 9000);
  assert.equal(latestMs({ sentAtMs: 10_900, dateMs: 11_000 }), 11_000);
  assert.equal(latestMs({ sentAtMs: 10_900, dateMs: null }), 10_900);
});

test('a head page covers from above its oldest second to its newest, or as far as time proves', () => {
  const rows = rowsAt(20, 18, 15, 15);
  assert.deepEqual(headSpan(rows, 19_000, 30_000), span(16, 20));
  assert.deepEqual(headSpan(rows, 25_000, 30_000), span(16, 25));
});

test('a head page of one second covers nothing of it', () => {
  const { fromMs, toMs } = headSpan(rowsAt(20, 20), 10_000, 30_000);
  assert.equal(fromMs, toMs);
});

test('a trade dated into the future covers nothing of the time until then', () => {
  assert.deepEqual(headSpan(rowsAt(70_000, 18, 15), 19_000, 30_000), span(16, 19));
  const { fromMs, toMs } = headSpan(rowsAt(70_000, 60_000), 19_000, 30_000);
  assert.equal(fromMs, toMs);
});

test('a deeper page adds from above its oldest second up to the edge, never more', () => {
  assert.deepEqual(deeperSpan(rowsAt(20, 15), 20_000), span(16, 20));
  assert.deepEqual(deeperSpan(rowsAt(20, 20), 20_000), span(20, 20));
});

test('refused rows cut out the seconds between their readable neighbours, both whole', () => {
  const claim = span(10, 30);
  assert.deepEqual(withoutUnread(claim, []), [claim]);
  assert.deepEqual(withoutUnread(claim, [{ newerS: 20, olderS: 18 }]), [
    span(10, 18),
    span(21, 30),
  ]);
  assert.deepEqual(withoutUnread(claim, [{ newerS: undefined, olderS: 25 }]), [span(10, 25)]);
  assert.deepEqual(withoutUnread(claim, [{ newerS: 12, olderS: 5 }]), [span(13, 30)]);
  assert.deepEqual(withoutUnread(claim, [{ newerS: undefined, olderS: 5 }]), []);
});

test('whatever is refused: no claim ever holds a second that a refused row may lie in', () => {
  const seconds = fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 2, maxLength: 30 });
  fc.assert(
    fc.property(seconds, fc.integer({ min: 0, max: 29 }), (unsorted, pick) => {
      const sorted = [...unsorted].sort((a, b) => b - a);
      const at = pick % sorted.length;
      const [refusedS] = sorted.slice(at, at + 1);
      const readable = sorted.filter((_, index) => index !== at);
      const [newerS, olderS] = [sorted[at - 1], sorted[at + 1]];
      const claim = headSpan(rowsAt(...readable), 50_000, 60_000);
      const unread = olderS === undefined ? [] : [{ newerS, olderS }];
      for (const { fromMs, toMs } of withoutUnread(claim, unread)) {
        const refusedMs = (refusedS ?? 0) * 1000;
        assert.ok(refusedMs < fromMs || refusedMs >= toMs);
      }
    }),
  );
});
