import {
  addedByServer,
  ERRORS,
  EXITS,
  type ExitName,
  messageOf,
  TapekeepError,
} from '../kernel/errors.js';

export { UsageError } from '../kernel/errors.js';

/** One of {@link EXITS}. */
export type ExitCode = (typeof EXITS)[ExitName][0];

export const EXIT_CODES = Object.fromEntries(
  Object.entries(EXITS).map(([name, [code]]) => [name, code]),
) as { readonly [N in ExitName]: (typeof EXITS)[N][0] };

export const EXIT_CODE_HELP = [
  '\nExit codes:',
  ...Object.values(EXITS).map(([code, meaning]) => `  ${String(code).padEnd(4)} ${meaning}`),
].join('\n');

/** The exit code that fits an error, by the catalogue. */
export function exitCodeOf(error: unknown): ExitCode {
  return EXIT_CODES[error instanceof TapekeepError ? ERRORS[error.code].exit : 'failure'];
}

/** Error text for people: our own errors speak for themselves, others come with their stack. */
export function describeFailure(error: unknown): string {
  if (error instanceof TapekeepError) return `tapekeep: ${error.message}`;
  const { code, port } = error as NodeJS.ErrnoException & { readonly port?: number };
  if (code === 'EADDRINUSE') {
    return `tapekeep: port ${port} is in use by another program; choose another one with --port, or 0 for any free one`;
  }
  // An error of the database that reached us as the driver throws it.
  const added = addedByServer(error);
  if (added !== '') return `tapekeep: the database failed: ${messageOf(error)}${added}`;
  const detail = error instanceof Error ? (error.stack ?? error.message) : messageOf(error);
  return `tapekeep: unexpected failure, please report it: ${detail}`;
}
