import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import pg from 'pg';
import { FolderStorage } from '../../../src/archive/cold/storage.js';
import { ColdEndpoint, type ServeOptions } from '../../../src/archive/serve/endpoint.js';
import { SERVE_USER } from '../../../src/archive/serve/login.js';
import type { ServedPartition } from '../../../src/archive/serve/tables.js';
import { systemClock } from '../../../src/kernel/clock.js';
import type { MergedKind } from '../../../src/model/kinds.js';
import type { SeriesTable } from '../../../src/model/series.js';
import type { Store } from '../../../src/store/index.js';
import { runSql } from '../postgres/postgres.js';
import { archiveDay } from './cold-world.js';
import { openWithStreams } from './store-world.js';

export const DAY = '2026-01-13';
export const IDENTITY = 'archive-of-this-test';
/** Process that clients name which are no Postgres. */
export const NO_POSTGRES = 1;
export const PASSWORD = 'a-password-of-tests';

/** Reports nothing. */
export const quietServeEvents = {
  rowsSent: () => undefined,
  statementRefused: () => undefined,
  connectionEnded: () => undefined,
};

/** Rows with awkward digits, NULLs and negative numbers; of two markets, with numbers that repeat. */
const FILL: Readonly<Record<string, string>> = {
  trade: `INSERT INTO trade (traded_at, tid, executed_at, received_at, market_id, side, price, amount, total)
    SELECT at, n, CASE WHEN n % 5 > 0 THEN at + (n % 997) * interval '1003 microseconds' END,
      at + n % 90001 * interval '1234567 microseconds', 1 + n % 2,
      (ARRAY['buy', 'sell'])[1 + n % 3 % 2]::taker_side,
      (ARRAY[61837.63, 100, 0.00000001, 1250.5, 9999999999.5, 3])[1 + n % 6] + n % 7,
      trim_scale((n % 101 + 1) / 8.0::numeric(20, 3)), n % 13 * 1.50
    FROM generate_series(1, ROWS) n, LATERAL (SELECT timestamptz 'DAY 00:00Z' + n * 86000::bigint / ROWS * interval '1 second') AS x(at)`,
  ticker: `INSERT INTO ticker (observed_at, at, received_at, market_id, bid, ask, open, high, low, last, volume, quote_volume, change)
    SELECT at, at - interval '1500 milliseconds', at + interval '7 microseconds', 1 + n % 2, n / 4.0, n / 4.0 + 0.25,
      CASE WHEN n % 3 > 0 THEN n % 11 END, n + 0.000000000000000001, 0, n * 1000000000000, n % 17,
      CASE WHEN n % 4 > 0 THEN n * 12.5 END, CASE WHEN n % 2 > 0 THEN (n % 9 - 4) * 0.55 END
    FROM generate_series(1, 300) n, LATERAL (SELECT timestamptz 'DAY 00:00Z' + n * interval '250050 milliseconds') AS x(at)`,
  kline: `INSERT INTO kline (open_at, received_at, market_id, interval_s, open, close, high, low, volume, quote_volume)
    SELECT timestamptz 'DAY 00:00Z' + n * interval '1 minute', timestamptz 'DAY 00:00Z' + n * interval '61 seconds', m, 60,
      n, n + 0.5, n + 1, n - 0.5, n * 3, n * 1.25
    FROM generate_series(1, 400) n, generate_series(1, 2) m`,
  depth: `INSERT INTO depth (observed_at, received_at, market_id, bid_prices, bid_amounts, ask_prices, ask_amounts)
    SELECT at, at, 1 + n % 2, ARRAY[n + 0.50, n], ARRAY[1.250, 2], CASE WHEN n % 5 > 0 THEN ARRAY[n + 1.0] ELSE '{}' END,
      CASE WHEN n % 5 > 0 THEN ARRAY[100.0] ELSE '{}' END
    FROM generate_series(1, 200) n, LATERAL (SELECT timestamptz 'DAY 00:00Z' + n * interval '300 seconds') AS x(at)`,
};
const KINDS: Readonly<Record<string, MergedKind>> = {
  ...{ trade: 'trades', ticker: 'tickers', kline: 'candles', depth: 'depth' },
};

/** Rows as files have them: decimals without zeros at their end. */
const LOCAL: Readonly<Record<string, string>> = {
  trade: `SELECT traded_at, tid, executed_at, received_at, market_id, side, trim_scale(price) AS price,
    trim_scale(amount) AS amount, trim_scale(total) AS total FROM trade`,
  ticker: `SELECT observed_at, at, received_at, market_id, trim_scale(bid) AS bid, trim_scale(ask) AS ask,
    trim_scale(open) AS open, trim_scale(high) AS high, trim_scale(low) AS low, trim_scale(last) AS last,
    trim_scale(volume) AS volume, trim_scale(quote_volume) AS quote_volume, trim_scale(change) AS change FROM ticker`,
  kline: `SELECT open_at, received_at, market_id, interval_s, revision, trim_scale(open) AS open, trim_scale(close) AS close,
    trim_scale(high) AS high, trim_scale(low) AS low, trim_scale(volume) AS volume,
    trim_scale(quote_volume) AS quote_volume FROM kline`,
  depth: `SELECT observed_at, received_at, market_id, ${[
    'bid_prices',
    'bid_amounts',
    'ask_prices',
    'ask_amounts',
  ]
    .map((name) => `ARRAY(SELECT trim_scale(x) FROM unnest(${name}) x) AS ${name}`)
    .join(', ')} FROM depth`,
};

export interface ServedWorld {
  readonly url: string;
  readonly store: Store;
  readonly coldDir: string;
  readonly endpoint: ColdEndpoint;
  /** Paths of the files of trades. */
  readonly files: readonly string[];
}

/** Finds the archived partition of a name. */
async function findPartition(url: string, name: string): Promise<ServedPartition | undefined> {
  const [, table = ''] = /^(.*)_\d+$/.exec(name) ?? [];
  const rows = await runSql<{ uri: string; from: Date; to: Date }>(
    url,
    `SELECT uri, lower(span) AS "from", upper(span) AS "to" FROM partition_state
     WHERE table_name = $1 AND state = 'archived' AND uri LIKE '%/' || $2 || '.json'`,
    [table, name],
  );
  return rows.map(({ uri, from, to }) => ({
    ...{ table: table as SeriesTable, uri, manifestSha256: null },
    span: { fromMs: from.getTime(), toMs: to.getTime() },
  }))[0];
}

/**
 * An archived day (candles: month) of four series, an endpoint that serves it, and in the database beside
 * each foreign table `f_trade` the same rows as a table `l_trade`.
 *
 * @param rows of trades
 */
export async function openServedWorld(
  t: TestContext,
  options: Partial<ServeOptions> & { readonly rows?: number; readonly fetchSize?: number } = {},
): Promise<ServedWorld> {
  const { store, url } = await openWithStreams();
  const coldDir = await mkdtemp(join(tmpdir(), 'tapekeep-cold-test-'));
  t.after(() => rm(coldDir, { recursive: true, force: true }));
  const { rows = 4000, fetchSize = 100, ...rest } = options;
  const endpoint = await ColdEndpoint.start({
    ...{
      host: '127.0.0.1',
      port: 0,
      identity: IDENTITY,
      password: PASSWORD,
      cold: new FolderStorage(coldDir),
    },
    ...{ clock: systemClock, telemetry: quietServeEvents },
    partitionOf: (name) => findPartition(url, name),
    isOwnBackend: async (pid, database) =>
      pid === NO_POSTGRES || (await store.sealing.isOwnBackend(pid, database)),
    ...rest,
  });
  t.after(() => endpoint.close());
  await runSql(url, 'CREATE EXTENSION IF NOT EXISTS postgres_fdw');
  await makeServer(url, endpoint.address.port, fetchSize);
  const files: string[] = [];
  for (const [table, sql] of Object.entries(FILL)) {
    await runSql(url, `SELECT make_partition('${table}', '${DAY}T00:00Z')`);
    await runSql(url, sql.replaceAll('DAY', DAY).replaceAll('ROWS', String(rows)));
    await runSql(url, `CREATE TABLE l_${table} AS ${LOCAL[table]}`);
    await runSql(url, `ANALYZE l_${table}`);
    const [found] = await runSql<{ name: string }>(
      url,
      `SELECT (partition_at('${table}', '${DAY}T00:00Z')).name`,
    );
    const name = found?.name ?? '';
    await makeForeign(url, table, name);
    const made = await archiveDay({ store, url, coldDir }, KINDS[table] ?? 'trades', DAY, 512);
    if (table === 'trade') files.push(...made);
  }
  return { url, store, coldDir, endpoint, files };
}

/**
 * The foreign server, as archiving makes it. A row costs so much here that Postgres sends all that it may send.
 */
async function makeServer(
  url: string,
  port: number,
  fetchSize: number,
  tupleCost = 100,
): Promise<void> {
  await runSql(
    url,
    `CREATE SERVER cold FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '${port}',
       dbname '${IDENTITY}', fetch_size '${fetchSize}', async_capable 'true',
       application_name '%p %d', fdw_tuple_cost '${tupleCost}')`,
  );
  await runSql(
    url,
    `CREATE USER MAPPING FOR CURRENT_USER SERVER cold OPTIONS (user '${SERVE_USER}', password '${PASSWORD}')`,
  );
}

export async function makeForeign(url: string, table: string, partition: string): Promise<void> {
  const [columns] = await runSql<{ list: string }>(
    url,
    `SELECT string_agg(quote_ident(attname) || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) AS list
     FROM pg_attribute WHERE attrelid = 'l_${table}'::regclass AND attnum > 0`,
  );
  await runSql(
    url,
    `CREATE FOREIGN TABLE f_${table} (${columns?.list}) SERVER cold
     OPTIONS (schema_name 'cold', table_name '${partition}', updatable 'false', truncatable 'false')`,
  );
}

/** Asks as a client that is given text, or the error. */
export class TextClient {
  readonly #client: pg.Client;

  private constructor(client: pg.Client) {
    this.#client = client;
  }

  static async open(t: TestContext, url: string): Promise<TextClient> {
    const client = new pg.Client({ connectionString: url });
    client.on('error', () => undefined);
    await client.connect();
    t.after(() => client.end());
    return new TextClient(client);
  }

  /** Rows as text, or the error with its SQLSTATE. */
  async ask(sql: string, values: readonly unknown[] = []): Promise<unknown> {
    try {
      const types = { getTypeParser: () => (text: unknown) => text };
      const { rows } = await this.#client.query({
        ...{ text: sql, values: [...values], rowMode: 'array', types: types as never },
      });
      return rows;
    } catch (error) {
      const { code, message, hint } = error as { code?: string; message: string; hint?: string };
      return { code, message, hint };
    }
  }
}
