import assert from 'node:assert/strict';
import test, { before } from 'node:test';
import { normalizeSpans, type Span } from '../../src/kernel/span.js';
import { isoMs } from '../../src/kernel/timestamp.js';
import { countedPieces, dayCondition, sumBySteps } from '../../src/model/day-conditions.js';
import type { Store } from '../../src/store/index.js';
import { openTestStore, runSql } from '../support/postgres/postgres.js';
import { marketOf } from '../support/postgres/postgres-rows.js';
import fc from '../support/properties.js';
import { worlds } from '../support/seeds.js';

/** Conditions of days in SQL and by the model, over random ledgers. */

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const START_MS = Date.UTC(2026, 0, 15);
const DAYS = 4;
const END_H = DAYS * 24;
const WINDOW = { fromMs: START_MS, toMs: START_MS + DAYS * DAY_MS };
const STREAMS = [
  ['trades', 0],
  ['candles', 3600],
  ['candles', 86_400],
  ['depth', 0],
] as const;

const hour = fc.integer({ min: -30, max: END_H + 10 });
const stretch = fc
  .tuple(hour, fc.integer({ min: 1, max: 40 }))
  .map(([at, h]) => [at, at + h] as const);
const memory = fc.record({
  at: stretch,
  state: fc.constantFrom('open', 'filling', 'filled', 'unfillable'),
  reason: fc.constantFrom('beyond history', 'not observed', 'exchange failed'),
});
const ledger = fc.record({
  collectFromH: fc.option(hour),
  covered: fc.array(stretch, { maxLength: 4 }),
  remembered: fc.array(memory, { maxLength: 4 }),
  wanted: fc.array(stretch, { maxLength: 2 }),
});
const world = fc.record({
  ledgers: fc.array(ledger, { minLength: STREAMS.length, maxLength: STREAMS.length }),
  nowH: fc.double({ min: 1, max: END_H + 30, noNaN: true }),
  delistedH: fc.option(fc.double({ min: 0, max: END_H, noNaN: true })),
  expiredDays: fc.option(fc.integer({ min: 0, max: 2 })),
  wrong: fc.array(fc.integer({ min: 0, max: END_H - 1 }), { maxLength: 3 }),
});
type World = typeof world extends fc.Arbitrary<infer T> ? T : never;

const at = (h: number) => isoMs(START_MS + Math.round(h * HOUR_MS));

/** Hours of stretches that do not overlap an earlier one, as the ledger demands. */
function apart<T>(items: readonly T[], hours: (item: T) => readonly [number, number]): T[] {
  const taken: (readonly [number, number])[] = [];
  return items.filter((item) => {
    const [from, to] = hours(item);
    if (taken.some(([a, b]) => from < b && a < to)) return false;
    taken.push([from, to]);
    return true;
  });
}

let store: Store;
let url: string;

before(async () => {
  ({ store, url } = await openTestStore({}, 'file'));
  await store.ensureMarkets([marketOf('A_USDT')], 0);
  for (const [kind, variant] of STREAMS) await store.ensureStream({ kind, marketId: 1, variant });
});

const range = (from: number, to: number) => `tstzrange('${at(from)}', '${at(to)}')`;
const timeOf = (h: number | null) => (h === null ? 'NULL' : `'${at(h)}'`);

/** One message, as each has its own connection. */
async function make({ ledgers, nowH, delistedH, expiredDays, wrong }: World): Promise<void> {
  const statements = [
    'TRUNCATE coverage, gap, wanted, candle_check, partition_state',
    `UPDATE market SET delisted_at = ${timeOf(delistedH)}`,
    ...(expiredDays === null ? [] : ['trade', 'kline', 'depth']).map(
      (table) =>
        `INSERT INTO partition_state (table_name, span, state)
         VALUES ('${table}', ${range(24 * ((expiredDays ?? 0) - 1), 24 * (expiredDays ?? 0))}, 'expired')`,
    ),
    ...[...new Set(wrong)].map(
      (h) =>
        `INSERT INTO candle_check (market_id, interval_s, span, outcome, detail)
         VALUES (1, 3600, ${range(h, h + 1)}, 'mismatch', '{"differences": [{"figure": "close"}]}')`,
    ),
    ...ledgers.flatMap((own, index) => ledgerSql(own, index + 1, nowH)),
  ];
  await runSql(url, `BEGIN; ${statements.join('; ')}; COMMIT`);
}

function ledgerSql(own: World['ledgers'][number], id: number, nowH: number): string[] {
  // Nothing is covered before it happens.
  const past = own.covered.filter(([, to]) => to <= nowH);
  return [
    `UPDATE stream SET collect_from = ${timeOf(own.collectFromH)} WHERE stream_id = ${id}`,
    ...apart(past, (one) => one).map(
      ([from, to]) =>
        `INSERT INTO coverage (stream_id, market_id, span, evidence) VALUES (${id}, 1, ${range(from, to)}, '{}')`,
    ),
    ...apart(own.remembered, (one) => one.at).map(
      ({ at: [from, to], state, reason }) =>
        `INSERT INTO gap (stream_id, market_id, span, state, reason, first_seen_at)
         VALUES (${id}, 1, ${range(from, to)}, '${state}', '${reason}', now())`,
    ),
    ...apart(own.wanted, (one) => one).map(
      ([from, to]) =>
        `INSERT INTO wanted (stream_id, market_id, span) VALUES (${id}, 1, ${range(from, to)})`,
    ),
  ];
}

const byState = (pieces: readonly { readonly state: string; readonly span: Span }[]) =>
  Object.fromEntries(
    ['covered', 'open', 'unfillable'].map((state) => [
      state,
      normalizeSpans(pieces.filter((one) => one.state === state).map(({ span }) => span)),
    ]),
  );

test('days in SQL are what the model makes of the pieces of each stream', async () => {
  await fc.assert(
    fc.asyncProperty(world, async (one) => {
      await make(one);
      const nowMs = START_MS + Math.round(one.nowH * HOUR_MS);
      const found = await store.inspection.streamPieces({}, WINDOW, nowMs);
      const days = await store.inspection.days({}, WINDOW, nowMs);
      for (const stream of await store.inspection.streams()) {
        const { streamId, kind, variant } = stream;
        const pieces = await store.inspection.pieces(stream, WINDOW, nowMs);
        const counted = countedPieces(stream, pieces, nowMs);
        const own = found.filter((piece) => piece.streamId === streamId);
        const inSql = own.map(({ state, fromMs, toMs }) => ({ state, span: { fromMs, toMs } }));
        assert.deepEqual(byState(inSql), byState(counted), `${kind} ${variant}`);
        for (let day = 0; day < DAYS; day += 1) {
          const dayMs = START_MS + day * DAY_MS;
          const wrong = own.filter(
            ({ state, fromMs }) =>
              state === 'mismatch' && Math.floor((fromMs - dayMs) / DAY_MS) === 0,
          ).length;
          const expected = dayCondition(stream, pieces, wrong, dayMs, nowMs);
          const row = days.find(
            (known) =>
              known.kind === kind &&
              known.variant === variant &&
              known.day === isoMs(dayMs).slice(0, 10),
          );
          const where = `${kind} ${variant} ${isoMs(dayMs)}`;
          assert.equal(row?.condition ?? null, expected.condition, where);
          if (row === undefined) continue;
          const [sum] = sumBySteps(counted, dayMs, DAY_MS, 1);
          assert.deepEqual(
            [row.coveredS, row.openS, row.unfillableS, row.mismatches],
            [sum?.coveredMs, sum?.openMs, sum?.unfillableMs]
              .map((ms) => (ms ?? 0) / 1000)
              .concat(wrong),
            where,
          );
        }
      }
    }),
    { numRuns: worlds(200) },
  );
});
