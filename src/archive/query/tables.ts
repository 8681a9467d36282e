import { SERIES_KINDS, type SeriesKind, tableOfKind } from '../../model/kinds.js';
import { viewOf } from '../../model/series.js';
import type { LedgerTable } from '../../store/index.js';
import { decimalForm, longestSql } from '../parquet/columns.js';

/** All tables that it can ask; `depth_levels` are the rows of `depth`, a row for each level. */
export const QUERY_TABLES = [
  ...SERIES_KINDS.map((kind) => viewOf(tableOfKind(kind))),
  ...(['depth_levels', 'markets', 'coverage', 'gaps'] as const),
] as const;
export type QueryTable = (typeof QUERY_TABLES)[number];

/** The series behind a table; undefined for what is of the ledger. */
export function seriesBehind(table: string): SeriesKind | undefined {
  return table === 'depth_levels'
    ? 'depth'
    : SERIES_KINDS.find((kind) => viewOf(tableOfKind(kind)) === table);
}

export function isQueryTable(name: string): name is QueryTable {
  return (QUERY_TABLES as readonly string[]).includes(name);
}

/** Levels of books, a row for each; the best is 1. */
export const DEPTH_LEVELS = `
  SELECT market, observed_at, 'bid' AS side, unnest(range(1, len(bid_prices) + 1))::INTEGER AS level,
         unnest(bid_prices) AS price, unnest(bid_amounts) AS amount, received_at FROM depth
  UNION ALL
  SELECT market, observed_at, 'ask', unnest(range(1, len(ask_prices) + 1))::INTEGER,
         unnest(ask_prices), unnest(ask_amounts), received_at FROM depth`;

const KEY = `market: 'VARCHAR', kind: 'VARCHAR', variant: 'INTEGER', starts_at: 'TIMESTAMPTZ', ends_at: 'TIMESTAMPTZ'`;
/** Columns of the ledger's tables with their types in DuckDB, as the store writes them. */
export const LEDGER_COLUMNS: Readonly<Record<LedgerTable, string>> = {
  markets: `market: 'VARCHAR', base: 'VARCHAR', quote: 'VARCHAR', base_prec: 'INTEGER',
    quote_prec: 'INTEGER', fee_prec: 'INTEGER', min_amount: 'DECIMAL(38,18)',
    first_seen_at: 'TIMESTAMPTZ', last_seen_at: 'TIMESTAMPTZ', delisted_at: 'TIMESTAMPTZ',
    market_id: 'INTEGER'`,
  coverage: `${KEY}, updated_at: 'TIMESTAMPTZ'`,
  gaps: `${KEY}, state: 'VARCHAR', reason: 'VARCHAR', is_lag: 'BOOLEAN', attempts: 'INTEGER',
    first_seen_at: 'TIMESTAMPTZ', next_attempt_at: 'TIMESTAMPTZ', note: 'VARCHAR',
    is_before_history: 'BOOLEAN'`,
};

/**
 * Questions that a statement can ask as tables with arguments, over hot and cold rows as one. They
 * answer as the functions of the same names in Postgres do (schema analytics), always from trades; quotients are
 * floating-point numbers here, as everywhere in DuckDB.
 */
export const QUESTIONS = ['candles', 'vwap', 'returns'] as const;
export type QuestionName = (typeof QUESTIONS)[number];

/** Parts of the tables. */
export const QUESTION_TABLES: readonly QueryTable[] = ['trades', 'coverage', 'markets'];

export function isQuestion(name: string): name is QuestionName {
  return (QUESTIONS as readonly string[]).includes(name);
}

const ARGUMENTS = `market, step, from_at, to_at, origin := '1970-01-01 00:00:00+00', from_trades := true`;
const PASSED_ON = 'market, step, from_at, to_at, origin := origin';

/** Readers of arguments: each refuses what cannot be meant. */
const READERS = [
  `known_market(name) AS (
     CASE WHEN name IN (SELECT m.market FROM main.markets m) THEN name
          ELSE error('there is no market ' || coalesce(name, 'NULL') || coalesce('. The nearest name is '
                     || (SELECT max_by(m.market, jaro_winkler_similarity(m.market, upper(name))) FROM main.markets m), '')) END)`,
  `slot_length(step) AS (
     SELECT CASE WHEN l.length IS NULL OR datepart('year', l.length) <> 0 OR datepart('month', l.length) <> 0
                      OR epoch(l.length) < 1 OR epoch(l.length) > 31622400 OR epoch(l.length) % 1 <> 0
                 THEN error('a slot of ' || coalesce(step::VARCHAR, 'NULL') || ' is not a whole number of seconds of '
                            || 'one fixed length. Write ''1 minute'', ''4 hours'', ''7 days'' or seconds such as 900')
                 ELSE l.length END
     FROM (SELECT TRY_CAST(step::VARCHAR AS INTERVAL) AS length) l)`,
  `span_start(from_at, to_at) AS (
     CASE WHEN from_at IS NULL OR to_at IS NULL THEN error('a span needs a begin and an end')
          WHEN from_at > to_at THEN error('the span ends at ' || to_at || ', before it begins at ' || from_at)
          ELSE from_at END)`,
];

/** The slots that are asked for, and whether all trades of each are proven to be there. */
const SLOTS = `
  WITH asked AS MATERIALIZED (
    SELECT known_market(market) AS market_name, slot_length(step) AS length,
           span_start(from_at::TIMESTAMPTZ, to_at::TIMESTAMPTZ) AS start_at,
           to_at::TIMESTAMPTZ AS stop_at, origin::TIMESTAMPTZ AS zero_at),
  opened AS (
    SELECT unnest(range(f.first_at + CASE WHEN f.first_at < f.start_at THEN f.length ELSE INTERVAL 0 SECOND END,
                        f.stop_at, f.length)) AS open_at, f.length
    FROM (SELECT a.*, time_bucket(a.length, a.start_at, a.zero_at) AS first_at FROM asked a) f),
  -- Pieces that meet prove as much as one.
  pieces AS (
    SELECT c.starts_at, c.ends_at,
           max(c.ends_at) OVER (ORDER BY c.starts_at, c.ends_at
                                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_at
    FROM main.coverage c, asked a WHERE c.market = a.market_name AND c.kind = 'trades'),
  ranges AS (
    SELECT min(n.starts_at) AS starts_at, max(n.ends_at) AS ends_at
    FROM (SELECT p.*, count(*) FILTER (p.before_at IS NULL OR p.starts_at > p.before_at)
                        OVER (ORDER BY p.starts_at, p.ends_at) AS number FROM pieces p) n
    GROUP BY n.number),
  slot AS (
    SELECT o.open_at, coalesce(o.open_at + o.length <= i.ends_at, false) AS is_complete
    FROM opened o ASOF LEFT JOIN ranges i ON o.open_at >= i.starts_at),
  traded AS (
    SELECT t.*, time_bucket(a.length, t.traded_at, a.zero_at) AS open_at
    FROM main.trades t, asked a
    WHERE t.market = a.market_name AND t.traded_at >= a.start_at AND t.traded_at < a.stop_at + a.length
      -- The same by the arguments themselves: by constants rows are left out before they are read.
      AND t.market = market AND t.traded_at >= from_at::TIMESTAMPTZ
      AND t.traded_at < to_at::TIMESTAMPTZ + TRY_CAST(step::VARCHAR AS INTERVAL))`;

const ANSWERS: Readonly<Record<QuestionName, string>> = {
  candles: `${SLOTS}
  SELECT s.open_at, x.open, x.high, x.low, x.close,
         CASE WHEN s.is_complete THEN coalesce(x.volume, $amount) ELSE x.volume END AS volume,
         CASE WHEN s.is_complete THEN coalesce(x.quote_volume, $total) ELSE x.quote_volume END AS quote_volume,
         CASE WHEN s.is_complete THEN coalesce(x.trades, 0) ELSE x.trades END AS trades, s.is_complete, 'trades' AS source
  FROM slot s LEFT JOIN (
    SELECT t.open_at, arg_min(t.price, (t.traded_at, t.tid)) AS open, max(t.price) AS high,
           min(t.price) AS low, arg_max(t.price, (t.traded_at, t.tid)) AS close,
           sum(t.amount) AS volume, sum(t.total) AS quote_volume, count(*) AS trades
    FROM traded t GROUP BY t.open_at) x ON x.open_at = s.open_at
  ORDER BY s.open_at`,
  vwap: `${SLOTS}
  SELECT s.open_at, x.paid / x.volume AS vwap,
         CASE WHEN s.is_complete THEN coalesce(x.volume, $amount) ELSE x.volume END AS volume,
         CASE WHEN s.is_complete OR x.trades > 0 THEN coalesce(x.bought, $amount) END AS buy_volume,
         CASE WHEN s.is_complete OR x.trades > 0 THEN coalesce(x.sold, $amount) END AS sell_volume,
         CASE WHEN s.is_complete THEN coalesce(x.trades, 0) ELSE x.trades END AS trades, s.is_complete, 'trades' AS source
  FROM slot s LEFT JOIN (
    SELECT t.open_at, sum(t.price * t.amount) AS paid, sum(t.amount) AS volume, count(*) AS trades,
           sum(t.amount) FILTER (t.side = 'buy') AS bought, sum(t.amount) FILTER (t.side = 'sell') AS sold
    FROM traded t GROUP BY t.open_at) x ON x.open_at = s.open_at
  ORDER BY s.open_at`,
  returns: `
  SELECT p.open_at, p.price AS close, p.price / p.earlier - 1 AS simple_return,
         ln(p.price / p.earlier) AS log_return, p.is_complete, 'trades' AS source
  FROM (
    SELECT k.*, lag(k.price) OVER (ORDER BY k.open_at) AS earlier
    FROM (
      -- A complete slot without trades keeps the price before it; a gap ends what is known of it.
      SELECT h.open_at, h.is_complete, first_value(CASE WHEN h.is_complete THEN h.close END)
               OVER (PARTITION BY h.run ORDER BY h.open_at) AS price
      FROM (SELECT c.open_at, c.close, c.is_complete,
                   count(*) FILTER (c.close IS NOT NULL OR NOT c.is_complete)
                     OVER (ORDER BY c.open_at) AS run
            FROM main.candles(${PASSED_ON}) c) h) k) p
  ORDER BY p.open_at`,
};

/**
 * Statements that make the questions; the tables of {@link QUESTION_TABLES} are there before.
 *
 * @param types of the columns of trades
 */
export function questionSql(types: ReadonlyMap<string, string>): string[] {
  // The sum of a column has all of its digits after the point; a zero of another type could cost some.
  const zero = (column: string) => {
    const scale = decimalForm(types.get(column) ?? '')?.scale ?? 0;
    return `0::${longestSql(scale)}`;
  };
  const answer = (name: QuestionName) =>
    ANSWERS[name].replaceAll(/\$(amount|total)\b/g, (_, column: string) => zero(column));
  return [
    ...READERS.map((reader) => `CREATE OR REPLACE MACRO main.${reader}`),
    ...QUESTIONS.flatMap((name) => [
      `CREATE OR REPLACE MACRO main.${name}(${ARGUMENTS}) AS TABLE ${answer(name)}`,
      `CREATE OR REPLACE MACRO analytics.${name}(${ARGUMENTS}) AS TABLE FROM main.${name}(${PASSED_ON})`,
    ]),
  ];
}
