import { SECOND_MS } from '../../kernel/durations.js';
import { comparePlaces } from '../../model/order.js';
import type { RowOf } from '../../model/series.js';
import { type Store, timestampSql } from '../../store/index.js';
import { appendCandles, type BuiltCandle, CandleMaker } from '../candles.js';
import { shortest } from '../parquet/values.js';
import { type Condition, placeIs } from './hot-rows.js';
import { type AsOfSearch, coldNewest } from './search.js';

/** Runs of trades: counted, and summed up to candles. */

export { comparePlaces };

type TradeRow = RowOf<'trade'>;

/** Place of a trade in the order of time and id; as an upper end it is itself left out. */
export type TradePlace = Pick<TradeRow, 'tradedAtS' | 'tid'>;

/** Before every trade of a second. */
export function startOfSecond(second: number): TradePlace {
  return { tradedAtS: second, tid: 0 };
}

/** Places that divide a run of trades into pieces of equal size. */
export interface TradeMarks {
  /** Newest first: between the `n`th (included) and the upper end lie `n × step` trades. */
  readonly checkpoints: readonly TradePlace[];
  /** Trades that were counted. */
  readonly count: number;
  /** False: counting stopped at its limit, not at the lower end. */
  readonly isWhole: boolean;
}

/** From its exact time on a trade is seen, or from the end of its second on. */
export const TRADE_SEEN = {
  sql: `coalesce(executed_at, traded_at + interval '1 s')`,
  of: ({ executedAtUs, tradedAtS }: TradeRow): number =>
    executedAtUs === null ? (tradedAtS + 1) * SECOND_MS : executedAtUs / 1000,
};

/** Trades that are seen only after an instant. */
export function tradeIsSeenAfter(atMs: number): Condition<TradeRow> {
  return {
    sql: (add) => `${TRADE_SEEN.sql} > ${timestampSql(add(atMs))}`,
    isMet: (row) => TRADE_SEEN.of(row) > atMs,
  };
}

const second = (expression: string) => timestampSql(`${expression}::float8 * 1000`);
const SECOND_OF = 'extract(epoch FROM traded_at)::float8';
const OPEN_AT = 'floor(extract(epoch FROM traded_at) / $8::bigint)::float8 * $8::bigint';

/** $1 market, $2 $3 span, $4 $5 from, $6 $7 before */
const RUN = `market_id = $1 AND traded_at >= ${timestampSql('$2')} AND traded_at < ${timestampSql('$3')}
  AND (traded_at, tid) >= (${second('$4')}, $5::bigint)
  AND (traded_at, tid) < (${second('$6')}, $7::bigint)`;

/** $8 step, $9 most rows, $10 carried over */
const TRADE_MARKS = `
  SELECT "tradedAtS", tid, count FROM (
    SELECT "tradedAtS", tid, n, max(n) OVER () AS count FROM (
      SELECT ${SECOND_OF} AS "tradedAtS", tid::float8 AS tid,
             row_number() OVER (ORDER BY traded_at DESC, tid DESC)::float8 AS n
      FROM trade WHERE ${RUN} ORDER BY traded_at DESC, tid DESC LIMIT $9) numbered) counted
  WHERE n = count OR (n::bigint + $10::bigint) % $8::bigint = 0 ORDER BY n`;

/** $8 interval */
const CANDLES_OF_TRADES = `
  SELECT "openAtS", (array_agg(price ORDER BY traded_at, tid))[1]::text AS open,
         (array_agg(price ORDER BY traded_at DESC, tid DESC))[1]::text AS close,
         max(price)::text AS high, min(price)::text AS low,
         trim_scale(sum(amount))::text AS volume, trim_scale(sum(total))::text AS "quoteVolume"
  FROM (
    SELECT traded_at, tid, price, amount, total, ${OPEN_AT} AS "openAtS" FROM trade
    WHERE ${RUN}) t
  GROUP BY "openAtS" ORDER BY "openAtS"`;

/** Before everything that there can be. */
const START: TradePlace = { tradedAtS: 0, tid: 0 };

/** The trades of a market, as a series that is asked for. */
export const tradesOf = (marketId: number) => ({ kind: 'trades', marketId, variantS: 0 }) as const;

/** The seconds between two places. */
const spanOf = (from: TradePlace, before: TradePlace) => ({
  fromMs: from.tradedAtS * SECOND_MS,
  toMs: (before.tradedAtS + 1) * SECOND_MS,
});

/** Runs of trades, in the database and in files as one. */
export class TradeRuns {
  readonly #store: Pick<Store, 'query'>;
  readonly #search: AsOfSearch;

  constructor(store: Pick<Store, 'query'>, search: AsOfSearch) {
    this.#store = store;
    this.#search = search;
  }

  /** Counts trades down from a place, to another one (included) or as far as `maxCount` goes. */
  async count(
    marketId: number,
    before: TradePlace,
    downTo: TradePlace = START,
    { step, maxCount }: { readonly step: number; readonly maxCount: number },
  ): Promise<TradeMarks> {
    const checkpoints: TradePlace[] = [];
    let count = 0;
    await this.#search.eachPart(
      'trades',
      spanOf(downTo, before),
      'descending',
      async (part, held) => {
        const left = maxCount - count;
        if (part.state === 'hot') {
          const rows = await this.#store.query<TradePlace & { readonly count: number }>(
            TRADE_MARKS,
            [
              ...[marketId, part.span.fromMs, part.span.toMs, downTo.tradedAtS, downTo.tid],
              ...[before.tradedAtS, before.tid, step, left, count % step],
            ],
          );
          const inPart = rows[0]?.count ?? 0;
          const marked = Math.floor((count + inPart) / step) - Math.floor(count / step);
          checkpoints.push(
            ...rows.slice(0, marked).map(({ tradedAtS, tid }) => ({ tradedAtS, tid })),
          );
          count += inPart;
          return inPart < left;
        }
        if (part.state === 'expired') return true;
        const where = [placeIs('trades', '<', before), placeIs('trades', '>=', downTo)];
        const rows = await coldNewest(held, { ...tradesOf(marketId), where }, part.span, left);
        for (const { tradedAtS, tid } of rows) {
          count += 1;
          if (count % step === 0) checkpoints.push({ tradedAtS, tid });
        }
        return rows.length < left;
      },
    );
    return { checkpoints, count, isWhole: count < maxCount };
  }

  /** Candles of the trades from `from` (included) up to `before`, oldest first. */
  async candles(
    marketId: number,
    intervalS: number,
    from: TradePlace,
    before: TradePlace,
  ): Promise<BuiltCandle[]> {
    const candles: BuiltCandle[] = [];
    await this.#search.eachPart(
      'trades',
      spanOf(from, before),
      'ascending',
      async (part, { reader, alone }) => {
        if (part.state === 'hot') {
          const values = [
            ...[marketId, part.span.fromMs, part.span.toMs, from.tradedAtS, from.tid],
            ...[before.tradedAtS, before.tid, intervalS],
          ];
          appendCandles(candles, await this.#store.query<BuiltCandle>(CANDLES_OF_TRADES, values));
        }
        if (part.state === 'cold') {
          const maker = new CandleMaker(intervalS);
          const made: BuiltCandle[] = [];
          const put = (done: BuiltCandle | undefined) => {
            if (done === undefined) return;
            const { volume, quoteVolume } = done;
            made.push({ ...done, volume: shortest(volume), quoteVolume: shortest(quoteVolume) });
          };
          const add = (row: TradeRow) => {
            if (comparePlaces(row, from) < 0 || comparePlaces(row, before) >= 0) return;
            put(maker.add(row));
          };
          const slice = { ...tradesOf(marketId), span: part.span };
          await alone.run(async () => {
            for await (const batch of reader.typed(slice)) batch.forEach(add);
          });
          put(maker.end());
          appendCandles(candles, made);
        }
        return true;
      },
    );
    return candles;
  }
}
