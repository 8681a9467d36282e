import { z } from 'zod';
import { isObject } from '../kernel/json.js';
import { TIME_NOTICE, type TimeNotice } from './extensions.js';
import { type StateRecord, stateRecord } from './resources.js';
import { boundedList, boundedText, nameText, wholeNumber } from './values.js';

/** Market and period in seconds: the params of `state.query` and `state.subscribe`. */
export const stateParams = z.tuple([
  nameText.meta({ description: 'Name of a public pair', examples: ['BTC_USDT'] }),
  wholeNumber.pipe(z.number().min(1)).meta({ description: 'Period in seconds', examples: [60] }),
]);
export type StateParams = z.infer<typeof stateParams>;

/** Most markets of one subscription. */
const LIST_MAX = 2000;

/**
 * How servers of the family take `state.subscribe` that know no other period than a day: the names of
 * the markets. Not the contract's form; a server is asked so only after it refused that.
 */
export const stateMarkets = boundedList(nameText, 1, LIST_MAX);
/** The period that such a server sends, seconds. */
export const LIST_PERIOD_S = 86_400;

/** Markets whose states one connection follows, where a list can be subscribed. */
export const MARKETS_PER_CONNECTION = 50;
/** Names of the markets whose trades are to be pushed. */
export const tradeMarkets = boundedList(nameText, 0, LIST_MAX);
/** A market, a limit and the id above which its newest trades are asked for. */
export const newestTrades = z.tuple([
  nameText,
  wholeNumber.pipe(z.number().min(1).max(1000)),
  wholeNumber.pipe(z.number().min(0)),
]);

const noParams = z.tuple([]);
const statusSuccess = z.object({ status: z.literal('success') });

/** One row of the table of real-time methods. */
export interface MethodRow {
  readonly params: z.ZodType;
  readonly summary: string;
  readonly result: z.ZodType;
  /** True if the answer's `params` are the request's; otherwise they are empty. */
  readonly echoesParams: boolean;
}

/**
 * The real-time methods (contract, Real-time methods). `server.ping` is not in the contract; the
 * family answers it with `pong` and it keeps a connection open (field notes, Real-time).
 */
export const realtimeMethods = {
  'state.query': {
    params: stateParams,
    summary: 'One market status record',
    result: stateRecord,
    echoesParams: true,
  },
  'state.subscribe': {
    params: stateParams,
    summary: 'Follow the status of one market',
    result: statusSuccess,
    echoesParams: false,
  },
  'state.unsubscribe': {
    params: noParams,
    summary: 'Stop the updates',
    result: statusSuccess,
    echoesParams: false,
  },
  'server.ping': {
    params: z.array(z.unknown()),
    summary: 'Keep the connection open',
    result: z.literal('pong'),
    echoesParams: true,
  },
} as const satisfies Readonly<Record<string, MethodRow>>;
/** Name of a real-time method, such as `state.subscribe`. */
export type RealtimeMethod = keyof typeof realtimeMethods;

/** Name of the only notification. */
export const STATE_UPDATE = 'state.update';

/** How an exchange speaks of these methods. */
export interface RealtimeWords {
  /** Its words; left out: the contract's. */
  readonly methods?: Readonly<Partial<Record<RealtimeMethod | typeof STATE_UPDATE, string>>>;
  /** A subscription takes a list of markets, whose states are those of a day. */
  readonly isList?: boolean;
  /** Requests that a connection may send, at most; left out: no such limit. */
  readonly requestsPerMinute?: number;
  /** How it pushes trades; left out: no form of that is known. */
  readonly trades?: TradeWords;
}

/**
 * How an exchange pushes trades. The contract has none of it. A subscription takes a list of markets and
 * a second one replaces the first. Updates have the rows of the endpoint `history`, without a total.
 */
export interface TradeWords {
  /** Takes names of markets. */
  readonly subscribe: string;
  /** The notification: params are a market and its new trades. */
  readonly update: string;
  /** Answers the newest trades of one market: params are the market, a limit, and the id above which. */
  readonly request?: string;
  /** Most trades that {@link TradeWords.request} answers. */
  readonly requestMax?: number;
  /** An empty list subscribes all markets. */
  readonly isAll?: true;
  /** The exchange's own documents have it, so that it is used unless a setting forbids it. */
  readonly isDocumented?: true;
}

/** Error codes of the family (field notes, Real-time). */
export const REALTIME_ERRORS = {
  invalidArgument: { code: 1, message: 'invalid argument' },
  internal: { code: 2, message: 'internal error' },
  unavailable: { code: 3, message: 'service unavailable' },
  methodNotFound: { code: 4, message: 'method not found' },
  timeout: { code: 5, message: 'service timeout' },
  authenticationRequired: { code: 6, message: 'require authentication' },
  /** WhiteBIT's, of a list with a name that it does not know. */
  unknownMarket: { code: 9, message: 'unknown market' },
} as const;
export type RealtimeErrorBody = (typeof REALTIME_ERRORS)[keyof typeof REALTIME_ERRORS];

/** A request frame. The id is echoed as it came. */
export const realtimeRequest = z.object({
  method: boundedText(0, 64, 'expected the name of a method'),
  params: boundedList(z.unknown(), 0, LIST_MAX),
  id: z.union([z.number(), boundedText(0, 64, 'expected a short id')]),
});

const realtimeError = z.object({
  code: z.number(),
  message: boundedText(0, 500, 'expected a text of bounded length'),
});

/** It has a result or an error: what has neither says nothing, whichever id it has. */
const responseFrame = z
  .object({
    id: z.union([z.number(), z.string()]),
    params: z.unknown().optional(),
    result: z.unknown(),
    error: realtimeError.nullish(),
  })
  .refine(({ result, error }) => result !== undefined || (error ?? null) !== null);

/** The contract's notification: the record is the result, without a market's name. */
const contractUpdate = z.object({ id: z.null(), result: stateRecord, error: z.null().optional() });
/** The family's notification: method, and market and record as params; the period may be absent. */
const familyUpdate = z.object({
  method: z.literal(STATE_UPDATE),
  params: z.tuple([nameText, stateRecord.extend({ period: stateRecord.shape.period.optional() })]),
  id: z.null().optional(),
});

/** A frame with an exchange's word for an update, as one with the family's. */
function inFamilyWords(frame: unknown, updateWord: string): unknown {
  const isUpdate = (frame as { method?: unknown } | null)?.method === updateWord;
  return isUpdate ? { ...(frame as object), method: STATE_UPDATE } : frame;
}

/** New trades of a market; each row is judged by itself. */
const tradesUpdate = z.object({
  method: z.string(),
  params: z.tuple([nameText, z.array(z.unknown())]).rest(z.unknown()),
  id: z.null().optional(),
});

/** The notification of a replay, see extensions.ts. */
const timeNotice = z.object({
  method: z.literal(TIME_NOTICE),
  params: z.tuple([z.number().positive(), z.number().min(0), z.number(), z.boolean()]),
});

/** Meaning of a frame from the server. */
export type ServerFrame =
  | {
      readonly kind: 'response';
      readonly id: number | string;
      readonly result: unknown;
      readonly error: { readonly code: number; readonly message: string } | null;
    }
  | {
      readonly kind: 'update';
      /** Absent in the contract's shape: attribute by connection. */
      readonly market: string | undefined;
      readonly record: Omit<StateRecord, 'period'> & { readonly period: number | undefined };
    }
  | {
      readonly kind: 'trades';
      readonly market: string;
      /** As they came, to be read as rows of `history`. */
      readonly rows: readonly unknown[];
    }
  /** Notice of a replay: its time runs otherwise than before. */
  | ({ readonly kind: 'time' } & TimeNotice)
  /** Neither a response nor a notification that is known. */
  | { readonly kind: 'unrecognised' };

/** Frames of one kind. */
export type FrameOf<Kind extends ServerFrame['kind']> = Extract<ServerFrame, { kind: Kind }>;

/**
 * Reads one decoded frame from a server; never throws.
 *
 * @param words how the exchange speaks
 */
export function readServerFrame(frame: unknown, words: RealtimeWords = {}): ServerFrame {
  const updateWord = words.methods?.[STATE_UPDATE] ?? STATE_UPDATE;
  const family = familyUpdate.safeParse(inFamilyWords(frame, updateWord));
  if (family.success) {
    const [market, record] = family.data.params;
    return { kind: 'update', market, record: { ...record, period: record.period } };
  }
  const trades = words.trades && tradesUpdate.safeParse(frame);
  if (trades?.success === true && trades.data.method === words.trades?.update) {
    const [market, rows] = trades.data.params;
    return { kind: 'trades', market, rows };
  }
  const update = contractUpdate.safeParse(frame);
  if (update.success) return { kind: 'update', market: undefined, record: update.data.result };
  const response = responseFrame.safeParse(frame);
  if (response.success) {
    const { id, result, error } = response.data;
    return { kind: 'response', id, result, error: error ?? null };
  }
  const time = timeNotice.safeParse(frame);
  if (time.success) {
    const [nowMs, pace, change, isJump] = time.data.params;
    return { kind: 'time', nowMs, pace, change, isJump };
  }
  return { kind: 'unrecognised' };
}

const AMOUNTS: ReadonlySet<string> = new Set([
  ...[
    'price',
    'amount',
    'total',
    'last',
    'open',
    'close',
    'high',
    'low',
    'deal',
    'volume',
    'change',
  ],
]);

/** Returns true if a frame has an amount as a bare number, within a record or a row. */
function hasBareAmount(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(hasBareAmount);
  if (!isObject(value)) return false;
  return Object.entries(value).some(([name, one]) =>
    typeof one === 'number' ? AMOUNTS.has(name) : hasBareAmount(one),
  );
}

/**
 * Returns a frame whose amounts are texts, as they were written; other numbers beside them too.
 *
 * @param asWritten the frame with every number as text
 */
export function withAmountsAsWritten(frame: unknown, asWritten: () => unknown): unknown {
  if (!isObject(frame) || !(hasBareAmount(frame.params) || hasBareAmount(frame.result))) {
    return frame;
  }
  const written = asWritten();
  return isObject(written) ? { ...frame, ...pick(written, frame) } : frame;
}

/** Subject of a frame; its id and its error stay as they are. */
function pick(
  { params, result }: Readonly<Record<string, unknown>>,
  of: Readonly<Record<string, unknown>>,
) {
  return { ...('params' in of && { params }), ...('result' in of && { result }) };
}

/** Answer to a request (contract, Real-time methods). */
export function responseMessage(id: number | string, params: unknown, result: unknown) {
  return { id, params, result, error: null };
}

/** Refusal of a request, in the family's shape. */
export function errorMessage(id: number | string, params: unknown, error: RealtimeErrorBody) {
  return { id, params, result: null, error };
}

/** Result of a successful subscribe or unsubscribe: a status field equal to success. */
export const STATUS_SUCCESS: z.infer<typeof statusSuccess> = { status: 'success' };

/** The record of the contract's state.update: all but the change. */
export const updateRecord = stateRecord
  .omit({ change: true })
  .meta({ id: 'MarketStatusUpdate', description: 'The status of the subscribed market' });

/** The contract's state.update: no market, no change. */
export function updateMessage(record: StateRecord) {
  const { change: _change, ...rest } = record;
  return { result: rest, error: null, id: null };
}

/** The family's state.update. Servers that follow lists of markets send the period in it. */
export function familyUpdateMessage(
  market: string,
  record: StateRecord,
  { methods = {}, isList = false }: RealtimeWords = {},
) {
  const { period: _period, ...rest } = record;
  const method = methods[STATE_UPDATE] ?? STATE_UPDATE;
  return { method, params: [market, isList ? record : rest], id: null };
}

/** New trades of one market, as rows of `history`. */
export function tradesUpdateMessage(market: string, rows: readonly unknown[], words: TradeWords) {
  return { method: words.update, params: [market, rows], id: null };
}
