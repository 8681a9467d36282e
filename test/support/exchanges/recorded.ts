import { multiplyDecimals } from '../../../src/kernel/decimal.js';
import { seededRandom } from '../../../src/kernel/random.js';
import { runSql } from '../postgres/postgres-server.js';

/** A trade as a tape file has it. */
export interface RecordedTrade {
  readonly id: number;
  readonly timeMs: number;
  readonly price: string;
  readonly amount: string;
  readonly side: 'buy' | 'sell';
}

/**
 * A tape of its own making: uneven seconds, and one in the middle that holds more trades than a
 * page of history can.
 */
export function makeTrades(options: {
  readonly seed: number;
  readonly seconds: number;
  readonly startS: number;
  readonly flood: number;
}): RecordedTrade[] {
  const random = seededRandom(options.seed);
  const trades: RecordedTrade[] = [];
  let id = 7_000_000_000;
  for (let second = 0; second < options.seconds; second += 1) {
    const isFlood = second === Math.floor(options.seconds / 2);
    const count = isFlood ? options.flood : Math.floor(random() ** 3 * 60);
    const moments = Array.from({ length: count }, () => Math.floor(random() * 1000)).sort(
      (a, b) => a - b,
    );
    for (const moment of moments) {
      id += 1 + Math.floor(random() * 3);
      trades.push({
        id,
        timeMs: (options.startS + second) * 1000 + moment,
        price: `${60_000 + Math.floor(random() * 500)}.${String(Math.floor(random() * 100)).padStart(2, '0')}`,
        amount: `0.${String(1 + Math.floor(random() * 99_999)).padStart(5, '0')}`,
        side: random() < 0.5 ? 'buy' : 'sell',
      });
    }
  }
  return trades;
}

/** The lines of a tape file, without its header. */
export function tapeLines(trades: readonly RecordedTrade[]): string[] {
  return trades.map(({ id, timeMs, price, amount, side }) =>
    [id, timeMs, price, amount, side].join(','),
  );
}

/** Every stored trade of a market in the words of the tape, oldest first. */
export async function storedTrades(databaseUrl: string, market: string) {
  return runSql<Record<'id' | 'second' | 'micros' | 'price' | 'amount' | 'total' | 'side', string>>(
    databaseUrl,
    `SELECT tid::text AS id, extract(epoch FROM traded_at)::bigint::text AS second,
            (extract(epoch FROM executed_at) * 1000000)::bigint::text AS micros,
            price::text, amount::text, trim_scale(total)::text AS total, side::text AS side
     FROM trade JOIN market USING (market_id) WHERE name = $1 ORDER BY trade.tid`,
    [market],
  );
}

/** What must be stored of a tape: every field, the exact time, and the exact product. */
export function expectedTrades(trades: readonly RecordedTrade[]) {
  return trades.map(({ id, timeMs, price, amount, side }) => ({
    id: String(id),
    second: String(Math.floor(timeMs / 1000)),
    micros: `${timeMs}000`,
    price,
    amount,
    total: multiplyDecimals(price, amount),
    side,
  }));
}

/** Whether one piece of coverage of `kind` holds the whole of `[fromMs, toMs)`. */
export async function isCovered(
  databaseUrl: string,
  kind: string,
  fromMs: number,
  toMs: number,
): Promise<boolean> {
  const rows = await runSql(
    databaseUrl,
    `SELECT 1 FROM coverage JOIN stream USING (stream_id)
     WHERE kind = $1 AND span @> tstzrange(to_timestamp($2 / 1000.0), to_timestamp($3 / 1000.0))`,
    [kind, fromMs, toMs],
  );
  return rows.length > 0;
}
