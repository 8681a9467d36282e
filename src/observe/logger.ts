import { pino } from 'pino';
import pretty from 'pino-pretty';
import { BoundedMap } from '../kernel/bounded.js';
import type { Clock } from '../kernel/clock.js';

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';
export type LogFormat = 'auto' | 'json' | 'pretty';
/** That of a line. */
export type Level = Exclude<LogLevel, 'silent'>;

/** Values that belong to a log line, by name; units in the names. */
export type LogFields = Readonly<Record<string, unknown>>;

/** Target of log lines: a stream such as stderr, or something that draws around them. */
export interface LogDestination {
  write(line: string): unknown;
  readonly isTTY?: boolean;
}

/** The log as this room's event functions use it. */
export interface Logger {
  write(level: Level, message: string, fields?: LogFields): void;
  /**
   * Like {@link Logger.write} for repeated failures: logged once, then at most every 30 s
   * with the number kept back. Occurrences with the same `key` count as the same failure.
   */
  writeRepeating(level: Level, key: string, message: string, fields?: LogFields): void;
  /** The text as the log would have it: what looks like a secret is hidden. */
  redact(text: string): string;
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

/** At most one line of the same failure in this time. */
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
  const noted = repeats(clock, REPEAT_PERIOD_MS);
  const write: Logger['write'] = (at, message, fields) => log[at](shortened(fields), message);
  return {
    write,
    redact,
    writeRepeating(at, key, message, fields) {
      if (!log.isLevelEnabled(at)) return;
      const heldBack = noted(key);
      if (heldBack === undefined) return;
      write(at, message, heldBack === 0 ? fields : { ...fields, heldBack });
    },
  };
}

/** Digits of a number that is not whole: what a clock of nanoseconds or a division adds only takes room. */
const DIGITS = 7;
/** From here on whole numbers have as many. */
const LARGE = 10 ** (DIGITS - 1);

function shortened(fields: LogFields = {}): LogFields {
  const entries = Object.entries(fields).map(([name, value]) => {
    if (typeof value !== 'number' || Number.isInteger(value)) return [name, value];
    const isLarge = Math.abs(value) >= LARGE;
    return [name, isLarge ? Math.round(value) : Number(value.toPrecision(DIGITS))];
  });
  return Object.fromEntries(entries);
}

/** Most failures remembered at once; the one not logged for longest makes room. */
const MAX_KEYS = 500;

interface LastLine {
  readonly atMs: number;
  /** Occurrences kept back since then. */
  heldBack: number;
}

/**
 * Keeps a repeated failure from flooding the log: the first occurrence is logged, then at most one
 * in each period, together with how many were kept back in between. Metrics count all of them.
 *
 * @returns notes one occurrence of a key, and says how many were kept back since the last line if this one
 *   is to be logged, else undefined
 */
export function repeats(clock: Clock, periodMs: number): (key: string) => number | undefined {
  const lastLines = new BoundedMap<string, LastLine>(MAX_KEYS);
  return (key) => {
    const nowMs = clock.monotonicMs();
    const last = lastLines.get(key);
    if (last !== undefined && nowMs - last.atMs < periodMs) {
      last.heldBack += 1;
      return undefined;
    }
    lastLines.set(key, { atMs: nowMs, heldBack: 0 });
    return last?.heldBack ?? 0;
  };
}

/** Replacement for a secret. */
const REDACTED = '***';

/** Shapes of secrets that may occur inside any text: error messages above all. */
const RULES: readonly (readonly [RegExp, string])[] = [
  // user:password@ inside a URL
  [/([a-z][a-z0-9+.-]{1,20}:\/\/[^\s:@/"]{0,200}):[^\s@/"]{1,500}@/gi, `$1:${REDACTED}@`],
  [/\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}/gi, `$1 ${REDACTED}`],
  // password=…, "apiKey":"…", X-TXC-SIGNATURE: … – not the word behind a file of that name: "/data/postgres.password: restore it"
  [
    /((?:passw(?:or)?d|secret|token|api_?key|x-txc-[a-z]{1,12}|signature)(?!(?<=(?:^|[\s"'(])\.{0,2}\/[^\s"'=:?]{1,300}): [a-z]{1,12}[ :,])\\?["']?\s*[=:]\s*\\?["']?)[^\s"'\\,;&}]{1,1000}/gi,
    `$1${REDACTED}`,
  ],
];

/**
 * Builds the function that every log line passes through before it is written: it hides what looks
 * like a secret, and the given secrets wherever they stand.
 */
function createRedactor(secrets: readonly string[] = []): (line: string) => string {
  const known = secrets
    .filter((secret) => secret.length >= 4)
    .flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)]);
  return (line) => {
    let shown = line;
    for (const secret of known) shown = shown.replaceAll(secret, REDACTED);
    for (const [pattern, replacement] of RULES) shown = shown.replace(pattern, replacement);
    return shown;
  };
}
