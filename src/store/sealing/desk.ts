import { columnsOf, type SeriesColumn } from '../../model/kinds.js';
import type { SeriesTable } from '../../model/series.js';
import { StoreError } from '../errors.js';
import { fromMs } from '../instants.js';
import { holdLock } from '../locks.js';
import { sqlstateOf } from '../sqlstate.js';
import type {
  PartitionInfo,
  PartitionMarket,
  SealFacts,
  SealingDesk,
  StreamCoverage,
} from './api-sealing.js';
import type { LongConnection } from './connection.js';
import { findLedgerDoubts, findUnsettled, readCoverage } from './settled.js';
import { marketRowsSql } from './tables.js';

type Place = Pick<PartitionInfo, 'table' | 'name' | 'span'>;

const IS_DISTRIBUTED = `SELECT to_regclass('pg_dist_partition') IS NOT NULL AS known`;
const DISTRIBUTED = `
  SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'trade'::regclass) AS is_so`;

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
  SELECT h.market_id AS "marketId", coalesce(m.name, h.market_id::text) AS market,
         m.stock_prec AS "stockPrec", m.money_prec AS "moneyPrec"
  FROM held h LEFT JOIN market m USING (market_id) WHERE h.market_id IS NOT NULL ORDER BY 1`;

const AT = fromMs('$2');

/** The desk on one connection; it holds the lock that makes it the only one. */
export class PostgresSealingDesk implements SealingDesk {
  readonly #connection: LongConnection;

  private constructor(connection: LongConnection) {
    this.#connection = connection;
  }

  /** @throws StoreError `sealing_busy`, `sealing_refused` */
  static async open(connection: LongConnection): Promise<PostgresSealingDesk> {
    await holdLock((sql, values) => connection.rows(sql, values), 'sealing', {
      ...{ code: 'sealing_busy', action: 'retry' },
      text: (heldBy) =>
        `another tapekeep is sealing, archiving or restoring partitions of this database (${heldBy}): try again when it has ended`,
    });
    const [citus] = await connection.rows<{ known: boolean }>(IS_DISTRIBUTED);
    if (citus?.known === true) {
      const [found] = await connection.rows<{ is_so: boolean }>(DISTRIBUTED);
      if (found?.is_so === true) {
        throw new StoreError(
          'sealing_refused',
          'fatal',
          'the tables are distributed over a Citus cluster, where partitions are not sealed, archived or given up: set partitions.seal to false, and leave retention at forever',
        );
      }
    }
    return new PostgresSealingDesk(connection);
  }

  unsettled({ table, span }: Place, needsVerdicts: boolean) {
    return findUnsettled(this.#connection, table, span, needsVerdicts);
  }

  ledgerDoubts(span: Place['span']) {
    return findLedgerDoubts(this.#connection, span);
  }

  async beginSeal(place: Place): Promise<boolean> {
    return (await this.#call<string | null>('begin_seal($1, AT)', place)) !== null;
  }

  async rebuildIndexes(place: Place): Promise<void> {
    await this.#call('drop_broken_indexes($1, AT)', place);
    if (await this.#mayMaintain(place)) {
      await this.#connection.rows(`REINDEX TABLE CONCURRENTLY ${place.name}`);
    } else {
      await this.#call('rebuild_indexes($1, AT)', place);
    }
  }

  async freeze(place: Place): Promise<boolean> {
    if (!(await this.#mayMaintain(place))) return false;
    await this.#connection.rows(`VACUUM (FREEZE, ANALYZE) ${place.name}`);
    return true;
  }

  async finishSeal(place: Place, { rows, checksum }: SealFacts): Promise<boolean> {
    return await this.#call<boolean>('finish_seal($1, AT, $3, $4)', place, [rows, checksum]);
  }

  async markets({ name }: Place): Promise<PartitionMarket[]> {
    return await this.#connection.rows<PartitionMarket>(marketsSql(name));
  }

  columns(table: SeriesTable): readonly SeriesColumn[] {
    return columnsOf(table, true);
  }

  marketRows({ table, name }: Place, marketId: number): AsyncIterable<Buffer> {
    return this.#connection.copyOut(marketRowsSql(table, name, marketId));
  }

  async coverage({ table, span }: Place): Promise<StreamCoverage[]> {
    return await readCoverage(this.#connection, table, span);
  }

  async archive(
    place: Place,
    { uri, manifest }: { uri: string; manifest: { checksum: string } },
  ): Promise<boolean> {
    const more = [uri, JSON.stringify(manifest)];
    return await this.#call<boolean>('archive_partition($1, AT, $3, $4)', place, more);
  }

  async dropEmptied(place: Place): Promise<boolean> {
    return await this.#call<boolean>('drop_emptied($1, AT)', place);
  }

  async beginRestore(place: Place): Promise<boolean> {
    return (await this.#call<string | null>('begin_restore($1, AT)', place)) !== null;
  }

  async copyIn({ table, name }: Place, lines: Buffer): Promise<void> {
    const columns = columnsOf(table, true).map((one) => one.name);
    const sql = `COPY ${name} (market_id, ${columns.join(', ')}) FROM STDIN (FORMAT csv)`;
    await this.#connection.copyIn(sql, lines);
  }

  async finishRestore(place: Place, checksum: string): Promise<boolean> {
    return await this.#call<boolean>('finish_restore($1, AT, $3)', place, [checksum]);
  }

  async expire(place: Place): Promise<boolean> {
    return (await this.#call<string | null>('expire_partition($1, AT)', place)) !== null;
  }

  async close(): Promise<void> {
    await this.#connection.close();
  }

  async #mayMaintain({ name }: Place): Promise<boolean> {
    const [row] = await this.#connection.rows<{ may: boolean }>(MAY_MAINTAIN, [name]);
    return row?.may === true;
  }

  /** Calls one of the functions of sql/0006 and sql/0010; AT stands for the begin of the partition. */
  async #call<T>(
    call: string,
    { table, span, name }: Place,
    more: readonly unknown[] = [],
  ): Promise<T> {
    const values = [table, span.fromMs, ...more];
    try {
      const sql = `SELECT ${call.replace('AT', AT)} AS result`;
      const [row] = await this.#connection.rows<{ result: T }>(sql, values);
      return row?.result as T;
    } catch (error) {
      if (sqlstateOf(error) !== '55P03') throw error;
      throw new StoreError(
        'sealing_busy',
        'retry',
        `${name} is in use, so that it stays as it is for now: try again later`,
        { cause: error, sqlstate: '55P03' },
      );
    }
  }
}
