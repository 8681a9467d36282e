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
  /** Keeps the newest lines for readers, with secrets hidden. */
  readonly recent?: RecentLines;
}

/** Line of the log as a reader gets it. */
export interface LogEntry {
  readonly atMs: number;
  readonly level: string;
  /** Code of the event; empty where it has none. */
  readonly event: string;
  readonly message: string;
  readonly fields: LogFields;
}

/** Lines that are kept, and how long one may be. */
const RECENT_MAX = 1000;
const RECENT_LETTERS = 4000;
const KEPT_LEVELS = ['info', 'warn', 'error', 'fatal'];

/** The newest lines of the log from `info` on, in memory. */
export class RecentLines {
  readonly #lines: string[] = [];
  #next = 0;

  /** @param line JSON, as pino writes it */
  add(line: string, redact: (text: string) => string): void {
    const [, level = ''] = /^\{"level":"(\w+)"/.exec(line) ?? [];
    if (!KEPT_LEVELS.includes(level)) return;
    const hidden = redact(line);
    this.#lines[this.#next] = hidden.length > RECENT_LETTERS ? withoutFields(hidden) : hidden;
    this.#next = (this.#next + 1) % RECENT_MAX;
  }

  /** Returns the newest lines of at least this level, the newest first. */
  newest(level: 'info' | 'warn' | 'error', limit: number): LogEntry[] {
    const levels = KEPT_LEVELS.slice(KEPT_LEVELS.indexOf(level));
    const ordered = [...this.#lines.slice(this.#next), ...this.#lines.slice(0, this.#next)];
    const found: LogEntry[] = [];
    for (const line of ordered.reverse()) {
      if (found.length >= limit) break;
      const entry = entryOf(line);
      if (entry !== undefined && levels.includes(entry.level)) found.push(entry);
    }
    return found;
  }
}

/** Reads a line; undefined for one that a hidden secret made unreadable. */
function entryOf(line: string): LogEntry | undefined {
  try {
    const { level, time, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
    const event = typeof fields.code === 'string' ? fields.code : '';
    const at = { atMs: Date.parse(String(time)), level: String(level) };
    return { ...at, event, message: String(msg), fields };
  } catch {
    return undefined;
  }
}

/** Leaves the beginning of a long line: memory is bounded. */
function withoutFields(line: string): string {
  const { atMs, level, event, message } = entryOf(line) ?? {};
  if (atMs === undefined || message === undefined) return '';
  const time = new Date(atMs).toISOString();
  return JSON.stringify({ level, time, code: event, msg: message.slice(0, RECENT_LETTERS) });
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
  const stream = {
    write: (line: string) => {
      options.recent?.add(line, redact);
      target.write(isPretty ? formatLine(line) : line);
    },
  };
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
