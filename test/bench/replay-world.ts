import { join } from 'node:path';
import { DEPTH_GROUP_ROWS, ROW_GROUP_ROWS } from '../../src/archive/parquet/file.js';
import type { Store } from '../../src/store/index.js';
import { copyDatabase, openPlainStore, runSql } from '../support/postgres/postgres-server.js';
import { archiveDay } from '../support/worlds/cold-world.js';

/** As the program's own files have them. */
const ROW_GROUPS = {
  trades: ROW_GROUP_ROWS,
  depth: DEPTH_GROUP_ROWS,
  tickers: ROW_GROUP_ROWS,
  candles: ROW_GROUP_ROWS,
};

/** First day of the made archives. */
export const DAY_MS = 86_400_000;
export const START_MS = Date.UTC(2026, 0, 15);

const KINDS = ['trades', 'depth', 'tickers', 'candles'] as const;
export type MadeKind = (typeof KINDS)[number];

/** An archive made of nothing but figures, of which the shape is known. */
export interface MadeArchive {
  readonly url: string;
  /** Where its rows go that leave the database. */
  readonly coldDir: string;
  readonly kinds: readonly MadeKind[];
  readonly markets: readonly string[];
  readonly fromMs: number;
  readonly toMs: number;
}

export interface Shape {
  readonly name: string;
  readonly markets: number;
  /** Of each market. */
  readonly trades: number;
  readonly depths: number;
  readonly tickers: number;
  readonly days: number;
}

const span = ({ days }: Shape) => `interval '${days} days'`;
const START = `timestamptz '${new Date(START_MS).toISOString()}'`;

/** Rows as the daemon leaves them: in the order of time, markets in turn. */
function makeRowsSql(shape: Shape): string[] {
  const each = (rows: number) =>
    `generate_series(0, ${rows - 1}) n, generate_series(1, ${shape.markets}) m`;
  const at = (rows: number) => `${START} + n * (${span(shape)} / ${rows})`;
  const price = `round((100 * m + 5 * sin(n / 500.0 + m) + random())::numeric, 2)`;
  const levels = (sign: string) => `(SELECT array_agg(price ${sign} i * 0.01 ORDER BY i)
    FROM generate_series(1, 10) i)`;
  const amounts = `(SELECT array_agg(round((random() * 3 + n * 0 + i)::numeric, 5))
    FROM generate_series(1, 10) i)`;
  return [
    `INSERT INTO trade (market_id, traded_at, tid, executed_at, received_at, side, price, amount, total)
     SELECT m, date_trunc('second', at), n * ${shape.markets} + m, at, at + interval '400 ms',
            (ARRAY['buy', 'sell'])[1 + (random() < 0.5)::int]::taker_side, price, amount, price * amount
     FROM (SELECT n, m, ${at(shape.trades)} + m * interval '1 ms' AS at, ${price} AS price,
                  round((0.00001 + random() ^ 4)::numeric, 5) AS amount
           FROM ${each(shape.trades)}) made`,
    `INSERT INTO depth (market_id, observed_at, received_at, bid_prices, bid_amounts, ask_prices, ask_amounts)
     SELECT m, at, at + interval '60 ms', ${levels('-')}, ${amounts}, ${levels('+')}, ${amounts}
     FROM (SELECT n, m, ${at(shape.depths)} + m * interval '1 ms' AS at, ${price} AS price
           FROM ${each(shape.depths)}) made`,
    `INSERT INTO ticker (market_id, observed_at, at, received_at, bid, ask, open, high, low, last, volume, quote_volume, change)
     SELECT m, at, date_trunc('second', at), at + interval '60 ms', price - 0.01, price + 0.01, price,
            price + 5, price - 5, price, round((random() * 1000)::numeric, 5),
            round((random() * 100000)::numeric, 2), round((random() * 4 - 2)::numeric, 2)
     FROM (SELECT n, m, ${at(shape.tickers)} AS at, ${price} AS price
           FROM ${each(shape.tickers)}) made`,
    `INSERT INTO kline (market_id, interval_s, open_at, received_at, open, close, high, low, volume, quote_volume)
     SELECT m, 60, at, at + interval '62 s', price, price + 0.5, price + 1, price - 1,
            round((random() * 100)::numeric, 5), round((random() * 10000)::numeric, 2)
     FROM (SELECT m, n, ${START} + n * interval '1 minute' AS at, ${price} AS price
           FROM ${each(shape.days * 1440)}) made`,
  ];
}

/** Makes an archive whose streams are covered whole. */
export async function makeArchive(server: string, dir: string, shape: Shape): Promise<MadeArchive> {
  const url = await copyDatabase(server, shape.name);
  const store = await openPlainStore(url, { partitionsAhead: shape.days });
  const covered = { fromMs: START_MS, toMs: START_MS + shape.days * DAY_MS };
  try {
    const markets = await prepare(store, shape, covered);
    for (const sql of makeRowsSql(shape)) await runSql(url, sql);
    await runSql(url, 'VACUUM ANALYZE');
    return { url, coldDir: join(dir, shape.name), markets, kinds: KINDS, ...covered };
  } finally {
    await store.stop();
  }
}

/** A file that left the database. */
export interface ColdArchiveFile {
  readonly kind: MadeKind;
  readonly market: string;
  readonly path: string;
}

/** Takes all rows out of the database and puts them into files. */
export async function archiveAll({
  url,
  coldDir,
  kinds,
  fromMs,
  toMs,
}: MadeArchive): Promise<ColdArchiveFile[]> {
  const store = await openPlainStore(url);
  const files: ColdArchiveFile[] = [];
  try {
    for (const kind of kinds) {
      // Candles leave by the month.
      const endMs = kind === 'candles' ? fromMs + 1 : toMs;
      for (let ms = fromMs; ms < endMs; ms += DAY_MS) {
        const day = new Date(ms).toISOString().slice(0, 10);
        const paths = await archiveDay({ store, url, coldDir }, kind, day, ROW_GROUPS[kind]);
        for (const path of paths) {
          files.push({ kind, market: /market=([^/]+)/.exec(path)?.[1] ?? '', path });
        }
      }
    }
    return files;
  } finally {
    await store.stop();
  }
}

async function prepare(
  store: Store,
  shape: Shape,
  covered: { readonly fromMs: number; readonly toMs: number },
): Promise<string[]> {
  const names = Array.from(
    { length: shape.markets },
    (_, index) => `M${String(index + 1).padStart(3, '0')}_USDT`,
  );
  const prec = { stockPrec: 8, moneyPrec: 2, feePrec: 4 };
  await store.ensureMarkets(
    names.map((name) => ({ name, stock: name, money: 'USDT', ...prec, minAmount: '0' })),
    covered.fromMs,
  );
  await store.makePartitionsAhead(covered.fromMs);
  const evidence = { made: 'for the benchmark' };
  const claims = [];
  for (let marketId = 1; marketId <= shape.markets; marketId += 1) {
    for (const [kind, variant] of [
      ['trades', 0],
      ['depth', 0],
      ['tickers', 0],
      ['candles', 60],
    ] as const) {
      const stream = await store.ensureStream({ kind, marketId, variant });
      claims.push({ stream, span: covered, evidence });
    }
  }
  await store.commit({ claims });
  return names;
}
