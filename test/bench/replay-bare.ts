import { DuckDBInstance } from '@duckdb/node-api';
import pg from 'pg';
import type { ArchiveEvent } from '../../src/archive/events/event.js';
import { levels } from '../../src/archive/events/event-rows.js';
import { shortest } from '../../src/archive/parquet/values.js';
import { multiplyDecimals } from '../../src/kernel/decimal.js';
import type { ColdArchiveFile, MadeArchive, MadeKind } from './replay-world.js';

/**
 * What anybody would write first: the rows of one market and kind after the other, turned into the
 * same objects, in no common order.
 */

const FETCHED = 10_000;

/** Columns of a row, or of many rows, by their places. */
type Row = readonly unknown[];
type Columns = readonly Row[];

const us = (name: string) => `(extract(epoch FROM ${name}) * 1000000)::float8`;
const QUERIES: Readonly<Record<MadeKind, string>> = {
  trades: `SELECT ${us('executed_at')}, ${us('received_at')}, tid::float8, side, price, amount, total
    FROM trade WHERE market_id = $1 ORDER BY traded_at, tid`,
  depth: `SELECT ${us('observed_at')}, ${us('received_at')}, array_to_string(bid_prices, ' '),
    array_to_string(bid_amounts, ' '), array_to_string(ask_prices, ' '), array_to_string(ask_amounts, ' ')
    FROM depth WHERE market_id = $1 ORDER BY observed_at`,
  tickers: `SELECT ${us('observed_at')}, ${us('received_at')}, ${us('at')}, bid, ask, open, high, low, last,
    volume, quote_volume, change FROM ticker WHERE market_id = $1 ORDER BY observed_at`,
  candles: `SELECT ${us('open_at')}, ${us('received_at')}, revision, open, high, low, close, volume, quote_volume
    FROM kline WHERE market_id = $1 AND interval_s = 60 ORDER BY open_at`,
};

const moment = (name: string) => `epoch_us(${name})::DOUBLE`;
const texts = (...names: readonly string[]) => names.map((name) => `${name}::VARCHAR`).join(', ');
const list = (name: string) => `array_to_string(${name}, ' ')`;
const SCANS: Readonly<Record<MadeKind, string>> = {
  trades: `${moment('executed_at')}, ${moment('received_at')}, tid::DOUBLE, side, ${texts('price', 'amount', 'total')}`,
  depth: `${moment('observed_at')}, ${moment('received_at')}, ${list('bid_prices')}, ${list('bid_amounts')},
    ${list('ask_prices')}, ${list('ask_amounts')}`,
  tickers: `${moment('observed_at')}, ${moment('received_at')}, ${moment('"at"')},
    ${texts('bid', 'ask', '"open"', 'high', 'low', '"last"', 'volume', 'quote_volume', 'change')}`,
  candles: `${moment('open_at')}, ${moment('received_at')}, revision::DOUBLE,
    ${texts('"open"', 'high', 'low', '"close"', 'volume', 'quote_volume')}`,
};

function ofRow(kind: MadeKind, market: string, row: Row): ArchiveEvent {
  const short = (at: number) => shortest(row[at] as string);
  const atUs = row[0] as number;
  const receivedAtUs = row[1] as number;
  switch (kind) {
    case 'trades': {
      const [price, amount] = [short(4), short(5)];
      const total = row[6] === null ? multiplyDecimals(price, amount) : short(6);
      const side = row[3] === 'buy' ? 'buy' : 'sell';
      const id = row[2] as number;
      const isExactTime = true;
      return {
        kind: 'trade',
        market,
        atUs,
        receivedAtUs,
        id,
        price,
        amount,
        total,
        side,
        isExactTime,
      };
    }
    case 'depth': {
      const bids = levels(row[2] as string, row[3] as string);
      const asks = levels(row[4] as string, row[5] as string);
      return { kind: 'depth', market, atUs, receivedAtUs, bids, asks };
    }
    case 'tickers':
      return {
        kind: 'ticker',
        market,
        atUs,
        receivedAtUs,
        tickerAtUs: row[2] as number,
        bid: short(3),
        ask: short(4),
        open: short(5),
        high: short(6),
        low: short(7),
        last: short(8),
        volume: short(9),
        quoteVolume: short(10),
        change: short(11),
      };
    case 'candles':
      return {
        kind: 'candle',
        market,
        atUs: atUs + 60_000_000,
        receivedAtUs,
        openAtUs: atUs,
        intervalS: 60,
        open: short(3),
        high: short(4),
        low: short(5),
        close: short(6),
        volume: short(7),
        quoteVolume: short(8),
        revision: row[2] as number,
      };
  }
}

/** Made and looked at, as the events of the merged order are. */
let seen = 0;
function consume(event: ArchiveEvent): void {
  seen = event.atUs;
}

/** @returns how many events were made */
export async function bareCursor({ url, markets, kinds }: MadeArchive): Promise<number> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query("SET timezone = 'UTC'; SET jit = off");
  let count = 0;
  for (const kind of kinds) {
    for (const [index, market] of markets.entries()) {
      await client.query('BEGIN');
      const sql = QUERIES[kind].replace('$1', String(index + 1));
      await client.query(`DECLARE bare NO SCROLL CURSOR FOR ${sql}`);
      for (;;) {
        const fetch = { text: `FETCH ${FETCHED} FROM bare`, rowMode: 'array' } as const;
        const { rows } = await client.query<unknown[]>(fetch);
        for (const row of rows) consume(ofRow(kind, market, row));
        count += rows.length;
        if (rows.length < FETCHED) break;
      }
      await client.query('COMMIT');
    }
  }
  await client.end();
  return seen > 0 ? count : 0;
}

/** @returns how many events were made */
export async function bareScan(
  files: readonly ColdArchiveFile[],
  scratch: string,
): Promise<number> {
  const limits = { threads: '2', memory_limit: '512MB', temp_directory: scratch };
  const instance = await DuckDBInstance.create(':memory:', limits);
  const connection = await instance.connect();
  let count = 0;
  for (const { kind, market, path } of files) {
    const result = await connection.stream(`SELECT ${SCANS[kind]} FROM read_parquet('${path}')`);
    for (;;) {
      const chunk = await result.fetchChunk();
      if (chunk === null || chunk.rowCount === 0) break;
      const columns: Columns = chunk.getColumns();
      for (let row = 0; row < chunk.rowCount; row += 1) {
        consume(
          ofRow(
            kind,
            market,
            columns.map((column) => column[row]),
          ),
        );
      }
      count += chunk.rowCount;
    }
  }
  connection.closeSync();
  instance.closeSync();
  return seen > 0 ? count : 0;
}
