import { SERIES_TABLES, type SeriesTable, seriesOf } from '../../model/series.js';

/** Rights in Postgres' words; one on a column alone names it: `UPDATE(executed_at)`. */
export interface RoleRights {
  readonly writer: readonly string[];
  readonly reader: readonly string[];
}

const READ = ['SELECT'];
const NO_RIGHTS: readonly string[] = [];
const ADD = ['SELECT', 'INSERT'];
const ADD_REMOVE = ['SELECT', 'INSERT', 'DELETE'];
const ADD_CHANGE = ['SELECT', 'INSERT', 'UPDATE'];
const ALL_ROWS = ['SELECT', 'INSERT', 'UPDATE', 'DELETE'];

/** Series are only added to, but for what is learned later, and where a version gives way to the next. */
function rightsOf(table: SeriesTable): RoleRights {
  const { columns, versions, retention } = seriesOf(table);
  const learned = columns.filter(({ isLearned }) => isLearned).map(({ name }) => `UPDATE(${name})`);
  return {
    writer: versions === null ? [...ADD, ...learned] : ADD_CHANGE,
    reader: retention === 'account' ? NO_RIGHTS : READ,
  };
}

const SERIES_RIGHTS = Object.fromEntries(SERIES_TABLES.map((table) => [table, rightsOf(table)]));

/**
 * What the writer and the reader may do with each table (data model, Roles). The ledger is kept. The account's own data and what was
 * refused (which may hold some of it) are not for readers.
 *
 * Every table of the archive stands here: one that does not belongs to nobody but its owner.
 */
export const TABLE_RIGHTS: Readonly<Record<string, RoleRights>> = {
  ...SERIES_RIGHTS,
  archive: { writer: ADD_CHANGE, reader: READ },
  market: { writer: ADD_CHANGE, reader: READ },
  market_history: { writer: ADD, reader: READ },
  stream: { writer: ADD_CHANGE, reader: READ },
  coverage: { writer: ALL_ROWS, reader: READ },
  gap: { writer: ALL_ROWS, reader: READ },
  trade_epoch: { writer: ADD, reader: READ },
  wanted: { writer: ALL_ROWS, reader: READ },
  session: { writer: ADD_CHANGE, reader: READ },
  verdict: { writer: ALL_ROWS, reader: READ },
  verdict_doubt: { writer: ADD_REMOVE, reader: READ },
  quarantine: { writer: ADD_REMOVE, reader: NO_RIGHTS },
  quarantine_count: { writer: ADD_CHANGE, reader: READ },
  partition_policy: { writer: READ, reader: READ },
  partition_state: { writer: READ, reader: READ },
  exclusive_lock: { writer: ADD_CHANGE, reader: READ },
  reader_lock: { writer: READ, reader: READ },
  tapekeep_migration: { writer: READ, reader: READ },
};
