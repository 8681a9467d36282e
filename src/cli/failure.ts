import { messageOf, TapekeepError } from '../kernel/errors.js';

/** How the program ends, for scripts and supervisors, with what help says of it. Numbers never change. */
const EXITS = {
  ok: [0, 'done, or stopped on request after everything received was stored'],
  failure: [1, 'something failed while running; starting again may help'],
  usage: [2, 'a wrong option or setting'],
  database: [3, 'the database refuses: newer schema, archive of another exchange, another writer'],
  exchange: [4, 'the exchange cannot be used, has become another one, or refuses a call'],
  unknown: [5, 'nothing tells whether an order was placed: look before placing it again'],
  doubt: [6, 'verify: something is not proven, or wrong; the output names it'],
  incomplete: [7, 'gaps fill, backfill: not all of it could be filled now; the output tells why'],
  gaps: [8, 'export: the span is not complete; nothing was written'],
  forced: [130, 'ended at once: the daemon on a second signal, other commands on the first'],
} as const;
type ExitName = keyof typeof EXITS;
export type ExitCode = (typeof EXITS)[ExitName][0];

export const EXIT_CODES = Object.fromEntries(
  Object.entries(EXITS).map(([name, [code]]) => [name, code]),
) as { readonly [N in ExitName]: (typeof EXITS)[N][0] };

export const EXIT_CODE_HELP = [
  '\nExit codes:',
  ...Object.values(EXITS).map(([code, meaning]) => `  ${String(code).padEnd(4)} ${meaning}`),
].join('\n');

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

/** Codes of errors by the exit code that fits them; all others are failures. */
const CODES: Readonly<Partial<Record<ExitName, readonly string[]>>> = {
  usage: [
    ...['usage', 'config_invalid', 'bad_schedule', 'markets_not_listed'],
    ...['bad_database_url', 'fault_script_invalid', 'tape_invalid', 'live_invalid'],
    ...['replay_invalid', 'query_refused', 'no_archive', 'output_refused'],
    ...['interchange_refused', 'invalid_address', 'invalid_parameter', 'missing_credentials'],
  ],
  database: [
    ...[
      'archive_of_another_exchange',
      'query_role_missing',
      'database_read_only',
      'database_login_refused',
    ],
    ...['database_tls_refused', 'database_too_new', 'database_too_old', 'database_not_migrated'],
    ...['writer_lock_held', 'embedded_postgres_locked'],
  ],
  gaps: ['export_gaps'],
  exchange: [
    ...['exchange_changed', 'exchange_silent', 'tls_refused', 'redirected'],
    ...['authentication_failed', 'field_errors', 'invalid_input', 'market_unavailable'],
    ...['not_found', 'operation_blocked', 'request_refused', 'rows_unreadable'],
    ...['subscription_refused'],
  ],
  unknown: ['order_outcome_unknown'],
};

/** The exit code that fits an error. */
export function exitCodeOf(error: unknown): ExitCode {
  const code = error instanceof TapekeepError ? error.code : '';
  const found = Object.entries(CODES).find(([, codes]) => codes.includes(code));
  return EXIT_CODES[(found?.[0] ?? 'failure') as ExitName];
}

/** Error text for people: our own errors speak for themselves, others come with their stack. */
export function describeFailure(error: unknown): string {
  if (error instanceof TapekeepError) return `tapekeep: ${error.message}`;
  const { code, port } = error as NodeJS.ErrnoException & { readonly port?: number };
  if (code === 'EADDRINUSE') {
    return `tapekeep: port ${port} is in use by another program; choose another one with --port, or 0 for any free one`;
  }
  const detail = error instanceof Error ? (error.stack ?? error.message) : messageOf(error);
  return `tapekeep: unexpected failure, please report it: ${detail}`;
}
