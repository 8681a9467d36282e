import assert from 'node:assert/strict';
import test from 'node:test';
import { KnownTrades } from '../../../src/collect/trades/known.js';
import type { TradePage } from '../../../src/collect/trades/source.js';
import { FakeClock } from '../../support/fake-clock.js';

/** What earlier answers showed of the newest trades. */

const FIELDS = { price: '1', amount: '1', total: '1', side: 'buy' } as const;
const at = (...seconds: number[]) => seconds.map((tradedAtS) => ({ tid: tradedAtS, tradedAtS }));

test('what is taken back around trades that never were reaches from the row below to the row above', () => {
  const known = new KnownTrades(new FakeClock());
  const around = (missing: number[], page: number[]) =>
    known.spanAround(at(...missing), at(...page), 99_000);
  assert.deepEqual(around([60, 50], [80, 70, 40, 30]), { fromMs: 40_000, toMs: 71_000 });
  assert.deepEqual(around([60, 50], [40, 30]), { fromMs: 40_000, toMs: 99_000 }, 'no row above');
  assert.deepEqual(around([60, 50], [80, 70]), { fromMs: 50_000, toMs: 71_000 }, 'no row below');
});

const page = (seconds: number[], gaps: TradePage['gaps'] = []): TradePage => {
  const trades = at(...seconds).map((row) => ({ ...row, executedAtUs: null, ...FIELDS }));
  const times = { sentAtMs: 200_000, dateMs: null, receivedAtMs: 200_000 };
  const ends = { first: trades[0], last: trades.at(-1) };
  const nothing = { rejected: [], unread: [], held: [], isRaised: false };
  return { ...times, ...nothing, trades, gaps, ends, rowCount: trades.length };
};

test('a known trade that a page lacks is not missing in time that the server does not know', () => {
  const known = new KnownTrades(new FakeClock());
  known.believe(at(90, 80, 70, 60, 50));
  const span = { fromMs: 60_000, toMs: 80_000 };
  const short = page([90, 50, 40], [{ kind: 'trades', reason: 'not collected', span }]);
  assert.deepEqual(known.against(short, short.trades).missing, at(80));
});

test('a row that is no trade after all is forgotten, and the others are not', () => {
  const known = new KnownTrades(new FakeClock());
  known.believe(at(90, 80, 70, 60));
  known.forget(at(80));
  const short = page([90, 60]);
  assert.deepEqual(known.against(short, short.trades).missing, at(70));
});

test('a row that cannot be read may be any of the seconds of its neighbours and between them', () => {
  const known = new KnownTrades(new FakeClock());
  known.believe(at(90, 80, 70, 60, 50));
  const missing = (newerS: number | undefined) => {
    const short = { ...page([95, 40]), unread: [{ newerS, olderS: 60 }] };
    return known.against(short, short.trades).missing;
  };
  assert.deepEqual(missing(80), at(90, 50));
  assert.deepEqual(missing(undefined), at(50), 'or newer, where it has none above');
});

test('more than five trades that pages lack are exposed after two minutes, more than a hundred never', () => {
  for (const [count, atOnce, inTime] of [
    [5, true, true],
    [6, false, true],
    [100, false, true],
    [101, false, false],
  ] as const) {
    const clock = new FakeClock();
    const known = new KnownTrades(clock);
    known.believe(at(...Array.from({ length: count + 2 }, (_, n) => 10 + n)));
    const short = page([11 + count, 10, 9]);
    const isExposed = () => {
      const found = known.against(short, short.trades);
      assert.equal(found.missing.length, count);
      return known.isExposed(found, short.trades[0] ?? assert.fail());
    };
    assert.equal(isExposed(), atOnce, `${count} at once`);
    clock.advance(119_999);
    assert.equal(isExposed(), atOnce);
    clock.advance(1);
    assert.equal(isExposed(), inTime, `${count} after two minutes`);
  }
});
