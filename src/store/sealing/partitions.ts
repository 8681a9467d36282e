import type { Span } from '../../kernel/span.js';
import { columnsOf, type SeriesColumn, timeColumnOf } from '../../model/kinds.js';
import { type SeriesTable, seriesOf } from '../../model/series.js';
import type { ConnectionOptions } from '../address.js';
import { Connection, inStoreWords, isTrue, type Runner } from '../connection.js';
import { isState, StoreError, sqlstateOf } from '../errors.js';
import { describeHolder, HOLDER_COLUMNS, holdLock, type LockHolder } from '../locks.js';
import { fromMs } from '../sql.js';

/** `hot`: being written; `sealed`: final; `archived`: in files; `expired`: gone for good. */
export type PartitionLife = 'hot' | 'sealed' | 'archived' | 'expired';

/** A partition at a glance. */
export interface PartitionInfo {
  readonly table: SeriesTable;
  readonly name: string;
  readonly span: Span;
  readonly state: PartitionLife;
  /** Counted at sealing; of a hot one as the database estimates. Null: not known, or none. */
  readonly rows: number | null;
  /** What the heap and the indexes take in the database; 0 when it is not there. */
  readonly heapBytes: number;
  readonly indexBytes: number;
  /** The table is there, with rows or emptied. */
  readonly isPresent: boolean;
  readonly checksum: string | null;
  /** Manifest of its files; also of a sealed one that was restored and has not changed since. */
  readonly uri: string | null;
  readonly coldBytes: number | null;
  readonly sealedAtMs: number | null;
  readonly archivedAtMs: number | null;
  readonly restoredAtMs: number | null;
}

/** What was counted of a partition. */
export interface SealFacts {
  readonly rows: number;
  readonly checksum: string;
}

/** A market that has rows in a partition. */
export interface PartitionMarket {
  readonly marketId: number;
  readonly market: string;
  /** Digits after the point of base and quote amounts, as the exchange gives them; null: unknown. */
  readonly basePrec: number | null;
  readonly quotePrec: number | null;
}

const BLOCK_BYTES = "current_setting('block_size')::int";

/** Rows that were not counted are reckoned as the planner does: as many a page as were last seen. */
const PARTITIONS = `
  SELECT p.table_name AS table, n.name, p.span, p.state, p.checksum, p.uri,
         coalesce(p.row_count, CASE WHEN p.state = 'hot' THEN guess.rows END)::float8 AS rows,
         coalesce(pg_table_size(c.oid), 0) AS heap_bytes,
         coalesce(pg_indexes_size(c.oid), 0) AS index_bytes, c.oid IS NOT NULL AS is_present,
         p.cold_bytes, p.sealed_at, p.archived_at, p.restored_at
  FROM partition_state p JOIN partition_policy w USING (table_name),
    LATERAL (SELECT p.table_name || '_' || to_char(lower(p.span) AT TIME ZONE 'UTC',
               CASE w.width WHEN 'day' THEN 'YYYYMMDD' ELSE 'YYYYMM' END) AS name) n
    LEFT JOIN pg_class c ON c.oid = to_regclass(n.name)
    LEFT JOIN LATERAL (
      SELECT round(CASE
        WHEN pg_relation_size(c.oid) = 0 THEN 0
        WHEN c.relpages > 0 AND c.reltuples > 0 THEN c.reltuples / c.relpages * (pg_relation_size(c.oid) / ${BLOCK_BYTES})
        ELSE nullif(pg_stat_get_live_tuples(c.oid), 0) END) AS rows) guess ON true
  ORDER BY p.table_name, lower(p.span)`;

/** What tells a database from every other one, also from a restored copy of it. */
export interface DatabaseIdentity {
  /** Name of the exchange that it belongs to; null: of none yet. */
  readonly archive: string | null;
  /** Name of the database, for people. */
  readonly database: string;
  /** System identifier of the Postgres server; null where the login may not ask for it. */
  readonly system: string | null;
  readonly databaseOid: number;
  /** Oid of the table `archive`, which a dump makes again under another one. */
  readonly tableOid: number;
}

/** Returns what a base backup or a standby shares with its original, and a restored dump does not. */
export async function readDatabaseIdentity(runner: Runner): Promise<DatabaseIdentity> {
  const [row] = await runner.rows<Omit<DatabaseIdentity, 'system'> & { mayAsk: boolean }>(`
    SELECT (SELECT name FROM archive) AS archive, d.datname AS database, d.oid::bigint::float8 AS database_oid,
           'archive'::regclass::oid::bigint::float8 AS table_oid,
           has_function_privilege('pg_catalog.pg_control_system()', 'execute') AS may_ask
    FROM pg_database d WHERE d.datname = current_database()`);
  if (row === undefined) throw new Error('a database has a name');
  const { mayAsk, ...identity } = row;
  const [control] = mayAsk
    ? await runner.rows<{ system: string }>(
        'SELECT system_identifier::text AS system FROM pg_control_system()',
      )
    : [];
  return { ...identity, system: control?.system ?? null };
}

/** All that were ever made, by table and time. */
export async function readPartitions(runner: Runner): Promise<PartitionInfo[]> {
  return await runner.rows<PartitionInfo>(PARTITIONS);
}

/**
 * A column in the one form that its value has, whatever digits it was sent with: without zeros at the
 * end of decimals, which no file keeps.
 */
function canonical({ name, type }: SeriesColumn): string {
  if (type === 'decimal') return `trim_scale(${name})`;
  if (type === 'decimals') {
    return `'[' || array_to_string(ARRAY(SELECT trim_scale(v) FROM unnest(${name}) AS v), ',') || ']'`;
  }
  return name;
}

/**
 * The rows of one market in a partition: day by day, within a day by the primary key, a line each as
 * in the forms of the series, decimals shortened to their value. By these lines rows are summed up,
 * and of these lines files are made.
 */
export function marketRowsSql(table: SeriesTable, partition: string, marketId: number): string {
  const { key } = seriesOf(table);
  const columns = columnsOf(table);
  const timeColumn = timeColumnOf(table);
  const selected = columns.map(canonical).join(', ');
  const isInOrder = key[0] === timeColumn;
  const order = [...(isInOrder ? [] : [`date_trunc('day', ${timeColumn})`]), ...key].join(', ');
  return `COPY (SELECT ${selected} FROM ${partition} WHERE market_id = ${Math.trunc(marketId)}
    ORDER BY ${order}) TO STDOUT (FORMAT csv)`;
}

type Place = Pick<PartitionInfo, 'table' | 'name' | 'span'>;

/** A lock that is not had by then is for another time. */
const LOCK_SETTINGS = `SET lock_timeout = 30000; SET enable_sort = on`;
/** The server looks this often whether we are still there: a killed program frees its locks. */
const LOOK_FOR_CLIENT = `
  DO $$ BEGIN
    PERFORM set_config('client_connection_check_interval', '1s', false);
  EXCEPTION WHEN OTHERS THEN NULL;
  END $$`;

const HAS_CITUS = `SELECT to_regclass('pg_dist_partition') IS NOT NULL`;
const IS_DISTRIBUTED = `
  SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'trade'::regclass)`;

/** Rights on the table itself, beyond those of the functions. */
const MAY_MAINTAIN = `
  SELECT pg_has_role(c.relowner, 'USAGE') AS may FROM pg_class c WHERE c.oid = to_regclass($1)`;

/** One probe of the key for each market, however many rows there are. */
const marketsSql = (name: string) => `
  WITH RECURSIVE held AS (
    (SELECT min(market_id) AS market_id FROM ${name})
    UNION ALL
    SELECT (SELECT min(p.market_id) FROM ${name} p WHERE p.market_id > h.market_id)
    FROM held h WHERE h.market_id IS NOT NULL)
  SELECT h.market_id, coalesce(m.name, h.market_id::text) AS market, m.base_prec, m.quote_prec
  FROM held h LEFT JOIN market m USING (market_id) WHERE h.market_id IS NOT NULL ORDER BY 1`;

const HOLDERS_MAX = 4;
/**
 * The sessions that have locks on tables or their indexes, except those that only read them if `$2` is
 * false. The oldest transactions first: they are the least likely to have come since.
 */
const FIND_HOLDERS = `
  WITH wanted AS (SELECT to_regclass(name) AS id FROM unnest($1::text[]) AS name)
  SELECT coalesce(l.pid, 0) AS pid, ${HOLDER_COLUMNS}, false AS is_waiting
  FROM (
    SELECT DISTINCT pid FROM pg_locks
    WHERE locktype = 'relation' AND granted AND pid IS DISTINCT FROM pg_backend_pid()
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND ($2 OR mode <> 'AccessShareLock')
      AND relation IN (
        SELECT id FROM wanted
        UNION ALL
        SELECT indexrelid FROM pg_index JOIN wanted ON indrelid = id)) l
    LEFT JOIN pg_stat_activity a ON a.pid = l.pid
  ORDER BY a.xact_start NULLS LAST, l.pid LIMIT ${HOLDERS_MAX}`;
/** Steps that wait for readers of any partition, by the lock that those hold. */
const SWITCHES: ReadonlySet<string> = new Set([
  ...['archive_partition', 'finish_restore', 'expire_partition'],
]);

/**
 * The steps of the partition lifecycle, each whole or not at all, on one connection that holds
 * the lock that makes it the only one. A step that finds a lock taken for too long throws a StoreError
 * `retry`: nothing has happened, another time will do.
 */
export class SealingAdmin {
  /** What a partition lacks, and what covers it, is asked through the same connection. */
  readonly connection: Connection;

  private constructor(connection: Connection) {
    this.connection = connection;
  }

  /** @throws StoreError `sealing_busy`, `sealing_refused`, and when it cannot connect */
  static async open(options: ConnectionOptions, signal: AbortSignal): Promise<SealingAdmin> {
    // Statements take as long as they take.
    const use = { silenceMs: null, signal, explain: inStoreWords };
    const connection = await Connection.open({ ...options, statementTimeoutMs: 0 }, use);
    try {
      await connection.rows(LOCK_SETTINGS);
      await connection.rows(LOOK_FOR_CLIENT);
      await takeLock(connection);
      return new SealingAdmin(connection);
    } catch (error) {
      await connection.close();
      throw error;
    }
  }

  /** From here on the rows do not change, or the seal fails. False: it is not hot any more. */
  async beginSeal(place: Place): Promise<boolean> {
    return (await this.#call<string | null>('begin_seal', place)) !== null;
  }

  /** Builds the indexes anew and drops what an interrupted try left. */
  async rebuildIndexes(place: Place): Promise<void> {
    await this.#call('drop_broken_indexes', place);
    if (await this.#mayMaintain(place)) {
      const sql = `REINDEX TABLE CONCURRENTLY ${place.name}`;
      await this.#unlessInUse([place.name], true, () => this.connection.rows(sql));
    } else {
      await this.#call('rebuild_indexes', place);
    }
  }

  /** Freezes the rows. False where the rights do not suffice. */
  async freeze(place: Place): Promise<boolean> {
    if (!(await this.#mayMaintain(place))) return false;
    const sql = `VACUUM (FREEZE, ANALYZE) ${place.name}`;
    await this.#unlessInUse([place.name], false, () => this.connection.rows(sql));
    return true;
  }

  /** False: it was reopened meanwhile. */
  async finishSeal(place: Place, { rows, checksum }: SealFacts): Promise<boolean> {
    return await this.#call<boolean>('finish_seal', place, rows, checksum);
  }

  /** Markets that have rows in it, by id. @param partition the name of a table with its columns */
  async markets({ name }: Place): Promise<PartitionMarket[]> {
    return await this.connection.rows<PartitionMarket>(marketsSql(name));
  }

  /** The rows of a market as canonical lines, day by day. Leaving early closes the connection. */
  marketRows({ table, name }: Place, marketId: number): AsyncIterable<Buffer> {
    return this.connection.copyOut(marketRowsSql(table, name, marketId));
  }

  /**
   * The switch to files. False: it is not sealed, or not with this checksum.
   *
   * @param cold the manifest, which the database holds against the rows that it counted
   */
  async archive(
    place: Place,
    { uri, manifest }: { uri: string; manifest: { checksum: string } },
  ): Promise<boolean> {
    return await this.#call<boolean>('archive_partition', place, uri, JSON.stringify(manifest));
  }

  /** Drops the table of what is archived or expired. False: it is in use, try again later. */
  async dropEmptied(place: Place): Promise<boolean> {
    return await this.#call<boolean>('drop_emptied', place);
  }

  /** An empty table aside for rows that come back. False: it is not archived. */
  async beginRestore(place: Place): Promise<boolean> {
    return (await this.#call<string | null>('begin_restore', place)) !== null;
  }

  /** Adds lines of {@link marketRows} with the market's id before them. */
  async copyIn({ table, name }: Place, lines: Buffer): Promise<void> {
    const columns = columnsOf(table).map((one) => one.name);
    const sql = `COPY ${name} (market_id, ${columns.join(', ')}) FROM STDIN (FORMAT csv)`;
    await this.connection.copyIn(sql, lines);
  }

  /** The switch back. False: it is not archived, or not with this checksum. */
  async finishRestore(place: Place, checksum: string): Promise<boolean> {
    return await this.#call<boolean>('finish_restore', place, checksum);
  }

  /** Notes that the files of rows that came back are deleted. False: there were none. */
  async forgetFiles(place: Place): Promise<boolean> {
    return await this.#call<boolean>('forget_files', place);
  }

  /**
   * Gives up the rows, and in the same transaction the ledger of them and of all before.
   * False: it was expired already, or its time has hardly ended.
   */
  async expire(place: Place): Promise<boolean> {
    return (await this.#call<string | null>('expire_partition', place)) !== null;
  }

  async close(): Promise<void> {
    await this.connection.close();
  }

  async #mayMaintain({ name }: Place): Promise<boolean> {
    return await isTrue(this.connection, MAY_MAINTAIN, [name]);
  }

  /** Takes one of the steps of sql/0001, which are asked with a table and an instant first. */
  async #call<T>(
    step: string,
    { table, span, name }: Place,
    ...more: readonly unknown[]
  ): Promise<T> {
    const tables = SWITCHES.has(step) ? [name, 'reader_lock'] : [name];
    // The guard alone lets readers be.
    const isOfReaders = step !== 'begin_seal';
    return await this.#unlessInUse(tables, isOfReaders, async () => {
      const given = ['$1', fromMs('$2'), ...more.map((_, index) => `$${index + 3}`)];
      const sql = `SELECT ${step}(${given.join(', ')}) AS result`;
      const [row] = await this.connection.rows<{ result: T }>(sql, [table, span.fromMs, ...more]);
      return row?.result as T;
    });
  }

  /**
   * @param isOfReaders whether the work waits for those that only read the tables, too
   * @throws StoreError `sealing_busy`, which leaves to its reader to say what partition it is about
   */
  async #unlessInUse<T>(
    tables: readonly string[],
    isOfReaders: boolean,
    work: () => Promise<T>,
  ): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!isState(error, 'lock not available')) throw error;
      const values = [tables, isOfReaders];
      const holders = await this.connection.rows<LockHolder>(FIND_HOLDERS, values);
      const ids = holders.flatMap(({ pid }) => (pid === 0 ? [] : [pid]));
      const by = holders.length === 0 ? '' : ` by ${holders.map(describeHolder).join('; ')}`;
      const or = ids.length === 0 ? '' : `, or end it: SELECT pg_terminate_backend(${ids[0]})`;
      throw new StoreError(
        'sealing_busy',
        `it is in use${by}, and stays as it is for now: try again when that has ended${or}`,
        { cause: error, sqlstate: sqlstateOf(error) },
      );
    }
  }
}

/** @throws StoreError `sealing_busy`, `sealing_refused` */
async function takeLock(connection: Connection): Promise<void> {
  await holdLock(connection, 'sealing', {
    ...{ code: 'sealing_busy', action: 'retry' },
    text: (heldBy) =>
      `another tapekeep is sealing, archiving or restoring partitions of this database (${heldBy}): try again when it has ended`,
  });
  if ((await isTrue(connection, HAS_CITUS)) && (await isTrue(connection, IS_DISTRIBUTED))) {
    throw new StoreError(
      'sealing_refused',
      'the tables are distributed over a Citus cluster, where partitions are not sealed, archived or expired: set partitions.seal to false, and leave retention at forever',
    );
  }
}
