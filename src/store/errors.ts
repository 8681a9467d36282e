import { type ErrorAction, TapekeepError } from '../kernel/errors.js';

/** Stable codes of what can go wrong in the store, beside Postgres' own SQLSTATEs. */
export type StoreErrorCode =
  | 'archive_of_another_exchange'
  | 'bad_database_url'
  | 'claim_beyond_present'
  | 'data_refused'
  | 'database_failed'
  | 'database_login_refused'
  | 'database_read_only'
  | 'database_tls_refused'
  | 'database_too_new'
  | 'database_too_old'
  | 'database_not_migrated'
  | 'database_unreachable'
  | 'embedded_postgres_disk_full'
  | 'embedded_postgres_failed'
  | 'embedded_postgres_locked'
  | 'embedded_postgres_lost'
  | 'embedded_postgres_needs_user'
  | 'migration_failed'
  | 'partition_archived'
  | 'partition_expired'
  | 'partition_final'
  | 'query_refused'
  | 'query_role_missing'
  | 'query_timeout'
  | 'sealing_busy'
  | 'sealing_refused'
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
