import {
  PanelBuilder as CandlesBuilder,
  CandlestickFieldMapBuilder,
  VizDisplayMode,
} from '@grafana/grafana-foundation-sdk/candlestick';
import { CustomVariableBuilder } from '@grafana/grafana-foundation-sdk/dashboard';
import { STREAM_KINDS } from '../../../src/model/series.js';
import {
  bars,
  common,
  dashboard,
  figure,
  lines,
  listed,
  POSTGRES,
  rows,
  section,
  sourceVariable,
  targetsOf,
} from './panels.js';

/** The dashboard of whoever reads the archive: SQL of the schema `analytics`, asked by a reader. */

/** Quoted by Grafana, so that no name of a market ends the text. */
const MARKET = `\${market:sqlstring}`;
const KIND = `\${kind:sqlstring}`;
const SPAN = '$__timeFrom(), $__timeTo()';
/** Grafana's own text of a length says months and years, which have no length. */
const LENGTH = 'make_interval(secs => $__interval_ms / 1000)';
const STEP = `${LENGTH}, ${SPAN}`;
/** Candles of whole minutes can be read instead of trades. */
const INTERVAL = '1m';

const one = figure.bind(null, POSTGRES);
const many = lines.bind(null, POSTGRES);
const piled = bars.bind(null, POSTGRES);
const listing = rows.bind(null, POSTGRES);
const table = (sql: string) => [[sql, 'table']] as const;
const series = (sql: string) => [[sql, 'time_series']] as const;

const SUMS = `SELECT sum(expected_s) AS expected, sum(missing_s) AS missing, sum(gaps) AS gaps
FROM generate_series(date_trunc('day', $__timeFrom()::timestamptz, 'UTC'), $__timeTo()::timestamptz, '1 day') AS one,
     analytics.completeness(${MARKET}, (one AT TIME ZONE 'UTC')::date)
WHERE kind IN (${KIND})`;

const FIGURES = [
  one({
    ...{
      title: 'Last price',
      unit: 'none',
      queries: table(
        `SELECT price FROM analytics.trades(${MARKET}, ${SPAN}) ORDER BY traded_at DESC, tid DESC LIMIT 1`,
      ),
    },
    about: 'Price of the last stored trade of the time range, in the quote currency.',
  }),
  one({
    ...{
      title: 'Volume',
      unit: 'short',
      queries: table(
        `SELECT sum(volume) AS volume FROM analytics.candles(${MARKET}, '1 hour', ${SPAN})`,
      ),
    },
    about: 'Traded in the hours of the time range, in the base currency.',
  }),
  one({
    ...{
      title: 'Mean spread',
      unit: 'none',
      queries: table(
        `SELECT sum(spread * held_s) / nullif(sum(held_s) FILTER (WHERE spread IS NOT NULL), 0) AS spread
FROM analytics.spread(${MARKET}, ${SPAN})`,
      ),
    },
    about:
      'Best ask less best bid, in the quote currency, each book weighed with the time for which it held.',
  }),
  one({
    ...{
      title: 'Complete',
      unit: 'percentunit',
      limits: [0.999, 0.99],
      queries: table(`SELECT 1 - missing / nullif(expected, 0) AS share FROM (${SUMS}) s`),
    },
    about: 'Covered share of what is expected of the days of the time range.',
  }),
  one({
    ...{
      title: 'Missing',
      unit: 's',
      limits: [1, 3600],
      queries: table(`SELECT missing FROM (${SUMS}) s`),
    },
    about: 'Sum of the missing time of the days, of all chosen kinds.',
  }),
  one({
    ...{
      title: 'Gaps',
      unit: 'short',
      limits: [1, 10],
      queries: table(`SELECT gaps FROM (${SUMS}) s`),
    },
    about: 'Gaps of the days, of all chosen kinds.',
  }),
];

const candles = {
  ...{ title: 'Candles', unit: 'none', width: 24, interval: INTERVAL },
  about: 'Made of trades; an empty place is not proven complete, or had no trade.',
  queries: table(
    `SELECT open_at AS time, open, high, low, close, volume
FROM analytics.candles(${MARKET}, ${STEP}) ORDER BY open_at`,
  ),
};

const PRICES = [
  common(new CandlesBuilder(), POSTGRES, candles)
    .targets(targetsOf(POSTGRES, candles, false))
    .mode(VizDisplayMode.CandlesVolume)
    .fields(
      new CandlestickFieldMapBuilder()
        .open('open')
        .high('high')
        .low('low')
        .close('close')
        .volume('volume'),
    )
    .height(12)
    .span(24),
  piled({
    ...{ title: 'Volume by side', unit: 'short', interval: INTERVAL },
    about: 'Traded in the base currency, by the side of the taker.',
    queries: series(
      `SELECT open_at AS time, buy_volume AS buy, sell_volume AS sell
FROM analytics.vwap(${MARKET}, ${STEP}, from_trades => true) ORDER BY open_at`,
    ),
  }),
  many({
    ...{ title: 'Spread', unit: 'none', interval: INTERVAL },
    about: 'Best ask less best bid of the observed books, in the quote currency.',
    queries: series(
      `SELECT date_bin(${LENGTH}, held_from, 'epoch') AS time, min(spread) AS least, max(spread) AS most
FROM analytics.spread(${MARKET}, ${SPAN}) GROUP BY 1 ORDER BY 1`,
    ),
  }),
  many({
    ...{ title: 'Average price', unit: 'none', interval: INTERVAL },
    about: 'Volume-weighted average price.',
    queries: series(
      `SELECT open_at AS time, vwap FROM analytics.vwap(${MARKET}, ${STEP}) ORDER BY open_at`,
    ),
  }),
];

const COMPLETENESS = [
  many({
    ...{ title: 'Complete by day', unit: 'percentunit', width: 12, interval: '1d' },
    about: 'Covered share of what is expected of each day (UTC), by kind.',
    queries: series(
      `SELECT one AS time, kind || CASE variant WHEN 0 THEN '' ELSE ' ' || variant END AS metric, share
FROM generate_series(date_trunc('day', $__timeFrom()::timestamptz, 'UTC'), $__timeTo()::timestamptz, '1 day') AS one,
     analytics.completeness(${MARKET}, (one AT TIME ZONE 'UTC')::date)
WHERE kind IN (${KIND}) ORDER BY 1, 2`,
    ),
  }),
  listing({
    ...{ title: 'Gaps', unit: 'none' },
    about: 'What is expected and not covered. tapekeep gaps explain says why, and what to do.',
    queries: table(
      `SELECT kind, variant, starts_at, ends_at, length::text AS length, state, reason, attempts, note
FROM analytics.gaps(${MARKET}, NULL, ${SPAN})
WHERE kind IN (${KIND}) AND NOT is_lag ORDER BY starts_at DESC LIMIT 500`,
    ),
  }),
  listing({
    ...{ title: 'Candles compared with trades', unit: 'none' },
    about: 'Runs of candles of the exchange that match the stored trades, and candles that do not.',
    queries: table(
      `SELECT outcome, count(c.starts_at) AS pieces, max(c.ends_at) AS newest
FROM unnest(ARRAY['match', 'mismatch', 'unproven']) AS outcome
LEFT JOIN (
  SELECT * FROM analytics.candle_checks
  WHERE market = ${MARKET} AND starts_at < $__timeTo() AND ends_at > $__timeFrom()) c USING (outcome)
GROUP BY 1 ORDER BY 1`,
    ),
  }),
];

const ARCHIVE = [
  piled({
    ...{ title: 'Rows by day', unit: 'short', width: 12, interval: '1d' },
    about: 'Stored rows of each day (UTC), archived ones included.',
    queries: series(
      `SELECT day::timestamp AT TIME ZONE 'UTC' AS time, kind AS metric, sum(rows) AS rows
FROM analytics.rows_by_day
WHERE market = ${MARKET} AND kind IN (${KIND}) AND $__timeFilter(day::timestamp AT TIME ZONE 'UTC')
GROUP BY 1, 2 ORDER BY 1`,
    ),
  }),
  listing({
    ...{ title: 'Where the rows are', unit: 'short' },
    about: 'Partitions of the time range: hot, sealed, archived (in cold files) or expired.',
    queries: table(
      `SELECT table_name, state, count(*) AS partitions, min(starts_at) AS first, max(ends_at) AS last,
       sum(rows) AS rows
FROM analytics.partitions WHERE starts_at < $__timeTo() AND ends_at > $__timeFrom()
GROUP BY 1, 2 ORDER BY 1, 2`,
    ),
  }),
  listing({
    ...{ title: 'Last trade of each market', unit: 'none', width: 12 },
    about: 'The newest stored trade, and how long ago it was received.',
    queries: table(
      `SELECT market, price, side::text AS side, traded_at, (now() - received_at)::text AS age
FROM analytics.last_trades() ORDER BY market`,
    ),
  }),
  listing({
    ...{ title: 'Refused rows', unit: 'short', width: 12 },
    about: 'Rows that were refused since the archive began, and why.',
    queries: table(
      `SELECT reason, sum(count) AS rows, max(last_at) AS newest FROM analytics.refusals GROUP BY 1
UNION ALL SELECT 'none', 0, NULL WHERE NOT EXISTS (SELECT FROM analytics.refusals)
ORDER BY 2 DESC`,
    ),
  }),
];

export function analysts() {
  const kinds = new CustomVariableBuilder('kind')
    .values(STREAM_KINDS.join(','))
    .multi(true)
    .includeAll(true)
    .current({ selected: true, text: ['All'], value: ['$__all'] });
  const board = dashboard(
    'tapekeep-analysts',
    'tapekeep: analysts',
    'Prices, volumes and spread of a market, and how complete they are, from the archive itself.',
  )
    .time({ from: 'now-24h', to: 'now' })
    .refresh('5m')
    .withVariable(sourceVariable(POSTGRES, 'Archive'))
    .withVariable(
      listed(POSTGRES, 'market', 'SELECT market FROM analytics.markets ORDER BY market', false),
    )
    .withVariable(kinds);
  section(board, 'Figures', FIGURES);
  section(board, 'Prices', PRICES);
  section(board, 'Completeness', COMPLETENESS);
  return section(board, 'Archive', ARCHIVE);
}
