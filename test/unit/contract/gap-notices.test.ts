import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import {
  describeCovered,
  describeGaps,
  type GapNotice,
  readCovered,
  readGaps,
} from '../../../src/contract/gap-notices.js';
import { subtractSpans } from '../../../src/kernel/span.js';

const moment = fc.integer({ min: 0, max: Date.UTC(2100, 0, 1) });
const name = fc.oneof(fc.constantFrom('BTC_USDT', 'A+B', 'a,b c'), fc.uuid());
const gap: fc.Arbitrary<GapNotice> = fc
  .record({
    kind: fc.constantFrom('trades', 'times', 'candles', 'depth', 'tickers', 'states'),
    fromMs: moment,
    lengthMs: fc.integer({ min: 1, max: 1e9 }),
    reason: fc.oneof(fc.constant('not collected'), fc.string({ maxLength: 30 })),
    markets: fc.option(fc.uniqueArray(name, { minLength: 1, maxLength: 4 })),
  })
  .map(({ kind, fromMs, lengthMs, reason, markets }) => {
    const of = markets === null ? {} : { markets };
    return { kind, reason, span: { fromMs, toMs: fromMs + lengthMs }, ...of };
  });

test('what is read is never less than what was told', () => {
  fc.assert(
    fc.property(fc.array(gap, { minLength: 1, maxLength: 60 }), (gaps) => {
      const read = readGaps([describeGaps(gaps)]);
      for (const { kind, span, markets } of gaps) {
        // Of all markets, where it is not said of which.
        for (const market of markets ?? [undefined]) {
          const same = read.filter(
            (one) => one.kind === kind && (one.markets?.includes(market ?? '') ?? true) === true,
          );
          assert.deepEqual(
            subtractSpans(
              span,
              same.map((one) => one.span),
            ),
            [],
          );
        }
      }
      assert.ok(read.length <= 20 + 6);
      const spans = read.map((one) => one.span);
      if (gaps.length <= 20)
        assert.deepEqual(
          spans,
          Array.from(gaps, (one) => one.span),
        );
    }),
  );
});

test('what cannot be read puts everything in doubt', () => {
  const good = 'trades 2026-01-31T12:00:00.000Z 2026-01-31T12:05:00.000Z not collected';
  const unreadable = [
    '',
    'nonsense',
    good.replace('12:05', '11:05'),
    good.replace('12:05:00.000Z', '12:05:00'),
    good.replace('01-31', '13-41'),
    `${good}, and 3 more`,
    `${good},`,
    good.repeat(300),
  ];
  for (const text of unreadable) {
    const all = readGaps([text]).at(-1);
    assert.deepEqual(
      all?.span,
      { fromMs: Number.NEGATIVE_INFINITY, toMs: Number.POSITIVE_INFINITY },
      text,
    );
  }
  assert.equal(readGaps([good, good]).length, 2, 'a header that comes twice is read twice');
});

test('what is covered until a moment is read as it was told, or not at all', () => {
  const span = { fromMs: Date.UTC(2026, 0, 31, 12), toMs: Date.UTC(2026, 0, 31, 13) };
  assert.deepEqual(readCovered(describeCovered(span)), span);
  const since = new Map([
    ['A+B, C', span.fromMs + 1],
    ['D_E', span.fromMs + 2],
    ['F_G', span.fromMs + 1],
  ]);
  assert.deepEqual(readCovered(describeCovered({ ...span, since })), { ...span, since });
  const many = new Map(Array.from({ length: 2000 }, (_, at) => [`M${at}_USDT`, span.fromMs + 7]));
  const cut = { fromMs: span.fromMs + 7, toMs: span.toMs };
  assert.deepEqual(readCovered(describeCovered({ ...span, since: many })), cut, 'less, not more');
  const markets = [...many.keys()];
  const [read] = readGaps([describeGaps([{ kind: 'tickers', reason: 'x', span, markets }])]);
  assert.equal(read?.markets, undefined, 'more, not less');
  const broken = [', %E0 2026-01-31T12:00:00.000Z', ', A 2026-01-31T14:00:00.000Z', ', A'];
  for (const rest of broken) assert.equal(readCovered(describeCovered(span) + rest), undefined);
  const turned = describeCovered({ fromMs: span.toMs, toMs: span.fromMs });
  for (const text of ['yesterday', describeCovered(span).slice(0, -1), turned]) {
    assert.equal(readCovered(text), undefined, text);
  }
});
