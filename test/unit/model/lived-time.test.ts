import assert from 'node:assert/strict';
import test from 'node:test';
import type { Span } from '../../../src/kernel/span.js';
import { livedParts, notAhead, observedAt } from '../../../src/model/lived-time.js';

const SETTLED = { lived: { sinceMs: 10_000, untilMs: 50_001 }, nowMs: 50_000, knownMs: 0 };
const UNSETTLED = { ...SETTLED, lived: undefined };
const BEHIND = { ...SETTLED, lived: { sinceMs: 10_000, untilMs: 40_000 } };
const of = (spans: readonly Span[]) => spans.flatMap(({ fromMs, toMs }) => [fromMs, toMs]);

for (const [what, kind, at, span, allowed, later, unlived] of [
  ['live: lived through', 'depth', SETTLED, [20_000, 30_000], [20_000, 30_000], [], []],
  [
    'live: before the run',
    'tickers',
    SETTLED,
    [5000, 30_000],
    [10_000, 30_000],
    [],
    [5000, 10_000],
  ],
  ['live: all of it before', 'states', SETTLED, [5000, 9000], [], [], [5000, 9000]],
  ['live: beyond now', 'depth', SETTLED, [40_000, 60_000], [40_000, 50_001], [50_001, 60_000], []],
  ['live: a rival time', 'depth', BEHIND, [30_000, 45_000], [30_000, 40_000], [40_000, 45_000], []],
  ['live: not settled', 'depth', UNSETTLED, [30_000, 45_000], [], [30_000, 45_000], []],
  ['pages: of the past', 'trades', SETTLED, [0, 9000], [0, 9000], [], []],
  ['pages: whole seconds', 'trades', SETTLED, [20_500, 60_000], [20_500, 49_500], [], []],
  ['pages: of the future', 'trades', SETTLED, [60_000, 70_000], [], [], []],
  ['pages: not settled', 'trades', UNSETTLED, [20_000, 30_000], [], [], []],
  [
    'pages: up to known rows',
    'trades',
    { ...UNSETTLED, knownMs: 25_000 },
    [20_000, 30_000],
    [20_000, 25_000],
    [],
    [],
  ],
  [
    'pages: known is not past now',
    'trades',
    { ...BEHIND, knownMs: 99_000 },
    [20_000, 99_000],
    [20_000, 50_000],
    [],
    [],
  ],
  ['candles: whole ones', 'candles', SETTLED, [0, 60_000], [0, 48_000], [], []],
] as const) {
  test(`a claim is cut to lived time, ${what}`, () => {
    const variant = kind === 'candles' ? 12 : 0;
    const parts = livedParts({ kind, variant }, [{ fromMs: span[0], toMs: span[1] }], at);
    const found = [of(parts.allowed), of(parts.later), of(parts.unlived)];
    assert.deepEqual(found, [allowed, later, unlived]);
  });
}

test('a start may lie a minute beyond the known present, and no more', () => {
  assert.equal(notAhead(100_000, SETTLED.lived), 100_000);
  assert.equal(notAhead(200_000, SETTLED.lived), 50_001);
  assert.equal(notAhead(200_000, undefined), 200_000);
});

for (const [what, atMs, untilMs, isKept, claim, missed] of [
  ['the first look ever proves its own time', 1000.7, undefined, false, [1000, 1001], undefined],
  ['a look within the tolerance goes on', 1100, 1001, true, [1001, 1101], undefined],
  ['a late one leaves a gap', 1300, 1101, false, [1300, 1301], [1101, 1300]],
  ['one that follows at once misses nothing', 900, 900, false, [900, 901], undefined],
  [
    'after the clock was set back only the moment is proven',
    500,
    1001,
    true,
    [500, 501],
    undefined,
  ],
] as const) {
  test(what, () => {
    const spanOf = (span: readonly [number, number] | undefined) =>
      span && { fromMs: span[0], toMs: span[1] };
    const expected = { claim: spanOf(claim), missed: spanOf(missed) };
    assert.deepEqual(observedAt(atMs, untilMs, isKept), expected);
  });
}
