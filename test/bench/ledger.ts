import { systemClock } from '../../src/kernel/clock.js';
import { type Random, seededRandom } from '../../src/kernel/random.js';
import type { StreamRef } from '../../src/model/batch.js';
import { migrate, openStore, type Store } from '../../src/store/index.js';
import {
  quietStoreEvents,
  runSql,
  startTestPostgres,
  withDatabase,
} from '../support/postgres/postgres-server.js';
import { type BenchReport, tableOf } from './report.js';

export const about = 'questions about coverage and gaps in ledgers of 1e4, 1e6 and 1e8 rows';

const SEED = 20_260_115;
const MARKETS = 500;
const PAGE_ROWS = 1_000;
const SIZES = [1e4, 1e6, 1e8] as const;
/** All ledgers have the same density in time: the largest holds a year. */
const ROWS_PER_MS = 1e8 / (365 * 86_400_000);
const END_MS = Date.UTC(2026, 0, 15);
const WEEK_MS = 7 * 86_400_000;
const SAMPLES = 200;
const WARM_UP = 20;
/** For the questions about every stream: some go through them whole. */
const SAMPLES_OF_ALL = 15;
/** So many spans are asked for at once by whoever verifies. */
const PENDING = 200;

const MAKE_MARKETS = `
  INSERT INTO market (name, base, quote, base_prec, quote_prec, fee_prec, min_amount,
                      first_seen_at, last_seen_at)
  SELECT 'M' || n || '_USDT', 'M' || n, 'USDT', 8, 2, 4, 0.001, 'epoch', 'epoch'
  FROM generate_series(1, ${MARKETS}) n`;

const MAKE_STREAMS = `
  INSERT INTO stream (kind, market_id, variant, collect_from)
  SELECT kind, market_id, variant, to_timestamp($1::float8 / 1000)
  FROM market, (VALUES ('trades', 0), ('candles', 60)) AS k(kind, variant)`;

/**
 * The worst that a walk can leave: every page a covered range of its own, a gap after each. Pages
 * are shared among markets by Zipf's law, and were stored in any order.
 */
const MAKE_COVERAGE = `
  INSERT INTO coverage (stream_id, market_id, span, evidence)
  SELECT stream_id, market_id,
         tstzrange(at, CASE page WHEN pages - 1 THEN to_timestamp($2::float8 / 1000)
                                 ELSE at + width * (0.5 + 0.4 * random()) END),
         '{"page": "synthetic"}'
  FROM (
    SELECT s.stream_id, s.market_id, page, pages, ($2::float8 - $1::float8) / pages * interval '1 ms' AS width,
           to_timestamp($1::float8 / 1000) + page * (($2::float8 - $1::float8) / pages) * interval '1 ms' AS at
    FROM stream s, LATERAL (
      SELECT greatest(1, round($3::float8 / ${PAGE_ROWS} / s.market_id
               / (SELECT sum(1.0 / n) FROM generate_series(1, ${MARKETS}) n)
               / CASE s.kind WHEN 'candles' THEN 10 ELSE 1 END))::int AS pages) p,
      generate_series(0, pages - 1) AS page) pages
  ORDER BY random()`;

/** Two of three gaps were tried in vain: of these one half is given up. */
const MAKE_MEMORIES = `
  INSERT INTO gap (stream_id, market_id, span, state, reason, first_seen_at, attempts, next_attempt_at)
  SELECT stream_id, market_id, span, CASE n % 3 WHEN 0 THEN 'open' ELSE 'unfillable' END,
         CASE n % 3 WHEN 0 THEN 'exchange failed' ELSE 'history horizon' END,
         now(), 3, now() + interval '1 hour'
  FROM (
    SELECT stream_id, market_id, row_number() OVER () AS n,
           tstzrange(upper(span), lead(lower(span)) OVER (
             PARTITION BY stream_id ORDER BY lower(span))) AS span
    FROM coverage) gaps
  WHERE upper(span) IS NOT NULL AND n % 3 < 2`;

interface Ledger {
  readonly rows: number;
  readonly islands: number;
  readonly heaviest: number;
  readonly memories: number;
  readonly fromMs: number;
  readonly url: string;
}

async function makeLedger(server: string, rows: number): Promise<Ledger> {
  const name = `ledger_${rows}`;
  await runSql(server, `CREATE DATABASE ${name}`);
  const url = withDatabase(server, name);
  await migrate({ databaseUrl: url });
  const fromMs = END_MS - rows / ROWS_PER_MS;
  await runSql(url, MAKE_MARKETS);
  await runSql(url, MAKE_STREAMS, [fromMs]);
  await runSql(url, MAKE_COVERAGE, [fromMs, END_MS, rows]);
  await runSql(url, MAKE_MEMORIES);
  await runSql(url, 'VACUUM ANALYZE');
  const [counted] = await runSql<{ islands: number; heaviest: number; memories: number }>(
    url,
    `SELECT (SELECT count(*)::int FROM coverage) AS islands, (SELECT count(*)::int FROM gap) AS memories,
            (SELECT count(*)::int FROM coverage GROUP BY stream_id ORDER BY 1 DESC LIMIT 1) AS heaviest`,
  );
  return { rows, islands: 0, heaviest: 0, memories: 0, ...counted, fromMs, url };
}

interface Times {
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Mean size of the answers. */
  readonly answer: number;
}

async function time(samples: number, warmUp: number, ask: () => Promise<number>): Promise<Times> {
  const times: number[] = [];
  let answered = 0;
  for (let at = -warmUp; at < samples; at += 1) {
    const startMs = systemClock.monotonicMs();
    const size = await ask();
    if (at < 0) continue;
    times.push(systemClock.monotonicMs() - startMs);
    answered += size;
  }
  times.sort((a, b) => a - b);
  const at = (share: number) => round(times[Math.ceil(times.length * share) - 1] ?? Number.NaN);
  return { p50Ms: at(0.5), p99Ms: at(0.99), answer: round(answered / samples) };
}

const round = (value: number) => Math.round(value * 100) / 100;

type Question = 'newestIslands' | 'gapsOfWeek' | 'newestGaps' | 'mergedClaim';
type QuestionOfAll = 'gapTotals' | 'statusRows' | 'pending' | 'verdictTotals';
type Answers = Readonly<Record<Question | QuestionOfAll, Times>>;

async function ask(store: Store, ledger: Ledger, random: Random): Promise<Answers> {
  const streams = await store.query<StreamRef>(
    'SELECT stream_id AS "streamId", kind, market_id AS "marketId", variant, NULL AS "collectFromMs" FROM stream ORDER BY 1',
  );
  // The busiest market is asked about most, as it is in life: shares go by Zipf's law here too.
  const anyMarket = () => Math.min(MARKETS, Math.floor(MARKETS ** random()));
  const anyStream = () => {
    const of = streams.filter(({ marketId }) => marketId === anyMarketId);
    return of[Math.floor(random() * of.length)] ?? raise();
  };
  let anyMarketId = 1;
  const stream = () => {
    anyMarketId = anyMarket();
    return anyStream();
  };
  const moment = () => ledger.fromMs + random() * (END_MS - ledger.fromMs);
  const measure = (one: () => Promise<number>) => time(SAMPLES, WARM_UP, one);
  const measureAll = (one: () => Promise<number>) => time(SAMPLES_OF_ALL, 1, one);
  let headMs = END_MS;
  return {
    newestIslands: await measure(async () => (await store.coveredRanges(stream(), 50)).length),
    gapsOfWeek: await measure(async () => {
      const fromMs = Math.floor(moment());
      const span = { fromMs, toMs: fromMs + WEEK_MS };
      const filter = { marketIds: [anyMarket()], span, limit: 50 };
      return (await store.listGaps(filter, END_MS)).length;
    }),
    newestGaps: await measure(async () => (await store.listGaps({ limit: 50 }, END_MS)).length),
    gapTotals: await measureAll(async () => (await store.gapTotals(END_MS)).length),
    statusRows: await measureAll(async () => (await store.statusRows(END_MS)).length),
    pending: await measureAll(async () => (await store.checks.pending(PENDING)).length),
    verdictTotals: await measureAll(async () => (await store.checks.totals()).length),
    mergedClaim: await measure(async () => {
      const one = stream();
      const span = { fromMs: headMs, toMs: headMs + 1_000 };
      headMs += 1_000;
      const claim = {
        stream: one,
        span: { ...span, fromMs: END_MS - 1 },
        evidence: { page: 'next' },
      };
      return (await store.commit({ claims: [claim] })).ranges.length;
    }),
  };
}

function raise(): never {
  throw new Error('no such stream');
}

/** @param options none */
export async function run(): Promise<BenchReport> {
  const server = await startTestPostgres();
  const measured: { readonly ledger: Ledger; readonly answers: Answers }[] = [];
  try {
    for (const rows of SIZES) {
      const ledger = await makeLedger(server.url, rows);
      const random = seededRandom(SEED);
      const store = await openStore({
        ...{ databaseUrl: ledger.url, clock: systemClock, random, telemetry: quietStoreEvents() },
        // The claims that are merged follow the ledger's end: the present lies beyond all of them.
        ...{ commitLatencyMs: 0, exchangeNowMs: () => END_MS + WEEK_MS },
      });
      measured.push({ ledger, answers: await ask(store, ledger, random) });
      await store.stop();
    }
  } finally {
    await server.stop();
  }
  return report(measured);
}

const QUESTIONS: Readonly<Record<Question | QuestionOfAll, string>> = {
  newestIslands: 'newest 50 islands of a stream',
  gapsOfWeek: 'gaps of a market in a week, newest 50',
  newestGaps: 'newest 50 gaps of everything',
  mergedClaim: 'one claim merged, committed to disk',
  gapTotals: 'gap totals, every stream whole',
  statusRows: 'status, every stream whole',
  pending: 'what is to be verified next',
  verdictTotals: 'verdicts of every market',
};

function report(
  measured: readonly { readonly ledger: Ledger; readonly answers: Answers }[],
): BenchReport {
  const names = Object.keys(QUESTIONS) as (Question | QuestionOfAll)[];
  const first = measured[0] ?? raise();
  const last = measured.at(-1) ?? raise();
  const growthOf = (name: Question | QuestionOfAll) =>
    round(last.answers[name].p50Ms / first.answers[name].p50Ms);
  const header = [
    'p50 / p99 ms (mean rows answered)',
    ...measured.map(({ ledger }) => `${ledger.rows.toExponential(0)} rows`),
    'growth',
  ];
  const lines = names.map((name) => [
    QUESTIONS[name],
    ...measured.map(({ answers }) => {
      const { p50Ms, p99Ms, answer } = answers[name];
      return `${p50Ms} / ${p99Ms} (${answer})`;
    }),
    `${growthOf(name)}`,
  ]);
  const sizes = measured.map(({ ledger }) => {
    const { rows, islands, heaviest, memories } = ledger;
    return `${rows.toExponential(0)} rows: ${islands} islands (${heaviest} in the heaviest stream), ${memories} remembered gaps`;
  });
  const perSize = Object.fromEntries(
    measured.map(({ ledger, answers }) => [
      ledger.rows.toExponential(0),
      { ...answers, islands: ledger.islands },
    ]),
  );
  return {
    table: [
      tableOf([header, ...lines]),
      `The ledger is synthetic, with no rows of trades behind it: ${MARKETS} markets of three streams, shares by`,
      `Zipf's law, and the worst that a walk can leave: every page of ${PAGE_ROWS} rows an island of its own.`,
      ...sizes,
    ].join('\n'),
    figures: {
      ratio: Object.fromEntries(names.map((name) => [name, growthOf(name)])),
      perSize,
      seed: SEED,
      samples: SAMPLES,
    },
  };
}
