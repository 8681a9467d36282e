import { type Clock, sleep } from '../../kernel/clock.js';
import { addedByServer, messageOf } from '../../kernel/errors.js';
import type { Span } from '../../kernel/span.js';
import { columnsOf, type SeriesColumn, timeColumnOf } from '../../model/kinds.js';
import { type SeriesTable, seriesOf } from '../../model/series.js';
import type { ConnectionOptions } from '../address.js';
import { Connection, inStoreWords, isTrue, type Runner } from '../connection.js';
import { isState, StoreError, sqlstateOf } from '../errors.js';
import { describeHolder, holdLock } from '../locks.js';
import { fromMs } from '../sql.js';
import { findHolders, READER_LOCK } from './holders.js';

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
  /** True if rows of a restore are there, which did not come to its end. */
  readonly isHalfRestored: boolean;
  readonly checksum: string | null;
  /** Manifest of its files, which a sealed one has too; null: none. */
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
         coalesce(pg_indexes_size(c.oid), 0) AS index_bytes,
         to_regclass(restored_name(n.name)) IS NOT NULL AS is_half_restored,
         p.cold_bytes, p.sealed_at, p.archived_at, p.restored_at
  FROM partition_state p JOIN partition_policy w USING (table_name),
    LATERAL (SELECT p.table_name || '_' || to_char(lower(p.span) AT TIME ZONE 'UTC',
               CASE w.width WHEN 'day' THEN 'YYYYMMDD' ELSE 'YYYYMM' END) AS name) n
    LEFT JOIN pg_class c ON c.oid = to_regclass(n.name) AND c.relkind = 'r'
    LEFT JOIN LATERAL (
      SELECT round(CASE
        WHEN pg_relation_size(c.oid) = 0 THEN 0
        WHEN c.relpages > 0 AND c.reltuples > 0 THEN c.reltuples / c.relpages * (pg_relation_size(c.oid) / ${BLOCK_BYTES})
        ELSE nullif(pg_stat_get_live_tuples(c.oid), 0) END) AS rows) guess ON true
  ORDER BY p.table_name, lower(p.span)`;

/** The record of an archived partition. */
export interface ArchivedPartition extends Pick<PartitionInfo, 'table' | 'span'> {
  readonly uri: string;
  readonly manifestSha256: string | null;
}

/** Returns the archived partition of a name; undefined if there is none. */
export async function readArchived(
  runner: Runner,
  name: string,
): Promise<ArchivedPartition | undefined> {
  const [row] = await runner.rows<ArchivedPartition>(
    `SELECT table_name AS table, span, uri, manifest_sha256 FROM partition_state
     WHERE state = 'archived' AND uri ~ ('^manifests/' || table_name || '/' || $1 || '(-[0-9a-f]{12})?\\.json$')
       AND $1 ~ '^[a-z_]+_[0-9]+$'`,
    [name],
  );
  return row;
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

/** A partition as the place of imported files. */
export interface FilePlace extends Place {
  /** Null: it was never made. */
  readonly state: PartitionLife | null;
  readonly uri: string | null;
  readonly hasRows: boolean;
}

/** Rows of a market on a day. */
export interface CountedFile {
  readonly marketId: number;
  readonly variant: number;
  /** UTC, `2026-01-31`. */
  readonly date: string;
  readonly rows: number;
  /** Trades whose exact time is known. */
  readonly timed: number;
}

const PLACES_AT = `
  SELECT $1::text AS table, place.name, place.span, s.state, s.uri,
         EXISTS (SELECT FROM rows_by_day r WHERE r.series = $1 AND r.rows > 0
           AND r.day >= (lower(place.span) AT TIME ZONE 'UTC')::date
           AND r.day < (upper(place.span) AT TIME ZONE 'UTC')::date) AS has_rows
  FROM (SELECT DISTINCT (partition_at($1, ${fromMs('ms')})).* FROM unnest($2::float8[]) AS ms) place
    LEFT JOIN partition_state s ON s.table_name = $1 AND s.span = place.span
  ORDER BY lower(place.span)`;

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

const NOT_SUPPORTED = '0A000';

/** Steps that wait for every query of the series, and for readers that hold all partitions where they are. */
const SWITCHES: ReadonlySet<string> = new Set([
  ...['archive_partition', 'import_partition', 'finish_restore', 'expire_partition'],
]);
/**
 * While such a step waits for its lock, all that comes after it waits behind it, the writer among them. So sql/0001 has it
 * wait for a fifth of a second, and it is tried again after a pause.
 */
const SWITCH_TRIES = 5;
const SWITCH_PAUSE_MS = 1_000;

/**
 * The steps of the partition lifecycle, each whole or not at all, on one connection that holds
 * the lock that makes it the only one. A step that finds a lock taken for too long throws a StoreError
 * `retry`: nothing has happened, another time will do.
 */
export class SealingAdmin {
  /** What a partition lacks, and what covers it, is asked through the same connection. */
  readonly connection: Connection;
  readonly #clock: Clock;
  readonly #signal: AbortSignal;

  private constructor(connection: Connection, clock: Clock, signal: AbortSignal) {
    this.connection = connection;
    this.#clock = clock;
    this.#signal = signal;
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
      return new SealingAdmin(connection, options.clock, signal);
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
   * Makes what archived rows are read through, if it is missing.
   *
   * @throws StoreError `sealing_refused` where this database has no such thing
   */
  async makeColdServer(): Promise<void> {
    try {
      await this.connection.rows('SELECT make_cold_server()');
    } catch (error) {
      if (sqlstateOf(error) !== NOT_SUPPORTED || !(error instanceof StoreError)) throw error;
      const text = `${messageOf(error.cause)}${addedByServer(error.cause)}`;
      throw new StoreError('sealing_refused', text, { cause: error, sqlstate: NOT_SUPPORTED });
    }
  }

  /**
   * Notes the files of a sealed partition. False: it is not sealed, or not with this checksum.
   *
   * @param cold the manifest, which the database holds against the rows that it counted
   */
  async noteFiles(
    place: Place,
    { uri, manifest }: { uri: string; manifest: { checksum: string } },
  ): Promise<boolean> {
    return await this.#call<boolean>('note_files', place, uri, JSON.stringify(manifest));
  }

  /** The switch to the files that were noted. False: it was reopened. */
  async archive(place: Place): Promise<boolean> {
    return await this.#call<boolean>('archive_partition', place);
  }

  /**
   * Gives archived partitions that lack them statistics.
   *
   * @throws StoreError while the server of archived rows cannot be reached
   */
  async analyzeArchived(): Promise<void> {
    for (;;) {
      const [row] = await this.connection.rows<{ name: string | null }>(
        'SELECT analyze_archived() AS name',
      );
      if (typeof row?.name !== 'string') return;
    }
  }

  /** Partitions of a table that hold these timestamps, whether or not they exist, oldest first. */
  async placesAt(table: SeriesTable, timesMs: readonly number[]): Promise<FilePlace[]> {
    return await this.connection.rows<FilePlace>(PLACES_AT, [table, timesMs]);
  }

  /**
   * Takes files of rows that were never in the database. False: it has got rows meanwhile, or other files.
   *
   * @param follows sha256 of the manifest that this one takes the place of; null: there is none
   * @param counted rows that it has more than that one
   */
  async importFiles(
    place: Place,
    { uri, manifest }: { uri: string; manifest: object },
    follows: string | null,
    counted: readonly CountedFile[],
  ): Promise<boolean> {
    const [text, counts] = [manifest, counted].map((one) => JSON.stringify(one));
    return await this.#call<boolean>('import_partition', place, uri, text, follows, counts);
  }

  /** Makes an empty table aside for rows that come back. Returns its name; null: it is not archived. */
  async beginRestore(place: Place): Promise<string | null> {
    return await this.#call<string | null>('begin_restore', place);
  }

  /** Gives the table aside its primary key, once its rows are in it. */
  async indexRestored(place: Place): Promise<void> {
    await this.#call('index_restored', place);
  }

  /** Drops the table aside of a restore that did not come to its end. */
  async dropRestored(place: Place): Promise<void> {
    await this.#call('drop_restored', place);
  }

  /** Adds lines of {@link marketRows} with the market's id before them. */
  async copyIn({ table, name }: Place, lines: Buffer): Promise<void> {
    const columns = columnsOf(table).map((one) => one.name);
    const sql = `COPY ${name} (market_id, ${columns.join(', ')}) FROM STDIN (FORMAT csv)`;
    await this.connection.copyIn(sql, lines);
  }

  /**
   * The switch back. False: it is not archived, or not with this checksum.
   *
   * @param counted checksum of the rows as they came back
   */
  async finishRestore(place: Place, checksum: string, counted: string): Promise<boolean> {
    return await this.#call<boolean>('finish_restore', place, checksum, counted);
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
    const isSwitch = SWITCHES.has(step);
    const tables = isSwitch ? [name, table, READER_LOCK] : [name];
    // The guard alone lets readers be.
    const isOfReaders = step !== 'begin_seal';
    const given = ['$1', fromMs('$2'), ...more.map((_, index) => `$${index + 3}`)];
    const sql = `SELECT ${step}(${given.join(', ')}) AS result`;
    const once = async () => {
      const [row] = await this.connection.rows<{ result: T }>(sql, [table, span.fromMs, ...more]);
      return row?.result as T;
    };
    for (let left = isSwitch ? SWITCH_TRIES - 1 : 0; left > 0; left -= 1) {
      try {
        return await once();
      } catch (error) {
        if (!isState(error, 'lock not available')) throw error;
        await sleep(this.#clock, SWITCH_PAUSE_MS, this.#signal);
      }
    }
    return await this.#unlessInUse(tables, isOfReaders, once);
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
      const holders = await findHolders(this.connection, tables, isOfReaders);
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
