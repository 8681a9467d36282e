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
