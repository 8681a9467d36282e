/**
 * What the owner of a failed piece of work should do about it.
 *
 * - `retry`: the same work may succeed later; back off and repeat.
 * - `skip`: this piece cannot succeed, the next one may; record it and go on.
 * - `fatal`: nothing of this kind can succeed until a person changes something.
 */
export type ErrorAction = 'retry' | 'skip' | 'fatal';

/** How the program ends, for scripts and supervisors, with what help says of it. Numbers never change. */
export const EXITS = {
  ok: [0, 'done, or stopped on request after everything received was stored'],
  failure: [1, 'something failed while running; starting again may help'],
  usage: [2, 'a wrong option or setting'],
  database: [3, 'the database refuses: newer schema, archive of another exchange, another writer'],
  exchange: [4, 'the exchange cannot be used, has become another one, or refuses a call'],
  unknown: [5, 'nothing tells whether an order was placed: look before placing it again'],
  unproven: [6, 'verify: something is not proven, or wrong; the output names it'],
  incomplete: [
    7,
    'gaps fill, backfill, seal: not all of it could be done now; the output tells why',
  ],
  gaps: [8, 'export: the span is not complete; nothing was written'],
  forced: [130, 'ended at once: the daemon on a second signal, other commands on the first'],
} as const;
export type ExitName = keyof typeof EXITS;

interface ErrorEntry {
  /** Where it depends, the first is that of an error which names none. */
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
    archive_of_another_exchange: 'The archive belongs to another exchange, or to the sandbox.',
    database_encoding: 'The database stores text in another encoding than UTF-8.',
    database_not_migrated:
      'The schema is older than the program, and this command does not migrate.',
    database_too_new: 'The schema is newer than the program.',
    database_too_old: 'Postgres is older than 15.',
    embedded_postgres_locked: 'Another program owns the embedded Postgres, which does not answer.',
    writer_lock_held: 'Another daemon writes to this archive.',
  }),
  ...entries('retry', 'database', {
    database_login_refused: 'Postgres refuses the user, the password or the database.',
    database_pooled:
      'A pooler in transaction or statement mode lies between: no session lasts longer than a transaction.',
    database_read_only: 'The address leads to a standby or to read-only sessions.',
    database_tls_refused: 'The certificate of Postgres is not trusted, or it speaks no TLS.',
  }),
  ...entries('fatal', 'failure', {
    embedded_postgres_failed: 'The embedded Postgres cannot be set up or started.',
    embedded_postgres_lost:
      'The embedded Postgres ended with the process that ran it, or could not be started again.',
    embedded_postgres_needs_user:
      'The embedded Postgres cannot be run, or looked at, as this user.',
    migration_failed: 'A migration failed; the schema is as it was before.',
    query_timeout: 'The statement took longer than it may.',
    sealing_refused: 'The partition cannot be sealed, archived or restored as asked.',
  }),
  ...entries('fatal or retry', 'failure', {
    database_failed:
      'A statement failed in a way that has no code of its own; `sqlstate` has that of Postgres.',
  }),
  ...entries('retry', 'failure', {
    database_unreachable: 'Postgres does not answer.',
    database_went_back:
      'The database is older than it was left, or another one; collecting starts again from it.',
    embedded_postgres_disk_full: 'The disk of the embedded Postgres is full.',
    sealing_busy: 'A reader or another program holds the partition.',
  }),
  ...entries('skip', 'failure', {
    claim_beyond_present: 'A batch claims time that is not over yet.',
    data_refused: 'The database refuses rows or values; the batch is left out.',
    partition_archived: 'The rows of that time are in cold files, not in the database.',
    partition_expired: 'The rows of that time are older than their retention and no longer kept.',
    partition_final: 'The partition is sealed and takes no rows.',
  }),
  ...entries('fatal', 'usage', {
    bad_database_url: 'The address of the database cannot be read.',
  }),
};

/** Codes of what can be wrong with a question to the archive. */
const ARCHIVE = {
  ...entries('fatal', 'failure', {
    archive_closed: 'The archive was closed before.',
    events_ended: 'A second loop over events that were read or left: it would see none.',
    archive_gaps: 'The span is not proven complete, and that was not allowed.',
    bad_moment: 'A moment that is none.',
    bad_option: 'An option with a value that is none of those allowed.',
    bad_span: 'A span that is empty, or ends before it begins.',
    not_collected:
      'The market exists, but nothing of this kind (or interval, or period) is collected of it.',
    span_outside_archive: 'A span of which nothing was ever collected.',
    unknown_kind: 'A kind of rows that is none of those known.',
    unknown_market: 'A market that the archive does not know.',
  }),
  ...entries('fatal', 'usage', {
    no_archive: 'Nothing is there to be opened.',
  }),
};

/** Codes of what can go wrong with cold partitions. */
const COLD = {
  ...entries('fatal', 'failure', {
    cold_damaged: 'A file is not what was written: other bytes, no Parquet, no manifest.',
    cold_missing: 'A file that the archive counts on is not there.',
  }),
  ...entries('fatal or retry', 'failure', {
    cold_mismatch: 'Rows do not add up to the checksum that they were sealed with.',
    cold_refused: 'The cold folder cannot be written or read.',
  }),
  ...entries('retry', 'failure', {
    cold_disk_full: 'The disk of the cold folder is full.',
    restore_disk_full: 'The database has no room for the rows of a partition that is brought back.',
  }),
};

/** Codes of all other rooms. */
const OTHER = {
  ...entries('fatal', 'exchange', {
    authentication_failed: 'Signature, nonce, key or path is wrong, or the key is not activated.',
    wrong_dialect: 'The exchange answers in another dialect than is set, or only to its questions.',
    exchange_changed:
      'The server behind the address is suddenly another exchange: its rows must not be mixed in.',
    replay_has_gaps:
      'The exchange is a replay whose time range has gaps in what the settings collect.',
    exchange_silent:
      'The time for the run was over before the exchange had given one usable answer.',
    redirected: 'Redirects are never followed: they could point anywhere, also inward.',
  }),
  ...entries('retry', 'exchange', {
    proxy_refused: 'The proxy refuses its user and password, or connections to the exchange.',
    rows_unreadable: 'The answer has rows, and none of them fits the contract.',
    tls_refused: "The exchange's certificate is not to be believed, or it speaks no TLS.",
  }),
  ...entries('skip', 'exchange', {
    field_errors: 'The exchange names the fields that it does not accept.',
    invalid_input: 'The exchange calls the request invalid.',
    market_unavailable: 'The exchange does not offer this market now.',
    not_found: 'No such path, or no data to be found.',
    not_offered: 'The exchange has no such endpoint, or none that this program speaks.',
    operation_blocked: 'The exchange does not take orders for this pair now.',
    request_refused: 'Refused for a reason that the contract does not know.',
    subscription_refused: 'The exchange answered and does not let anybody subscribe to this.',
  }),
  ...entries('fatal', 'failure', {
    bad_sandbox_file: 'The file that remembers when the built-in exchange began is damaged.',
    control_body_invalid: 'The body of a control request cannot be used.',
    engine_misused:
      'The engine was set up or called in a way that no request of a client can cause.',
    missing_realtime_url: 'The real-time interface was asked for without its address.',
    nonce_exhausted:
      "No nonce is left below the contract's 13 digits: the saved one must be wrong.",
    nonce_file: 'The nonces of a key cannot be kept, so nothing is signed with it.',
    parquet_failed:
      'Something that DuckDB could not do: a file that is no Parquet, a disk that is full.',
    program_missing: 'A program of the system that a command runs is not installed.',
    query_stuck:
      'A statement was to end and cannot be stopped: only the end of the process ends it.',
    status_server: 'The status server cannot listen where it should.',
  }),
  ...entries('retry', 'failure', {
    budget_overrun:
      'More callers wait for the budget than its limit allows: the caller must shed work.',
    candle_mismatch:
      'The answer is for another market or interval than was asked for, so it proves nothing.',
    disk_full: 'The disk is full.',
    malformed_reply: "Empty, cut off, not UTF-8, not JSON, or not of the endpoint's shape.",
    network: 'The connection could not be made, or broke.',
    no_markets: 'The exchange lists no market at all: more likely its fault than the truth.',
    nonce_locked: 'Another program signs with this key and does not come to an end.',
    query_resources: 'The machine has not enough memory or disk for a statement.',
    rate_limited: 'Too fast for the exchange.',
    reply_too_large:
      'The body, or all that are read at once, are larger than the client accepts; reading was stopped.',
    rows_unstored: 'Rows that had arrived could not be stored before the end of the daemon.',
    server_error: 'The exchange failed: a 5xx status.',
    service_unavailable:
      'An envelope that says failure under HTTP 200, as for an unknown market on depth.',
    start_unfinished:
      'The time for the run was over before everything stood that collecting needs.',
    status_timeout: 'An answer that an operator asked for did not come in time.',
    timeout: 'The total deadline passed before the answer was complete.',
    walk_stalled:
      "The exchange's answers do not let the walk through history get on: a request made no progress, or contradicts what was answered before.",
  }),
  ...entries('skip', 'failure', {
    aborted: 'Work was given up because its owner asked for it, not because it failed.',
  }),
  ...entries('fatal', 'gaps', {
    export_gaps: 'Rows are not written because some of the span is not proven complete.',
  }),
  ...entries('fatal', 'unknown', {
    order_outcome_unknown:
      'An order left, and no answer says what became of it: it may rest in the book, may have been executed, or may never have arrived.',
  }),
  ...entries('fatal', 'usage', {
    bad_schedule: 'A cron expression that node-cron does not accept.',
    config_invalid: 'The settings cannot be used.',
    fault_script_invalid:
      'A fault script is not usable; the message names the rule, the key, the value and what is allowed.',
    invalid_address: 'An address in the configuration cannot be used.',
    live_invalid: 'The options of a live exchange, or a change asked of it, are not possible.',
    markets_not_listed: 'Nothing of what the settings want is there.',
    missing_credentials:
      'A signed call was asked for, but the client was built without credentials.',
    output_refused: 'The place to write to cannot be used.',
    replay_invalid:
      'A replay cannot do what was asked of it; the message says why, and what to do.',
    temporary_folder: 'The folder for temporary files, which TMPDIR names, cannot be written.',
    tape_invalid:
      'A tape file or the options of a tape are not usable; the message says where and what is allowed.',
    usage: 'A wrong option or argument, or a statement that the database does not accept.',
  }),
  ...entries('skip', 'usage', {
    invalid_parameter: "A parameter is outside the contract's limits; nothing was sent.",
  }),
  ...entries('retry or skip', 'failure', {
    unexpected_page: 'The answer is a web page, or of another content type than JSON.',
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

/** What an error may carry besides its code and its text. */
export interface ErrorDetails {
  /** What went wrong before. */
  readonly cause?: unknown;
  /** What the caller should do about it, where the code alone does not say it. */
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
  /** What the caller should do about it. */
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

/** Whether `error` only says that work was stopped on request. */
export function isAborted(error: unknown): boolean {
  return error instanceof AbortedError || (error instanceof Error && error.name === 'AbortError');
}

/** A server may quote a whole row. */
const ADDED_LETTERS = 400;

/** What Postgres adds to the message of an error: what is wrong in detail, and what to do. Empty where it adds nothing. */
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
