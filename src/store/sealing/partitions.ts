import type { SeriesTable } from '../../model/series.js';
import type { ConnectionOptions } from '../connection.js';
import type { Database } from '../database.js';
import { toMs } from '../instants.js';
import type { PartitionInfo, PartitionLife, SealingStore } from './api-sealing.js';
import { LongConnection } from './connection.js';
import { PostgresSealingDesk } from './desk.js';

const PARTITIONS = `
  SELECT p.table_name AS table, n.name, ${toMs('lower(p.span)')} AS "fromMs",
         ${toMs('upper(p.span)')} AS "toMs", p.state, p.checksum, p.uri,
         coalesce(p.row_count, CASE WHEN p.state = 'hot' AND c.reltuples >= 0 THEN c.reltuples END)::float8
           AS rows,
         coalesce(pg_table_size(c.oid), 0)::float8 AS "heapBytes",
         coalesce(pg_indexes_size(c.oid), 0)::float8 AS "indexBytes", c.oid IS NOT NULL AS "isPresent",
         p.cold_bytes::float8 AS "coldBytes", ${toMs('p.sealed_at')} AS "sealedAtMs",
         ${toMs('p.archived_at')} AS "archivedAtMs", ${toMs('p.restored_at')} AS "restoredAtMs"
  FROM partition_state p JOIN partition_policy w USING (table_name),
    LATERAL (SELECT p.table_name || '_' || to_char(lower(p.span) AT TIME ZONE 'UTC',
               CASE w.width WHEN 'day' THEN 'YYYYMMDD' ELSE 'YYYYMM' END) AS name) n
    LEFT JOIN pg_class c ON c.oid = to_regclass(n.name)
  ORDER BY p.table_name, lower(p.span)`;

interface Row extends Omit<PartitionInfo, 'span'> {
  readonly table: SeriesTable;
  readonly state: PartitionLife;
  readonly fromMs: number;
  readonly toMs: number;
}

/** The lives of the partitions of one archive. */
export class PostgresSealing implements SealingStore {
  readonly #open: () => Database;
  readonly #options: ConnectionOptions;

  /** @param open the database, or throws when the store is stopped */
  constructor(open: () => Database, options: ConnectionOptions) {
    this.#open = open;
    this.#options = options;
  }

  async partitions(): Promise<PartitionInfo[]> {
    const rows = await this.#open().rows<Row>(PARTITIONS);
    return rows.map(({ fromMs, toMs: endMs, ...rest }) => ({
      ...rest,
      span: { fromMs, toMs: endMs },
    }));
  }

  async open(signal: AbortSignal): Promise<PostgresSealingDesk> {
    this.#open();
    const connection = await LongConnection.open(this.#options, signal);
    try {
      return await PostgresSealingDesk.open(connection);
    } catch (error) {
      await connection.close();
      throw error;
    }
  }
}
