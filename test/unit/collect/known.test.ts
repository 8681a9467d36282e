import assert from 'node:assert/strict';
import test from 'node:test';
import { KnownTrades } from '../../../src/collect/trades/known.js';
import type { TradePage } from '../../../src/collect/trades/source.js';

/** What earlier answers showed of the newest trades. */

const FIELDS = { price: '1', amount: '1', total: '1', side: 'buy' } as const;
const at = (...seconds: number[]) => seconds.map((tradedAtS) => ({ tid: tradedAtS, tradedAtS }));

test('what is taken back around trades that never were reaches from the row below to the row above', () => {
  const known = new KnownTrades();
  const around = (missing: number[], page: number[]) =>
    known.spanAround(at(...missing), at(...page), 99_000);
  assert.deepEqual(around([60, 50], [80, 70, 40, 30]), { fromMs: 40_000, toMs: 71_000 });
  assert.deepEqual(around([60, 50], [40, 30]), { fromMs: 40_000, toMs: 99_000 }, 'no row above');
  assert.deepEqual(around([60, 50], [80, 70]), { fromMs: 50_000, toMs: 71_000 }, 'no row below');
  assert.deepEqual(around([60, 50], [80, 70, 50, 49, 40]), { fromMs: 49_000, toMs: 71_000 });
  const page = [...at(80, 70), { tid: 1, tradedAtS: 41 }, { tid: 0, tradedAtS: 40 }];
  const atEnd = known.spanAround(at(60, 41), page, 99_000);
  assert.deepEqual(atEnd, { fromMs: 40_000, toMs: 71_000 }, 'no whole second below');
});

const page = (seconds: number[]): TradePage => {
  const trades = at(...seconds).map((row) => ({ ...row, executedAtUs: null, ...FIELDS }));
  const times = { sentAtMs: 200_000, dateMs: null, receivedAtMs: 200_000 };
  const ends = { first: trades[0], last: trades.at(-1) };
  const nothing = { rejected: [], unread: [], held: [], isRaised: false };
  return { ...times, ...nothing, trades, ends, rowCount: trades.length };
};

test('a row that is no trade after all is forgotten, and the others are not', () => {
  const known = new KnownTrades();
  known.add(at(90, 80, 70, 60));
  known.forget(at(80));
  const short = page([90, 60]);
  assert.deepEqual(known.against(short, short.trades).missing, at(70));
});

test('a row that cannot be read may be any of the seconds of its neighbours and between them', () => {
  const known = new KnownTrades();
  known.add(at(90, 80, 70, 60, 50));
  const missing = (newerS: number | undefined) => {
    const short = { ...page([95, 40]), unread: [{ newerS, olderS: 60 }] };
    return known.against(short, short.trades).missing;
  };
  assert.deepEqual(missing(80), at(90, 50));
  assert.deepEqual(missing(undefined), at(50), 'or newer, where it has none above');
});
