import { type ErrorAction, TapekeepError } from '../kernel/errors.js';

/** Stable codes of what can go wrong in the store, beside Postgres' own SQLSTATEs. */
export type StoreErrorCode =
  /** The archive belongs to another exchange, or to the sandbox. */
  | 'archive_of_another_exchange'
  /** The address of the database cannot be read. */
  | 'bad_database_url'
  /** A batch claims time that is not over yet. */
  | 'claim_beyond_present'
  /** The database refuses rows or values; the batch is left out. */
  | 'data_refused'
  /** A statement failed in a way that has no code of its own; `sqlstate` has that of Postgres. */
  | 'database_failed'
  /** Postgres refuses the user, the password or the database. */
  | 'database_login_refused'
  /** The address leads to a standby or to read-only sessions. */
  | 'database_read_only'
  /** The certificate of Postgres is not trusted, or it speaks no TLS. */
  | 'database_tls_refused'
  /** The schema is newer than the program. */
  | 'database_too_new'
  /** Postgres is older than 15. */
  | 'database_too_old'
  /** The schema is older than the program, and this command does not migrate. */
  | 'database_not_migrated'
  /** Postgres does not answer. */
  | 'database_unreachable'
  /** The disk of the embedded Postgres is full. */
  | 'embedded_postgres_disk_full'
  /** The embedded Postgres cannot be set up or started. */
  | 'embedded_postgres_failed'
  /** Another Postgres uses the data folder. */
  | 'embedded_postgres_locked'
  /** The embedded Postgres ended, and attempts to start it again failed. */
  | 'embedded_postgres_lost'
  /** Started as root, and no user can be found or made for the embedded Postgres. */
  | 'embedded_postgres_needs_user'
  /** A migration failed; the schema is as it was before. */
  | 'migration_failed'
  /** The rows of that time are in cold files, not in the database. */
  | 'partition_archived'
  /** The rows of that time are older than their retention and no longer kept. */
  | 'partition_expired'
  /** The partition is sealed and takes no rows. */
  | 'partition_final'
  /** The statement is not read-only, or not one statement. */
  | 'query_refused'
  /** The role or function that read-only statements run with is missing. */
  | 'query_role_missing'
  /** The statement took longer than it may. */
  | 'query_timeout'
  /** A reader or another program holds the partition. */
  | 'sealing_busy'
  /** The partition cannot be sealed, archived or restored as asked. */
  | 'sealing_refused'
  /** Another daemon writes to this archive. */
  | 'writer_lock_held';

/** An error of the store. `sqlstate` is Postgres' code where the server gave one. */
export class StoreError extends TapekeepError {
  declare readonly code: StoreErrorCode;
  /** Postgres' code of five characters; undefined where the server gave none. */
  readonly sqlstate: string | undefined;

  constructor(
    code: StoreErrorCode,
    action: ErrorAction,
    message: string,
    options?: { cause?: unknown; sqlstate?: string | undefined },
  ) {
    super(code, action, message, options);
    this.sqlstate = options?.sqlstate;
  }
}
