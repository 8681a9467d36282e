import { pino } from 'pino';
import pretty from 'pino-pretty';
import type { Clock } from '../kernel/clock.js';
import { createRedactor } from './redact.js';
import { Repeats } from './repeats.js';

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';
export type LogFormat = 'auto' | 'json' | 'pretty';
type WrittenLevel = Exclude<LogLevel, 'silent'>;

/** Values that belong to a log line, by name; units in the names. */
type LogFields = Readonly<Record<string, unknown>>;

/** Where log lines go: a stream such as stderr, or something that draws around them. */
export interface LogDestination {
  write(line: string): unknown;
  readonly isTTY?: boolean;
}

/** The log as this room's event functions use it. */
export interface Logger {
  write(level: WrittenLevel, message: string, fields?: LogFields): void;
  /**
   * Like {@link Logger.write} for troubles that come in floods: told once, then at most every 30 s
   * with the number kept back. Occurrences with the same `key` count as the same trouble.
   */
  writeRepeating(level: WrittenLevel, key: string, message: string, fields?: LogFields): void;
}

export interface LoggerOptions {
  readonly level: LogLevel;
  /** `auto` is pretty when the destination is a terminal, else JSON lines. */
  readonly format: LogFormat;
  readonly clock: Clock;
  /** Most often stderr, so that stdout stays free for results. */
  readonly destination: LogDestination;
  /** Texts to hide wherever they stand, beside everything that looks like a secret. */
  readonly secrets?: readonly string[];
}

/** At most one line of the same trouble in this time. */
const REPEAT_PERIOD_MS = 30_000;

/** Opens the log. Lines are written at once: none that is read is lost when the process dies. */
export function createLogger(options: LoggerOptions): Logger {
  const { level, format, clock, secrets, destination } = options;
  const isTerminal = destination.isTTY === true;
  const isPretty = format === 'pretty' || (format === 'auto' && isTerminal);
  const redact = createRedactor(secrets);
  const target = { write: (line: string) => void destination.write(redact(line)) };
  const formatLine = pretty.prettyFactory({
    colorize: isTerminal,
    ignore: 'pid,hostname',
    translateTime: 'SYS:HH:MM:ss.l',
    singleLine: true,
  });
  const stream = isPretty ? { write: (line: string) => target.write(formatLine(line)) } : target;
  const log = pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${new Date(clock.wallMs()).toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    stream,
  );
  const repeats = new Repeats(clock, REPEAT_PERIOD_MS);
  const write: Logger['write'] = (at, message, fields) => log[at](fields ?? {}, message);
  return {
    write,
    writeRepeating(at, key, message, fields) {
      if (!log.isLevelEnabled(at)) return;
      const heldBack = repeats.note(key);
      if (heldBack === undefined) return;
      write(at, message, heldBack === 0 ? fields : { ...fields, heldBack });
    },
  };
}
