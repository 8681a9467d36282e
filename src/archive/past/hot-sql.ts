import { type SeriesTable, seriesOf } from '../../model/series.js';

/**
 * Statements about one market in the database. Times cross as numbers: seconds and milliseconds are
 * exact in a double, microseconds too. Every statement names the piece of time that it looks at, so
 * that the planner opens those partitions and no others.
 */

export const momentOf = (expression: string) =>
  `(timestamptz 'epoch' + (${expression})::float8 * interval '1 ms')`;
const secondOf = (expression: string) =>
  `(timestamptz 'epoch' + (${expression})::float8 * interval '1 s')`;
export const millisOf = (expression: string) =>
  `(extract(epoch FROM ${expression}) * 1000)::float8`;
const secondsOf = (expression: string) => `extract(epoch FROM ${expression})::float8`;

/** Rows that this machine had by `$known` (null: all). */
const known = (place: string) => `(${place}::float8 IS NULL OR received_at <= ${momentOf(place)})`;

const within = (column: string, from: string, to: string) =>
  `${column} >= ${momentOf(from)} AND ${column} < ${momentOf(to)}`;

export const TRADE_COLUMNS = `
  market_id AS "marketId", tid::float8 AS tid, ${secondsOf('traded_at')} AS "tradedAtS",
  (extract(epoch FROM executed_at) * 1000000)::float8 AS "executedAtUs",
  price, amount, total, side, ${millisOf('received_at')} AS "receivedAtMs"`;

/** $1 market, $2 $3 span, $4 $5 place, $6 limit, $7 known */
export const TRADES_BEFORE = `
  SELECT ${TRADE_COLUMNS} FROM trade
  WHERE market_id = $1 AND ${within('traded_at', '$2', '$3')}
    AND (traded_at, tid) < (${secondOf('$4')}, $5::bigint) AND ${known('$7')}
  ORDER BY traded_at DESC, tid DESC LIMIT $6`;

/** $1 market, $2 $3 span, $4 $5 place, $6 $7 lower place, $8 step, $9 most rows, $10 carried over */
export const TRADE_MARKS = `
  SELECT "tradedAtS", tid, count FROM (
    SELECT "tradedAtS", tid, n, max(n) OVER () AS count FROM (
      SELECT ${secondsOf('traded_at')} AS "tradedAtS", tid::float8 AS tid,
             row_number() OVER (ORDER BY traded_at DESC, tid DESC)::float8 AS n
      FROM trade
      WHERE market_id = $1 AND ${within('traded_at', '$2', '$3')}
        AND (traded_at, tid) < (${secondOf('$4')}, $5::bigint)
        AND (traded_at, tid) >= (${secondOf('$6')}, $7::bigint)
      ORDER BY traded_at DESC, tid DESC LIMIT $9) numbered) counted
  WHERE n = count OR (n::bigint + $10::bigint) % $8::bigint = 0 ORDER BY n`;

/** $1 market, $2 $3 span, $4 $5 from, $6 $7 before, $8 interval, $9 known */
export const CANDLES_OF_TRADES = `
  SELECT "openAtS", (array_agg(price ORDER BY traded_at, tid))[1]::text AS open,
         (array_agg(price ORDER BY traded_at DESC, tid DESC))[1]::text AS close,
         max(price)::text AS high, min(price)::text AS low,
         trim_scale(sum(amount))::text AS volume, trim_scale(sum(total))::text AS amount
  FROM (
    SELECT traded_at, tid, price, amount, total,
           floor(extract(epoch FROM traded_at) / $8::bigint)::float8 * $8::bigint AS "openAtS"
    FROM trade
    WHERE market_id = $1 AND ${within('traded_at', '$2', '$3')}
      AND (traded_at, tid) >= (${secondOf('$4')}, $5::bigint)
      AND (traded_at, tid) < (${secondOf('$6')}, $7::bigint) AND ${known('$9')}) t
  GROUP BY "openAtS" ORDER BY "openAtS"`;

/** From its exact time on a trade is seen, or from the end of its second on. */
const SEEN_AT = `coalesce(executed_at, traded_at + interval '1 s')`;
/** $1 market, $2 $3 span, $4 $5 from, $6 $7 before, $8 the moment, $9 limit: seen by then, received later */
export const LATE_TRADES = `
  SELECT ${TRADE_COLUMNS} FROM trade
  WHERE market_id = $1 AND ${within('traded_at', '$2', '$3')}
    AND (traded_at, tid) >= (${secondOf('$4')}, $5::bigint)
    AND (traded_at, tid) < (${secondOf('$6')}, $7::bigint)
    AND received_at > ${momentOf('$8')} AND ${SEEN_AT} <= ${momentOf('$8')}
  ORDER BY traded_at DESC, tid DESC LIMIT $9`;

/** As {@link CANDLES_OF_TRADES}: which of them lack trades that were received after $9. */
export const LATE_CANDLES_OF_TRADES = `
  SELECT DISTINCT floor(extract(epoch FROM traded_at) / $8::bigint)::float8 * $8::bigint AS "openAtS"
  FROM trade
  WHERE market_id = $1 AND ${within('traded_at', '$2', '$3')}
    AND (traded_at, tid) >= (${secondOf('$4')}, $5::bigint)
    AND (traded_at, tid) < (${secondOf('$6')}, $7::bigint) AND received_at > ${momentOf('$9')}
  ORDER BY "openAtS"`;

const CANDLE_COLUMNS = `${secondsOf('open_at')} AS "openAtS", open, close, high, low, volume, amount`;
const CANDLE_OF = `market_id = $1 AND interval_s = $4 AND ${within('open_at', '$2', '$3')}`;

/** $1 market, $2 $3 span, $4 interval, $5 limit, $6 known */
export const KLINES = `
  SELECT ${CANDLE_COLUMNS} FROM kline WHERE ${CANDLE_OF} AND ${known('$6')}
  ORDER BY open_at LIMIT $5`;

/** The same of versions that were the newest at $6, and are no more. */
export const FORMER_KLINES = `
  SELECT ${CANDLE_COLUMNS} FROM kline_revision
  WHERE ${CANDLE_OF} AND known_from <= ${momentOf('$6')} AND known_to > ${momentOf('$6')}
  ORDER BY open_at LIMIT $5`;

/** As {@link KLINES}: candles whose newest version was received after $6. */
export const LATE_KLINES = `
  SELECT ${secondsOf('open_at')} AS "openAtS" FROM kline
  WHERE ${CANDLE_OF} AND received_at > ${momentOf('$6')} ORDER BY open_at LIMIT $5`;

const OBSERVED = `market_id AS "marketId", ${millisOf('observed_at')} AS "observedAtMs",
  ${millisOf('received_at')} AS "receivedAtMs"`;

interface Observed {
  readonly table: 'depth' | 'market_state';
  readonly columns: string;
}

const TICKER_COLUMNS = `${OBSERVED}, ${millisOf('at')} AS "atMs", bid, ask, open, high, low, last, volume,
  deal, change`;
/** $1 markets, $2 $3 span, $4 known: of each market the last one */
export const LAST_TICKERS = `
  SELECT found.* FROM unnest($1::int[]) AS m(id), LATERAL (
    SELECT ${TICKER_COLUMNS} FROM ticker
    WHERE market_id = m.id AND ${within('observed_at', '$2', '$3')} AND ${known('$4')}
    ORDER BY observed_at DESC LIMIT 1) found`;
/** $1 markets, $2 $3 span: the first one of any of them */
export const NEXT_TICKER = `
  SELECT min(found.at) AS "atMs" FROM unnest($1::int[]) AS m(id), LATERAL (
    SELECT ${millisOf('observed_at')} AS at FROM ticker
    WHERE market_id = m.id AND ${within('observed_at', '$2', '$3')}
    ORDER BY observed_at LIMIT 1) found`;
export const DEPTHS: Observed = {
  table: 'depth',
  columns: `${OBSERVED}, bid_prices::text[] AS "bidPrices", bid_amounts::text[] AS "bidAmounts",
    ask_prices::text[] AS "askPrices", ask_amounts::text[] AS "askAmounts"`,
};
export const STATES: Observed = {
  table: 'market_state',
  columns: `${OBSERVED}, period_s AS "periodS", seq, origin, last, open, close, high, low, deal,
    volume, change, session_id::float8 AS "sessionId"`,
};

/** $1 market, $2 $3 span, $4 known; of states also $5 period, $6 whether pushed ones only */
export function lastBefore({ table, columns }: Observed): string {
  const isState = table === 'market_state';
  const more = isState ? `AND period_s = $5 AND (NOT $6::boolean OR origin = 'update')` : '';
  const order = isState ? 'observed_at DESC, seq DESC' : 'observed_at DESC';
  return `SELECT ${columns} FROM ${table}
    WHERE market_id = $1 AND ${within('observed_at', '$2', '$3')} AND ${known('$4')} ${more}
    ORDER BY ${order} LIMIT 1`;
}

/** $1 market, $2 $3 span; of states also $4 period, $5 whether pushed ones only */
export function firstAfter({ table }: Pick<Observed, 'table'>): string {
  const isState = table === 'market_state';
  const more = isState ? `AND period_s = $4 AND (NOT $5::boolean OR origin = 'update')` : '';
  return `SELECT ${millisOf('observed_at')} AS "atMs" FROM ${table}
    WHERE market_id = $1 AND ${within('observed_at', '$2', '$3')} ${more}
    ORDER BY observed_at LIMIT 1`;
}

/**
 * $1 markets, $2 $3 span, $4 of each from when on, $5 of each the period, $6 moment: the first one of any
 * of them that was received after the moment
 */
export function firstLate(table: SeriesTable): string {
  const { variant } = seriesOf(table);
  const ofPeriod = variant === null ? '' : `AND ${variant} = m.period`;
  return `SELECT min(found.at) AS "atMs"
    FROM unnest($1::int[], $4::float8[], $5::int[]) AS m(id, since, period), LATERAL (
      SELECT ${millisOf('observed_at')} AS at FROM ${table}
      WHERE market_id = m.id ${ofPeriod} AND ${within('observed_at', '$2', '$3')}
        AND observed_at >= ${momentOf('m.since')} AND received_at > ${momentOf('$6')}
      ORDER BY observed_at LIMIT 1) found`;
}

/** Whole microseconds: what is lost in seconds as a double is less than half of one. */
const microsText = (expression: string) => `round(date_part('epoch', ${expression}) * 1e6)`;
/**
 * $1 market, $2 $3 span, $4 period, $5 $6 place, $7 limit. One text with a line for each row: moment,
 * number, receipt, record. A feed at full speed would spend most of its time on taking rows apart, and
 * columns, and putting them together again.
 */
export const UPDATES_AFTER = `
  SELECT string_agg(line, E'\\n') AS lines FROM (
    SELECT concat(${microsText('observed_at')}, E'\\t', seq, E'\\t', ${microsText('received_at')}, E'\\t',
      '{"period":', period_s, ',"last":"', last, '","open":"', open, '","close":"', close,
      '","high":"', high, '","low":"', low, '","deal":"', deal, '","volume":"', volume, '"}') AS line
    FROM market_state
    WHERE market_id = $1 AND period_s = $4 AND ${within('observed_at', '$2', '$3')}
      AND (observed_at, seq) > (${momentOf('$5')}, $6::int) AND origin = 'update'
    ORDER BY observed_at, seq LIMIT $7) written`;

/** $1 markets, $2 $3 span, $4 moment: when the first trade that is not seen by then will be */
export const NEXT_TRADE = `
  SELECT min(found.at) AS "atMs" FROM unnest($1::int[]) AS m(id), LATERAL (
    SELECT ${millisOf(SEEN_AT)} AS at FROM trade
    WHERE market_id = m.id AND ${within('traded_at', '$2', '$3')} AND ${SEEN_AT} > ${momentOf('$4')}
    ORDER BY traded_at, tid LIMIT 1) found`;
/** As {@link NEXT_TICKER}. */
export const NEXT_DEPTH = NEXT_TICKER.replace('FROM ticker', 'FROM depth');
/** As {@link NEXT_TICKER}; $4 the periods, one for each market. */
export const NEXT_STATE = `
  SELECT min(found.at) AS "atMs" FROM unnest($1::int[], $4::int[]) AS m(id, period), LATERAL (
    SELECT ${millisOf('observed_at')} AS at FROM market_state
    WHERE market_id = m.id AND period_s = m.period AND ${within('observed_at', '$2', '$3')}
    ORDER BY observed_at LIMIT 1) found`;

export const MARKETS = `
  SELECT m.market_id AS "marketId", m.name, m.stock, m.money, m.stock_prec AS "stockPrec",
         m.money_prec AS "moneyPrec", m.fee_prec AS "feePrec", m.min_amount AS "minAmount",
         ${millisOf('m.first_seen_at')} AS "firstSeenMs", ${millisOf('m.delisted_at')} AS "delistedMs",
         (SELECT ${millisOf('min(lower(c.span))')} FROM coverage c
          WHERE c.market_id = m.market_id) AS "oldestCoveredMs"
  FROM market m WHERE m.market_id <> 0 ORDER BY m.name`;
export const FORMER_TERMS = `
  SELECT market_id AS "marketId", stock_prec AS "stockPrec", money_prec AS "moneyPrec",
         fee_prec AS "feePrec", min_amount AS "minAmount", ${millisOf('upper(span)')} AS "untilMs"
  FROM market_history WHERE market_id <> 0 ORDER BY market_id, lower(span)`;
export const IDENTITY = `
  SELECT name, base_url AS "baseUrl", identity, created_at::text AS "createdAt" FROM archive`;
/** $1 stream, $2 market, $3 $4 span */
export const SESSIONS = `
  SELECT ${millisOf('connected_at')} AS "openedMs",
         ${millisOf('coalesce(closed_at, last_message_at)')} AS "endedMs",
         close_code AS "closeCode", coalesce(reason, 'not closed') AS reason
  FROM session
  WHERE stream_id = $1 AND market_id = $2 AND connected_at < ${momentOf('$4')}
    AND coalesce(closed_at, last_message_at) >= ${momentOf('$3')}
  ORDER BY connected_at LIMIT 100000`;
/** The begin of each table's oldest partition. */
export const OLDEST = `
  SELECT table_name AS "table", ${millisOf('min(lower(span))')} AS "oldestMs"
  FROM partition_state GROUP BY table_name`;
