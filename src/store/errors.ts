import {
  addedByServer,
  type ErrorDetails,
  isAborted,
  messageOf,
  type StoreErrorCode,
  TapekeepError,
} from '../kernel/errors.js';

/** An error of the store. `sqlstate` is Postgres' code where the server gave one. */
export class StoreError extends TapekeepError {
  declare readonly code: StoreErrorCode;
  /** Postgres' code of five characters; undefined where the server gave none. */
  readonly sqlstate: string | undefined;

  constructor(
    code: StoreErrorCode,
    message: string,
    options?: ErrorDetails & { readonly sqlstate?: string | undefined },
  ) {
    super(code, message, options);
    this.sqlstate = options?.sqlstate;
  }
}

/**
 * What a failure of the database means for the work that met it.
 *
 * - `retry`: the server or the way to it is in trouble; the same work will succeed later.
 * - `data`: this work can never succeed, other work can.
 * - `partition`: a partition is missing; make it and repeat.
 * - `duplicate`: a row was already there where none was expected.
 * - `fatal`: nothing can succeed until a person changes something.
 */
type SqlAction = 'retry' | 'data' | 'partition' | 'duplicate' | 'fatal';

/**
 * Single codes first, then classes (the first two characters). All others are fatal: no login, no right, no such
 * database, table or function. Source: PostgreSQL, Appendix A.
 */
const ACTIONS: Readonly<Record<string, SqlAction>> = {
  '23505': 'duplicate',
  // An exclusion constraint: two writers extended one stream; the next try sees the other's row.
  '23P01': 'retry',
  '08': 'retry', // connection
  '21': 'data',
  '22': 'data', // data exception
  '23': 'data', // integrity constraint
  '25': 'retry', // transaction state; read-only: a standby that is about to be promoted
  '40': 'retry', // deadlock, serialization
  '53': 'retry', // disk full, out of memory, too many connections
  '54': 'data', // program limit: a statement too complex, a value too long
  '55': 'retry', // object in use, lock not available
  '57': 'retry', // shut down, starting up, crashed, cancelled by statement_timeout
  '58': 'retry', // system error
  TK: 'data', // of our own, see sql/0001: rows for a partition that is sealed or expired
  XX: 'retry', // internal error
};

/** Postgres' codes that callers ask about, by what they mean. Source: the same, and sql/0001. */
const STATES = {
  'lock not available': ['55P03'],
  'not allowed': ['42501'],
  'out of time': ['57014'],
  'read only': ['25006'],
  /** A deadlock or a serialization failure: it succeeds when it is repeated. */
  'undone for others': ['40001', '40P01'],
  /** Table, object or row: another session made it at this instant. */
  'made meanwhile': ['42P07', '42710', '23505'],
  'partition sealed': ['TK001'],
  'partition expired': ['TK003'],
} as const satisfies Readonly<Record<string, readonly string[]>>;

/** Whether the server refused for this reason. */
export function isState(error: unknown, state: keyof typeof STATES): boolean {
  const codes: readonly string[] = STATES[state];
  return codes.includes(sqlstateOf(error) ?? '');
}

/** What the states of our own are called. */
const PARTITION_CODES: Readonly<Record<string, StoreErrorCode>> = {
  TK001: 'partition_final',
  TK003: 'partition_expired',
};

interface DatabaseErrorFields {
  readonly code?: unknown;
  readonly table?: unknown;
  readonly constraint?: unknown;
  readonly routine?: unknown;
}

/** Names the function of Postgres that refuses to change a foreign table; its message is in the server's language. */
const REFUSES_FOREIGN = 'CheckValidResultRel';

/** True if rows were refused because their partition is archived: by a function of sql/0001, which names it, or by Postgres. */
function isArchived(error: unknown): boolean {
  const { code, table, routine } = fieldsOf(error);
  return code === '55000' && (typeof table === 'string' || routine === REFUSES_FOREIGN);
}

/** True if rows were refused because those of their partition have left the database. */
export function isPartitionGone(error: unknown): boolean {
  return isState(error, 'partition expired') || isArchived(error);
}

function fieldsOf(error: unknown): DatabaseErrorFields {
  return ((error instanceof StoreError ? error.cause : error) ?? {}) as DatabaseErrorFields;
}

/** Postgres' five-character code, where the server gave one. */
export function sqlstateOf(error: unknown): string | undefined {
  if (error instanceof StoreError) return error.sqlstate;
  const { code } = (error ?? {}) as DatabaseErrorFields;
  // Those of Node begin with an E, as EPIPE does; none of Postgres' does.
  return typeof code === 'string' && /^(?!E)[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/** The partition that an error names: one that is final, archived or expired takes no rows. */
export function partitionOf(error: unknown): string | undefined {
  const { table } = fieldsOf(error);
  return typeof table === 'string' ? table : undefined;
}

export function actionOf(error: unknown): SqlAction {
  // Errors of our own say it themselves.
  if (error instanceof TapekeepError) return error.action === 'skip' ? 'data' : error.action;
  const sqlstate = sqlstateOf(error);
  // A broken connection, or a missed deadline.
  if (sqlstate === undefined) return 'retry';
  // "no partition of relation found for row" shares its code with broken CHECKs, which name one.
  const { constraint } = error as DatabaseErrorFields;
  if (isArchived(error)) return 'data';
  if (sqlstate === '23514' && typeof constraint !== 'string') return 'partition';
  return ACTIONS[sqlstate] ?? ACTIONS[sqlstate.slice(0, 2)] ?? 'fatal';
}

/** Whether the program itself failed, on what it was given: no connection and no server raises these. */
export function isProgramError(error: unknown): boolean {
  return [TypeError, RangeError, ReferenceError].some((one) => error instanceof one);
}

const RIGHTS_ADVICE =
  ': this login has no right to it; "Users" in docs/guides/sql.md says what each group may do';

/** An error of the database in the store's words. Never holds the password. */
export function toStoreError(error: unknown, doing: string): Error {
  if (error instanceof TapekeepError || isAborted(error)) return error as Error;
  const sqlstate = sqlstateOf(error);
  const action = actionOf(error);
  const said = messageOf(error) || 'connection lost';
  const advice = isState(error, 'not allowed') ? RIGHTS_ADVICE : '';
  const text = `${doing}: ${said}${sqlstate === undefined ? '' : ` (SQLSTATE ${sqlstate})`}${addedByServer(error)}${advice}`;
  const partition = isArchived(error) ? 'partition_archived' : PARTITION_CODES[sqlstate ?? ''];
  if (partition !== undefined) {
    return new StoreError(partition, said, { action: 'skip', cause: error, sqlstate });
  }
  if (action !== 'fatal' && action !== 'retry') {
    return new StoreError('data_refused', text, { cause: error, sqlstate });
  }
  const code = sqlstate === undefined ? 'database_unreachable' : 'database_failed';
  return new StoreError(code, text, { action, cause: error, sqlstate });
}
