import { z } from 'zod';
import { CONDITIONS } from '../../model/day-conditions.js';
import { STREAM_KINDS } from '../../model/series.js';

/**
 * The answers of `/api/v1`. Times of rows and ranges are ISO 8601 with `Z` where the command line prints
 * the same document (`from`, `to`, `…At`), and UNIX milliseconds (`…Ms`) in what is drawn. Both are of the
 * exchange's clock. Durations end in `S` or `Ms`. Prices and amounts are texts.
 */

const iso = () => z.iso.datetime();
const ms = () => z.number();
const count = () => z.number().int().min(0);
const seconds = () => z.number().min(0);
const ratio = () => z.number().min(0).max(1);
const kind = () => z.enum(STREAM_KINDS);
const market = () => z.string().describe('* for a stream of all markets together');
const variant = () => z.number().int().min(0).describe('seconds, of candles and states; else 0');
const exact = () => z.string().describe('an exact decimal');

/** Headline, of a daemon or of an archive alone. */
export const STATE = z.object({
  level: z.enum(['good', 'busy', 'bad']),
  text: z.string().describe('one sentence'),
  sinceMs: ms().nullable(),
  command: z.string().nullable().describe('that helps'),
});

/** Figures of the last hour of the daemon, as columns of equal length, oldest first. */
export const ACTIVITY = z.object({
  stepS: seconds(),
  atMs: z.array(ms()).describe('clock of the collecting machine'),
  rowsPerS: z.record(z.string(), z.array(z.number().nullable())).describe('stored, by kind'),
  lagS: z.array(z.number().nullable()).describe('of the newest stored trade'),
  requestsPerS: z.array(z.number().nullable()),
  commitsPerS: z.array(z.number().nullable()),
  sockets: z.array(z.number().nullable()),
});

export const STORAGE = z.object({
  states: z.array(
    z.object({
      state: z.enum(['hot', 'sealed', 'archived', 'expired', 'restored']),
      partitions: count(),
      bytes: count().describe('of tables and indexes, or of files where archived'),
      rows: count().nullable(),
    }),
  ),
  bytesPerDay: z
    .number()
    .nullable()
    .describe('over the last seven days that have ended; null until the archive is a day old'),
  disks: z.array(
    z.object({
      path: z.string(),
      holds: z.string().describe('what of the archive lies there'),
      freeBytes: count(),
      totalBytes: count(),
      daysLeft: z.number().nullable(),
    }),
  ),
});

/** Stream over the last 24 hours. */
const MARKET_ROW = z.object({
  market: market(),
  kind: kind(),
  variant: variant(),
  coverageRatio: ratio().nullable().describe('of 24 hours; null: nothing was expected'),
  bar: z
    .array(z.number().int().min(-1).max(100))
    .describe('covered percent of each step of the 24 hours; -1: nothing was expected'),
  lagS: seconds().nullable(),
  openGaps: count(),
  openS: seconds(),
  lostS: seconds().describe('that cannot be fetched any more'),
  isListed: z.boolean(),
  trouble: z.string().nullable().describe('why its coverage does not grow'),
});

export const MARKETS = z.object({
  fromMs: ms(),
  toMs: ms(),
  stepS: seconds(),
  markets: count(),
  total: count().describe('rows that the question matches'),
  coverageRatio: ratio().nullable().describe('of all of them together'),
  rows: z.array(MARKET_ROW),
});

const BESIDE = z.object({ state: z.string(), from: iso(), to: iso() });

/** Part of a time range that is alike in all of it, with what it means. */
export const PIECE = z.object({
  id: z.string().nullable().describe('of a gap'),
  from: iso(),
  to: iso(),
  lengthMs: ms(),
  state: z
    .string()
    .describe('covered, open, filling, unfillable, expired, before history, filled, …'),
  reason: z.string(),
  note: z.string().nullable(),
  attempts: count(),
  firstSeenAt: iso().nullable().optional(),
  nextTry: z.string().nullable(),
  why: z.string().describe('one or more sentences'),
  advice: z.string().nullable().describe('what a person can do'),
  before: BESIDE.nullable().optional().describe('what lies before it; null: nothing'),
  after: BESIDE.nullable().optional(),
});

export const STREAM_PIECES = z.object({
  market: market(),
  kind: kind(),
  variant: variant(),
  pieces: z.array(PIECE),
  isCut: z.boolean().describe('more pieces than are listed'),
});

export const COVERAGE = z.object({ at: iso(), streams: z.array(STREAM_PIECES) });

/** Gap as `tapekeep gaps --json` lists it. */
export const GAP = z.object({
  id: z.string(),
  market: market(),
  kind: kind(),
  variant: variant(),
  from: iso(),
  to: iso(),
  lengthMs: ms(),
  state: z.enum(['open', 'filling', 'unfillable']),
  reason: z.string(),
  isBeforeHistory: z.boolean(),
  attempts: count(),
  firstSeenAt: iso().nullable(),
  nextAttemptAt: iso().nullable(),
  note: z.string().nullable(),
});

export const GAPS = z.object({
  at: iso(),
  isWritten: z.boolean(),
  isCollecting: z.boolean(),
  cutTo: z.object({ from: iso(), to: iso() }).nullable(),
  gaps: z.array(GAP),
  sums: z.array(
    z.object({ state: z.string(), reason: z.string(), count: count(), lengthMs: ms() }),
  ),
  isSumOfAll: z.boolean(),
  historyNotReached: z.array(
    z.object({
      market: market(),
      kind: kind(),
      startReason: z.string().nullable(),
      why: z.string(),
    }),
  ),
  expired: z.array(z.object({ kind: z.string(), until: iso() })),
});

/** Gaps of one cause and one time. */
export const INCIDENT = z.object({
  cause: z.string(),
  state: z.string(),
  from: iso(),
  to: iso(),
  lengthMs: ms(),
  streams: count(),
  markets: count(),
  gapIds: z.array(z.string()).describe('of some of them'),
});

export const INCIDENTS = z.object({ at: iso(), incidents: z.array(INCIDENT), isAll: z.boolean() });

/** Size of a filling, before or after it. */
export const FILL = z.object({
  isPreview: z.boolean(),
  gaps: count().describe('that are meant and can be filled'),
  lengthMs: ms(),
  requests: count().describe('about'),
  seconds: seconds().describe('about, at the pace that the request limit allows'),
  leftOut: z.array(z.string()).describe('sentences on what is not filled'),
  ids: z.array(z.string()).describe('to follow the progress: of the longest, at most 100'),
});

/** Progress of gaps that were asked for. */
export const FILL_PROGRESS = z.object({
  at: iso(),
  lengthMs: ms(),
  coveredMs: ms(),
  unfillableMs: ms(),
  waitingMs: ms(),
  isDone: z.boolean(),
});

/** Longest note of a person, characters. */
export const NOTE_MAX = 1000;

export const NOTE = z.object({ id: z.string(), note: z.string() });

/** Year of days of one kind, as it is drawn. */
export const DAYS = z.object({
  kind: kind(),
  from: z.iso.date(),
  days: count(),
  total: count().describe('markets that the question matches'),
  rows: z.array(
    z.object({
      market: market(),
      variant: variant(),
      conditions: z
        .string()
        .describe('a letter a day: a, d, p, m of the conditions, - where nothing is expected'),
      missing: z
        .array(z.tuple([count(), seconds()]))
        .describe('index of the day and missing seconds, where any are'),
    }),
  ),
});

/** Day of a stream, in detail. */
export const DAY = z.object({
  market: market(),
  kind: kind(),
  variant: variant(),
  day: z.iso.date(),
  condition: z.enum(CONDITIONS).nullable().describe('null: nothing is expected'),
  reasons: z.array(z.string()),
  changedAt: iso().nullable(),
  expectedS: seconds(),
  coveredS: seconds(),
  rows: count().nullable(),
  pieces: z.array(PIECE),
  checks: z
    .array(
      z.object({
        intervalS: count(),
        verified: count(),
        mismatches: count(),
        unchecked: count(),
      }),
    )
    .describe('of trades against candles'),
  sessions: z.array(
    z.object({
      from: iso(),
      to: iso().nullable(),
      what: z.string(),
      reason: z.string().nullable(),
    }),
  ),
  commands: z.array(z.object({ what: z.string(), command: z.string() })),
});

const answerTime = () => z.object({ market: market(), from: iso(), to: iso() });

export const CANDLES = answerTime().extend({
  intervalS: count(),
  candles: z.array(
    z.object({
      timeMs: ms(),
      open: exact(),
      high: exact(),
      low: exact(),
      close: exact(),
      volume: exact(),
      isVerified: z
        .boolean()
        .nullable()
        .describe(
          'equal to the candles of the exchange; null: complete; false: trades are missing',
        ),
    }),
  ),
  gaps: z.array(z.object({ fromMs: ms(), toMs: ms(), state: z.string(), reason: z.string() })),
  isCut: z.boolean().describe('from is later than asked, by the limit'),
});

const TRADE_ROW = z.object({
  timeMs: ms().describe('with a fraction where the exact time is known'),
  id: z.string(),
  side: z.enum(['buy', 'sell']),
  price: exact(),
  amount: exact(),
});

export const TRADES = answerTime().extend({
  trades: z.array(TRADE_ROW),
  isCut: z.boolean().describe('there are more in that time'),
});

const level = () => z.tuple([exact(), exact()]);

export const BOOK = z.object({
  market: market(),
  timeMs: ms().nullable(),
  bids: z.array(level()),
  asks: z.array(level()),
  spread: exact().nullable(),
});

export const QUERY = z.object({
  columns: z.array(z.object({ name: z.string(), type: z.string() })),
  rows: z.array(z.array(z.unknown())).describe('numbers that may be exact decimals are texts'),
  isCut: z.boolean().describe('more rows than the limit'),
  durationMs: ms(),
});

export const COOKBOOK = z.object({
  entries: z.array(z.object({ name: z.string(), about: z.string(), sql: z.string() })),
});

export const PARTITIONS = z.object({
  at: iso(),
  partitions: z.array(
    z.looseObject({
      name: z.string(),
      table: z.string(),
      state: z.string(),
      from: iso(),
      to: iso(),
      rows: z.number().nullable(),
      heapBytes: z.number().nullable(),
      indexBytes: z.number().nullable(),
      coldBytes: z.number().nullable(),
      due: z.object({
        seal: iso().nullable(),
        archive: iso().nullable(),
        expire: iso().nullable(),
      }),
    }),
  ),
  leads: z.array(z.object({ table: z.string(), leadMs: ms() })),
});

export const QUARANTINE = z.object({
  counts: z.array(
    z.looseObject({ endpoint: z.string(), reason: z.string(), count: count(), kept: count() }),
  ),
  rows: z.array(
    z.looseObject({
      id: z.number(),
      receivedAt: iso(),
      endpoint: z.string(),
      market: z.string().nullable(),
      reason: z.string(),
      payload: z.string(),
      count: count(),
    }),
  ),
});

/** Newest lines of the log. */
export const LOG = z.object({
  entries: z.array(
    z.object({
      atMs: ms(),
      level: z.string(),
      event: z.string().describe('code of the event, empty where it has none'),
      message: z.string(),
      fields: z.record(z.string(), z.unknown()),
    }),
  ),
});

export const SETTINGS = z.object({
  settings: z.array(
    z.object({
      name: z.string(),
      value: z.unknown().describe('*** for a secret that is set'),
      source: z.string().describe('file and line, environment variable, command line, or default'),
      isDefault: z.boolean(),
      about: z.string(),
    }),
  ),
});

export const WHO = z.object({
  role: z.enum(['viewer', 'operator']),
  isLoginNeeded: z
    .boolean()
    .describe('false: no token is set, and whoever reaches the port is operator'),
  version: z.string(),
});

export const FAULT = z.object({ error: z.string().describe('what was wrong, and what to do') });

/** Messages of `/api/v1/events`: `event:` is the key here, `data:` the document. */
export const EVENTS = {
  state: STATE,
  activity: ACTIVITY.describe('the newest step alone'),
  trades: z
    .object({ market: market(), trades: z.array(TRADE_ROW) })
    .describe('new trades; the first message may repeat some that were listed, by their id'),
  book: BOOK,
  changed: z.object({ kinds: z.array(z.string()) }).describe('coverage or gaps changed'),
} as const;
