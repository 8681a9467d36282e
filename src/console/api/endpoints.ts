import { z } from 'zod';
import { intervalText } from '../../kernel/durations.js';
import { GAP_REASONS } from '../../model/gap-reasons.js';
import { STREAM_KINDS } from '../../model/series.js';
import { STATUS } from '../status-document.js';
import * as documents from './documents.js';

/**
 * `/api/v1` as data: routes, checks of what is asked, OpenAPI and the page's client are made of it.
 */

/** Rights: a viewer reads, an operator also acts. */
export type Role = 'viewer' | 'operator';

export interface Endpoint {
  readonly method: 'get' | 'post';
  /** Below `/api/v1`; `{name}` is a part of `input`. */
  readonly path: string;
  readonly role: Role;
  readonly about: string;
  /** Query parameters of a GET, the body of a POST, and the parts of the path. */
  readonly input: z.ZodObject;
  readonly answer: z.ZodType;
  /** Further formats beside JSON that `Accept` or `format=` asks for. */
  readonly formats?: readonly ('ndjson' | 'csv')[];
  /** Part of the answer whose rows these formats write. */
  readonly rows?: string;
}

/** Repeated parameters and lists with commas are one list. */
const list = <T extends z.ZodType>(of: T) => z.array(of).max(1000).optional();
const name = () => z.string().min(1).max(200);
const kind = () => z.enum(STREAM_KINDS);
const time = () =>
  z
    .union([z.iso.datetime(), z.iso.date(), z.string().regex(/^\d{1,6}(s|m|h|d)$/)])
    .describe('an ISO 8601 time, a date, or a duration back from now such as 24h');
const limit = (standard: number, most: number) =>
  z.coerce.number().int().min(1).max(most).default(standard);
const offset = () => z.coerce.number().int().min(0).max(1_000_000).default(0);

/** Selects gaps: the same words as the options of `tapekeep gaps`. */
const GAP_INPUT = z.object({
  market: list(name()),
  kind: list(kind()),
  state: list(z.enum(['open', 'filling', 'unfillable'])),
  reason: list(z.enum(Object.keys(GAP_REASONS) as [string, ...string[]])),
  from: time().optional(),
  to: time().optional(),
});

const NONE = z.object({});

export const ENDPOINTS = {
  who: {
    ...{ method: 'get', path: '/who', role: 'viewer', input: NONE, answer: documents.WHO },
    about: 'who asks, and what may be done',
  },
  status: {
    ...{ method: 'get', path: '/status', role: 'viewer' },
    about:
      'the document of `tapekeep status --json`; lists the 20 least covered streams unless asked otherwise',
    input: z.object({
      market: list(name()),
      kind: list(kind()),
      worst: z.coerce.number().int().min(0).max(100_000).default(20).describe('0: none'),
    }),
    answer: STATUS,
  },
  activity: {
    ...{ method: 'get', path: '/activity', role: 'viewer', input: NONE },
    ...{ answer: documents.ACTIVITY, about: 'the last hour of the daemon, in steps' },
  },
  storage: {
    ...{ method: 'get', path: '/storage', role: 'viewer', input: NONE },
    ...{
      answer: documents.STORAGE,
      about: 'bytes by state, growth, and days until the disk is full',
    },
  },
  markets: {
    ...{ method: 'get', path: '/markets', role: 'viewer', answer: documents.MARKETS },
    about: 'the last 24 hours of each market and kind',
    input: z.object({
      search: z.string().max(100).optional().describe('part of the name, in any case'),
      kind: list(kind()),
      sort: z.enum(['worst', 'name', 'lag']).default('worst'),
      limit: limit(200, 10_000),
      offset: offset(),
    }),
  },
  coverage: {
    ...{ method: 'get', path: '/coverage', role: 'viewer', answer: documents.COVERAGE },
    about: 'the pieces of a time range of the streams of a market, each with what it means',
    input: z.object({ market: name(), kind: list(kind()), from: time(), to: time().optional() }),
  },
  gaps: {
    ...{ method: 'get', path: '/gaps', role: 'viewer', answer: documents.GAPS },
    about: 'the document of `tapekeep gaps --json`, the newest first',
    input: GAP_INPUT.extend({ limit: limit(50, 5000) }),
  },
  gap: {
    ...{ method: 'get', path: '/gaps/{id}', role: 'viewer', answer: documents.COVERAGE },
    ...{ about: 'one gap explained', input: z.object({ id: name() }) },
  },
  incidents: {
    ...{ method: 'get', path: '/incidents', role: 'viewer', answer: documents.INCIDENTS },
    about: 'gaps of one cause and time as one, the newest first',
    input: GAP_INPUT.extend({ limit: limit(50, 1000) }),
  },
  fill: {
    ...{ method: 'post', path: '/fill', role: 'operator', answer: documents.FILL },
    about: 'has the selected gaps filled now, or with isPreview says what it would take',
    input: GAP_INPUT.extend({
      ids: list(name()),
      again: z.boolean().default(false).describe('also unfillable ones'),
      isPreview: z.boolean().default(false),
    }),
  },
  fillProgress: {
    ...{ method: 'get', path: '/fill', role: 'viewer', answer: documents.FILL_PROGRESS },
    about: 'how far the gaps of some ids have come',
    input: z.object({ id: z.array(name()).min(1).max(2000) }),
  },
  note: {
    ...{ method: 'post', path: '/gaps/{id}/note', role: 'operator', answer: documents.NOTE },
    about: 'adds a note to a gap',
    input: z.object({ id: name(), note: z.string().trim().min(1).max(documents.NOTE_MAX) }),
  },
  days: {
    ...{ method: 'get', path: '/days', role: 'viewer', answer: documents.DAYS },
    about: 'the condition of each day, for each market of a kind',
    input: z.object({
      kind: kind().default('trades'),
      variant: z.coerce.number().int().min(0).optional().describe('default: the shortest interval'),
      market: list(name()),
      search: z.string().max(100).optional(),
      from: z.iso.date().optional().describe('default: a year before `to`'),
      to: z.iso.date().optional().describe('the last day; default: today'),
      limit: limit(500, 1000),
      offset: offset(),
    }),
  },
  day: {
    ...{ method: 'get', path: '/days/{market}/{kind}/{day}', role: 'viewer' },
    about: 'one day of one stream: ranges, gaps, checks, sessions, and commands that help',
    input: z.object({
      market: name(),
      kind: kind(),
      day: z.iso.date(),
      variant: z.coerce.number().int().min(0).optional(),
    }),
    answer: documents.DAY,
  },
  candles: {
    ...{ method: 'get', path: '/candles', role: 'viewer', answer: documents.CANDLES },
    about: 'candles with volume, and what is missing between them',
    ...{ formats: ['ndjson', 'csv'], rows: 'candles' },
    input: z.object({
      market: name(),
      interval: z
        .string()
        .regex(/^\d{1,5}(s|m|h|d|w)$/)
        .default(intervalText(60)),
      from: time().default('24h'),
      to: time().optional(),
      limit: limit(2000, 50_000),
    }),
  },
  trades: {
    ...{ method: 'get', path: '/trades', role: 'viewer', answer: documents.TRADES },
    about: 'trades of a market in the order of time; without `from` the newest',
    ...{ formats: ['ndjson', 'csv'], rows: 'trades' },
    input: z.object({
      market: name(),
      from: time().optional(),
      to: time().optional(),
      limit: limit(1000, 50_000),
    }),
  },
  book: {
    ...{ method: 'get', path: '/book', role: 'viewer', answer: documents.BOOK },
    about: 'the order book as it was last seen, or at a time',
    input: z.object({ market: name(), at: time().optional(), levels: limit(20, 1000) }),
  },
  query: {
    ...{ method: 'post', path: '/query', role: 'viewer', answer: documents.QUERY },
    about: 'one statement of SQL with the rights of a reader, within limits of time and rows',
    ...{ formats: ['ndjson', 'csv'], rows: 'rows' },
    input: z.object({ sql: z.string().min(1).max(100_000), limit: limit(1000, 100_000) }),
  },
  cookbook: {
    ...{ method: 'get', path: '/cookbook', role: 'viewer', input: NONE },
    ...{ answer: documents.COOKBOOK, about: 'statements to begin with' },
  },
  partitions: {
    ...{ method: 'get', path: '/partitions', role: 'viewer', answer: documents.PARTITIONS },
    about: 'the document of `tapekeep partitions --json`',
    input: z.object({ kind: list(name()) }),
  },
  quarantine: {
    ...{ method: 'get', path: '/quarantine', role: 'operator', answer: documents.QUARANTINE },
    about: 'the document of `tapekeep quarantine --json`',
    input: z.object({
      endpoint: name().optional(),
      market: name().optional(),
      reason: name().optional(),
      limit: limit(50, 1000),
    }),
  },
  log: {
    ...{ method: 'get', path: '/log', role: 'operator', answer: documents.LOG },
    about: 'the newest lines of the log',
    input: z.object({
      level: z.enum(['info', 'warn', 'error']).default('info'),
      limit: limit(200, 1000),
    }),
  },
  settings: {
    ...{ method: 'get', path: '/settings', role: 'operator', input: NONE },
    ...{ answer: documents.SETTINGS, about: 'the settings in force, secrets hidden' },
  },
} as const satisfies Readonly<Record<string, Endpoint>>;

export type EndpointName = keyof typeof ENDPOINTS;
export type Input<Name extends EndpointName> = z.output<(typeof ENDPOINTS)[Name]['input']>;
/** Input as it is sent: what has a default may be absent. */
export type Asked<Name extends EndpointName> = z.input<(typeof ENDPOINTS)[Name]['input']>;
export type Answer<Name extends EndpointName> = z.input<(typeof ENDPOINTS)[Name]['answer']>;

/** Document of a message of `/api/v1/events`. */
export type Sent<Topic extends keyof typeof documents.EVENTS> = z.input<
  (typeof documents.EVENTS)[Topic]
>;

/**
 * Functions that answer each endpoint. The caller has checked the role and the input. A `Refusal` that one throws is
 * answered as such; the signal aborts when nobody waits for the answer any more.
 */
export type Handlers = {
  readonly [Name in EndpointName]: (
    input: Input<Name>,
    signal: AbortSignal,
    role: Role,
  ) => Promise<Answer<Name>>;
};
