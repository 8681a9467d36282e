import { messageOf, TapekeepError } from '../kernel/errors.js';

/** How the program ends, for scripts and supervisors. Documented; numbers never change. */
export const EXIT_CODES = {
  /** Done, or stopped on request after everything received was stored. */
  ok: 0,
  /** Something failed while running. Starting again may help. */
  failure: 1,
  /** Wrong options or settings. Starting again will not help. */
  usage: 2,
  /** The database refuses us: newer schema, archive of another exchange, or another writer. */
  database: 3,
  /** The exchange can not be used, has become another one, or refuses a call. */
  exchange: 4,
  /** No answer tells whether an order was placed. Look before placing it again. */
  unknown: 5,
  /** What was verified is not proven, or proven wrong; the output names every doubt. */
  doubt: 6,
  /** Not all that was to be filled could be filled now; the output tells what is left, and why. */
  incomplete: 7,
  /** The span of an export is not complete; nothing was written. */
  gaps: 8,
  /**
   * Ended at once: a command that looks on its first signal, the daemon on its second; what was in
   * flight is collected again at the next start.
   */
  forced: 130,
} as const;

export type ExitCode = (typeof EXIT_CODES)[keyof typeof EXIT_CODES];

/** A wrong option or argument of the command line. */
export class UsageError extends TapekeepError {
  constructor(option: string, value: string, allowed: string) {
    super('usage', 'fatal', `${option}: "${value}" is not allowed; ${allowed}`);
  }
}

/** A SQL statement that the database does not accept. */
export class StatementError extends TapekeepError {
  constructor(message: string, cause: unknown) {
    super('usage', 'fatal', message, { cause });
  }
}

const BY_CODE: Readonly<Record<string, ExitCode>> = {
  usage: EXIT_CODES.usage,
  config_invalid: EXIT_CODES.usage,
  bad_schedule: EXIT_CODES.usage,
  markets_not_listed: EXIT_CODES.usage,
  bad_database_url: EXIT_CODES.usage,
  fault_script_invalid: EXIT_CODES.usage,
  tape_invalid: EXIT_CODES.usage,
  live_invalid: EXIT_CODES.usage,
  replay_invalid: EXIT_CODES.usage,
  archive_of_another_exchange: EXIT_CODES.database,
  query_refused: EXIT_CODES.usage,
  query_role_missing: EXIT_CODES.database,
  database_read_only: EXIT_CODES.database,
  database_login_refused: EXIT_CODES.database,
  database_tls_refused: EXIT_CODES.database,
  database_too_new: EXIT_CODES.database,
  database_too_old: EXIT_CODES.database,
  no_archive: EXIT_CODES.usage,
  output_refused: EXIT_CODES.usage,
  interchange_refused: EXIT_CODES.usage,
  export_gaps: EXIT_CODES.gaps,
  database_not_migrated: EXIT_CODES.database,
  writer_lock_held: EXIT_CODES.database,
  embedded_postgres_locked: EXIT_CODES.database,
  exchange_changed: EXIT_CODES.exchange,
  exchange_silent: EXIT_CODES.exchange,
  tls_refused: EXIT_CODES.exchange,
  redirected: EXIT_CODES.exchange,
  invalid_address: EXIT_CODES.usage,
  invalid_parameter: EXIT_CODES.usage,
  missing_credentials: EXIT_CODES.usage,
  authentication_failed: EXIT_CODES.exchange,
  field_errors: EXIT_CODES.exchange,
  invalid_input: EXIT_CODES.exchange,
  market_unavailable: EXIT_CODES.exchange,
  not_found: EXIT_CODES.exchange,
  operation_blocked: EXIT_CODES.exchange,
  request_refused: EXIT_CODES.exchange,
  rows_unreadable: EXIT_CODES.exchange,
  subscription_refused: EXIT_CODES.exchange,
  order_outcome_unknown: EXIT_CODES.unknown,
};

/** The exit code that fits an error. */
export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof TapekeepError) return BY_CODE[error.code] ?? EXIT_CODES.failure;
  return EXIT_CODES.failure;
}

/** What a person is told: our own errors speak for themselves, others come with their stack. */
export function describeFailure(error: unknown): string {
  if (error instanceof TapekeepError) return `tapekeep: ${error.message}`;
  const { code, port } = error as NodeJS.ErrnoException & { readonly port?: number };
  if (code === 'EADDRINUSE') {
    return `tapekeep: port ${port} is in use by another program; choose another one with --port, or 0 for any free one`;
  }
  const detail = error instanceof Error ? (error.stack ?? error.message) : messageOf(error);
  return `tapekeep: unexpected failure, please report it: ${detail}`;
}
