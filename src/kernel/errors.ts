/**
 * Action for the owner of a failed piece of work about it.
 *
 * - `retry`: the same work may succeed later; back off and repeat.
 * - `skip`: this piece cannot succeed, the next one may; record it and go on.
 * - `fatal`: nothing of this kind can succeed until a person changes something.
 */
export type ErrorAction = 'retry' | 'skip' | 'fatal';

/** How the program ends, for scripts and supervisors, with what help says of it. Numbers never change. */
export const EXITS = {
  ok: [0, 'done, or stopped on request after everything received was stored'],
  failure: [1, 'failed while running; starting again may help'],
  usage: [2, 'a wrong option or setting'],
  database: [3, 'database refused: newer schema, archive of another exchange, another writer'],
  exchange: [4, 'exchange unusable, changed, or refused a call'],
  unknown: [5, 'order status unknown: check open orders before retrying'],
  unproven: [6, 'verify: mismatch, gap, or nothing to compare; see the output'],
  incomplete: [
    7,
    'gaps fill, backfill, seal, import, cold move, backup, recover: incomplete; see the output',
  ],
  gaps: [8, 'export: time range incomplete; nothing was written'],
  forced: [130, 'interrupted: the daemon by a second signal, other commands by the first'],
} as const;
export type ExitName = keyof typeof EXITS;

interface ErrorEntry {
  /** Default action; if there are two, the first is that of an error which names none. */
  readonly action: ErrorAction | `${ErrorAction} or ${ErrorAction}`;
  /** Exit code of a command that ends with it. */
  readonly exit: ExitName;
  readonly meaning: string;
}

/** Entries that have action and exit code in common. */
function entries<Code extends string>(
  action: ErrorEntry['action'],
  exit: ExitName,
  meanings: Readonly<Record<Code, string>>,
): Readonly<Record<Code, ErrorEntry>> {
  const all = Object.entries<string>(meanings);
  const made = all.map(([code, meaning]) => [code, { action, exit, meaning }]);
  return Object.fromEntries(made) as Record<Code, ErrorEntry>;
}

/** Codes of the store, beside Postgres' own SQLSTATEs. */
const STORE = {
  ...entries('fatal', 'database', {
    archive_of_another_exchange: 'The archive belongs to another exchange.',
    database_encoding: 'The encoding of the database is not UTF8.',
    database_not_migrated: 'The schema is older than the program; run tapekeep migrate.',
    database_too_new: 'Another version of the program made the schema.',
    database_too_old: 'Postgres is older than 15.',
    embedded_postgres_locked: 'Another program owns the embedded Postgres, which does not respond.',
    writer_lock_held: 'Another daemon writes to this archive.',
    shares_differ: 'Another daemon divides the markets into another number of shares.',
  }),
  ...entries('retry', 'database', {
    database_login_refused: 'Postgres refuses the user, the password or the database.',
    database_pooled: 'The connection leads through a pooler in transaction or statement mode.',
    database_read_only: 'The address leads to a standby or to read-only sessions.',
    database_tls_refused: 'The certificate of Postgres is not trusted, or it has no TLS.',
  }),
  ...entries('fatal', 'failure', {
    embedded_postgres_failed: 'The embedded Postgres cannot be set up or started.',
    embedded_postgres_lost:
      'The owner of the embedded Postgres ended, or it could not be restarted.',
    embedded_postgres_needs_user: 'This user cannot run the embedded Postgres.',
    migration_failed: 'A migration failed; the schema is unchanged.',
    spool_damaged: 'A file of the spool differs from what was written.',
    spool_in_use: 'Another process uses the folder of the spool.',
    spool_refused: 'The folder of the spool cannot be used, or belongs to another archive.',
    query_timeout: 'The statement exceeded its time limit.',
    sealing_refused: 'The partition cannot be sealed, archived or restored.',
  }),
  ...entries('fatal or retry', 'failure', {
    database_failed: 'A statement failed; `sqlstate` is the code of Postgres.',
  }),
  ...entries('retry', 'failure', {
    database_unreachable: 'Postgres does not respond.',
    database_went_back:
      'The database lacks confirmed commits, or is another one; collecting starts again from it.',
    embedded_postgres_disk_full: 'The disk of the embedded Postgres is full.',
    spool_full: 'The spool is full, or its disk; what comes is dropped while the database is away.',
    sealing_busy: 'A reader or another program uses the partition.',
  }),
  ...entries('skip', 'failure', {
    claim_beyond_present: 'A batch claims time that is not over.',
    data_refused: 'The database refused rows or values; the batch is discarded.',
    journal_behind:
      'The journal no longer has the changes since that entry; read everything again.',
    partition_archived: 'The rows of that time are in cold files.',
    partition_expired: 'The rows of that time expired.',
    partition_final: 'The partition is sealed and takes no rows.',
  }),
  ...entries('fatal', 'usage', {
    bad_database_url: 'The address of the database is invalid.',
  }),
};

/** Codes of what can be wrong with a question to the archive. */
const ARCHIVE = {
  ...entries('fatal', 'failure', {
    archive_closed: 'The archive is closed.',
    events_ended: 'These events were read already; call archive.events again.',
    archive_gaps: 'The time range is not complete.',
    archived_rows_unreachable: 'Postgres does not reach what answers for archived rows.',
    bad_moment: 'Invalid timestamp.',
    bad_option: 'Invalid option value.',
    bad_span: 'The time range is empty or ends before it starts.',
    not_collected: 'Nothing of this kind, interval or period is collected for the market.',
    span_outside_archive: 'Nothing was collected in this time range.',
    unknown_kind: 'Unknown kind of rows.',
    unknown_market: 'The archive does not know this market.',
  }),
  ...entries('fatal', 'usage', {
    no_archive: 'No archive found.',
  }),
};

/** Codes of what can go wrong with cold partitions. */
const COLD = {
  ...entries('fatal', 'failure', {
    cold_damaged: 'A cold file differs from what was written.',
    cold_cache_full: 'Cold files that are read together do not fit into cold.cache.',
    cold_missing: 'A cold file is missing.',
  }),
  ...entries('fatal or retry', 'failure', {
    cold_mismatch: 'Rows do not match the checksum of their sealing.',
    cold_refused:
      'The cold folder or bucket cannot be read or written, or belongs to another database.',
  }),
  ...entries('retry', 'failure', {
    cold_conflict: 'Another process wrote the cold file first.',
    cold_disk_full: 'The disk or bucket of cold files is full.',
    cold_unreachable: 'The bucket of cold files is busy or cannot be reached.',
    restore_disk_full: 'The database has no room for the restored rows.',
  }),
};

/** Codes of all other rooms. */
const OTHER = {
  ...entries('fatal', 'exchange', {
    authentication_failed: 'Wrong signature, nonce, key or path, or the key is not activated.',
    wrong_dialect: 'The exchange speaks another dialect than the setting.',
    exchange_changed: 'The address leads to another exchange now; its rows are not stored.',
    replay_has_gaps: 'The exchange is a replay with gaps in what the settings collect.',
    exchange_silent: 'The exchange gave no usable response before the --for time ended.',
    redirected: 'The exchange redirected; redirects are never followed.',
  }),
  ...entries('retry', 'exchange', {
    proxy_refused: 'The proxy refused its login or the connection.',
    rows_unreadable: 'No row of the response fits the contract.',
    tls_refused: "The exchange's certificate is not trusted, or it has no TLS.",
  }),
  ...entries('skip', 'exchange', {
    field_errors: 'The exchange refused the named fields.',
    invalid_input: 'The exchange refused the request as invalid.',
    market_unavailable: 'The exchange does not offer this market.',
    not_found: 'No such path, or no data.',
    not_offered: 'The exchange has no such endpoint.',
    operation_blocked: 'The exchange accepts no orders for this pair.',
    request_refused: 'Refused for an unknown reason.',
    subscription_refused: 'The exchange refused the subscription.',
  }),
  ...entries('fatal', 'failure', {
    bad_sandbox_file: 'The file with the start of the built-in exchange is damaged.',
    control_body_invalid: 'The body of a control request is invalid.',
    engine_misused: 'Invalid set-up or call of the matching engine.',
    missing_realtime_url: 'The real-time address is not set.',
    nonce_exhausted: 'The saved nonce is at the limit of 13 digits, so it is wrong.',
    nonce_file: 'The nonces of a key cannot be saved, so nothing is signed.',
    handover_refused: 'No daemon stands by, or the archive did not change hands in time.',
    backup_damaged: 'A file of a backup is missing or altered.',
    backup_refused: 'The server cannot be backed up, or the place of a recovery is not empty.',
    parquet_failed: 'DuckDB failed, for example for lack of disk space.',
    program_missing: 'A required program of the system is not installed.',
    query_stuck: 'A statement could not be stopped; its process was killed.',
    status_server: 'The console cannot listen on its address.',
  }),
  ...entries('retry', 'failure', {
    budget_overrun: 'Too many requests wait for the request budget.',
    candle_mismatch: 'The response is for another market or interval.',
    disk_full: 'The disk is full.',
    malformed_reply: 'The response is empty, truncated, not UTF-8, not JSON, or of another shape.',
    network: 'The connection failed or broke.',
    no_markets: 'The exchange lists no market.',
    nonce_locked: 'Another program signs with this key and does not finish.',
    webhook_refused: 'The receiver of notices refused one.',
    query_resources: 'Not enough memory or disk for a statement.',
    rate_limited: 'The exchange refused the request rate.',
    reply_too_large: 'The response exceeds the size limit.',
    rows_unstored: 'Received rows could not be stored before the end of the daemon.',
    server_error: 'The exchange failed with a 5xx status.',
    service_unavailable: 'The exchange reported a failure under HTTP 200.',
    start_unfinished: 'The --for time ended before collecting could start.',
    status_timeout: 'A status response did not come in time.',
    timeout: 'The response did not complete within the deadline.',
    walk_stalled: 'A page made no progress in the walk, or contradicts an earlier one.',
  }),
  ...entries('skip', 'failure', {
    aborted: 'Cancelled on request.',
  }),
  ...entries('fatal', 'gaps', {
    export_gaps: 'The time range to export has gaps.',
  }),
  ...entries('fatal', 'unknown', {
    order_outcome_unknown:
      'Order status unknown: it may be in the book, executed, or never received.',
  }),
  ...entries('fatal', 'usage', {
    bad_schedule: 'Invalid cron expression.',
    config_invalid: 'Invalid settings.',
    fault_script_invalid: 'Invalid fault rule; the message names rule, key and value.',
    invalid_address: 'Invalid address in the settings.',
    live_invalid: 'Invalid option or change of the sandbox.',
    markets_not_listed: 'The exchange lists none of the configured markets.',
    missing_credentials: 'A signed call needs credentials.',
    output_refused: 'The output file cannot be written.',
    replay_invalid: 'The replay cannot do this; the message says why.',
    temporary_folder: 'The folder of TMPDIR cannot be written.',
    tape_invalid: 'Invalid tape file or option; the message says where.',
    usage: 'Invalid option, argument or statement.',
  }),
  ...entries('skip', 'usage', {
    invalid_parameter: "A parameter exceeds the contract's limits; nothing was sent.",
  }),
  ...entries('retry or skip', 'failure', {
    unexpected_page: 'The response is a web page or has another content type than JSON.',
  }),
};

/** Codes of errors of the database. */
export type StoreErrorCode = keyof typeof STORE;
/** Codes of refused questions to an archive. */
export type ArchiveErrorCode = keyof typeof ARCHIVE;
/** Codes of errors of cold files. */
export type ColdErrorCode = keyof typeof COLD;

/** Every code that an error of ours carries; `docs/reference/errors.md` shows them. None changes its meaning. */
export const ERRORS = { ...STORE, ...ARCHIVE, ...COLD, ...OTHER };
/** Any of them. */
export type ErrorCode = keyof typeof ERRORS;

/** Details of an error besides its code and its text. */
export interface ErrorDetails {
  /** Earlier error. */
  readonly cause?: unknown;
  /** Action of the caller, if the code alone does not say it. */
  readonly action?: ErrorAction | undefined;
}

/**
 * Base of every error that tapekeep throws on purpose.
 *
 * `code` is stable and meant for programs, `message` names what was wrong, where, and what to do.
 */
export class TapekeepError extends Error {
  /** Stable, for programs: it never changes its meaning. */
  readonly code: ErrorCode;
  /** Action of the caller. */
  readonly action: ErrorAction;

  /** @param options `action` where it is another than the catalogue's first, or depends on the cause */
  constructor(code: ErrorCode, message: string, options?: ErrorDetails) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
    this.action = options?.action ?? (ERRORS[code].action.split(' ')[0] as ErrorAction);
  }
}

/** Work was given up because its owner asked for it, not because it failed. */
export class AbortedError extends TapekeepError {
  constructor(message = 'stopped on request') {
    super('aborted', message);
  }
}

/** A wrong option or argument of a command, or field of a request. */
export class UsageError extends TapekeepError {
  /**
   * @param name of the option or field, as its author knows it
   * @param value undefined: it is missing, and has to be given
   */
  constructor(name: string, value: string | undefined, allowed: string) {
    const fault = value === undefined ? ' is missing' : `: "${value}" is not allowed`;
    super('usage', `${name}${fault}; ${allowed}`);
  }
}

/** Returns true if `error` only says that work was stopped on request. */
export function isAborted(error: unknown): boolean {
  return error instanceof AbortedError || (error instanceof Error && error.name === 'AbortError');
}

/** A server may quote a whole row. */
const ADDED_LETTERS = 400;

/** Returns what Postgres adds to the message of an error: what is wrong in detail, and what to do. Empty where it adds nothing. */
export function addedByServer(error: unknown): string {
  const { detail, hint } = (error ?? {}) as { readonly detail?: unknown; readonly hint?: unknown };
  return Object.entries({ detail, hint })
    .filter(([, text]) => typeof text === 'string' && text !== '')
    .map(([name, text]) => `; ${name}: ${String(text).slice(0, ADDED_LETTERS)}`)
    .join('');
}

/** The text of any thrown value, for log lines and messages. */
export function messageOf(error: unknown): string {
  if (error instanceof Error) return error.message;
  try {
    return String(error);
  } catch {
    // Objects without a usable toString: reporting a failure must not fail over its text.
    return 'a thrown value without text';
  }
}

/** The stable code of any thrown value: ours, Node's or Postgres' `code`, else the class name. */
export function codeOf(error: unknown): string {
  if (error instanceof Error) {
    const code: unknown = (error as { code?: unknown }).code;
    return typeof code === 'string' ? code : error.name;
  }
  return 'unknown';
}
