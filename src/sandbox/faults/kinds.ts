import { type EndpointName, endpointNames } from '../../contract/endpoints.js';
import { HOUR_MS } from '../../kernel/durations.js';

/** What a parameter of a kind of fault may be. */
export type ParameterShape =
  | {
      readonly type: 'whole';
      readonly min: number;
      readonly max: number;
      readonly default?: number;
    }
  | { readonly type: 'choice'; readonly of: readonly string[]; readonly default: string }
  | { readonly type: 'flag'; readonly default: boolean };

export interface FaultKindShape {
  /** Endpoints whose replies it can befall; empty for faults of real-time connections only. */
  readonly endpoints: readonly EndpointName[];
  readonly isRealtime: boolean;
  readonly parameters: Readonly<Record<string, ParameterShape>>;
}

function whole(min: number, max: number, byDefault?: number): ParameterShape {
  return { type: 'whole', min, max, ...(byDefault === undefined ? {} : { default: byDefault }) };
}

function choice(byDefault: string, ...others: string[]): ParameterShape {
  return { type: 'choice', of: [byDefault, ...others], default: byDefault };
}

type Parameters = Readonly<Record<string, ParameterShape>>;

function onReplies(
  parameters: Parameters,
  endpoints: readonly EndpointName[] = endpointNames,
): FaultKindShape {
  return { endpoints, isRealtime: false, parameters };
}

function onRealtime(parameters: Parameters): FaultKindShape {
  return { endpoints: [], isRealtime: true, parameters };
}

/** Far beyond any sensible wait on both sides: a client must survive what it cannot obey. */
const retryAfter = {
  /** Sent as it is; left out, no such header comes. */
  retryAfterS: whole(-1_000_000_000_000, 1_000_000_000_000),
  /** `date` sends the exchange's time plus `retryAfterS` as an HTTP date. */
  retryAfterForm: choice('seconds', 'date'),
};
const status = (byDefault: number) => whole(200, 599, byDefault);
const rows = whole(1, 1000, 1);
/** When a fault of a connection strikes: as it opens, or as a frame is sent. */
const trigger = choice('frame', 'open');

/** Endpoints whose result is, or holds, a list. */
const LISTS = [
  'markets',
  'products',
  'kline',
  'history',
  'historyResult',
  'depth',
  'book',
  'orders',
] as const;
/** Endpoints whose list is asked for page by page. */
const PAGED = ['history', 'historyResult', 'book', 'orders'] as const;
/** Endpoints whose rows have an identity that must not change its meaning. */
const IDENTIFIED = ['history', 'historyResult', 'kline'] as const;
const MEASURED = [
  'tickers',
  'kline',
  'history',
  'historyResult',
  'depth',
  'book',
  'orders',
] as const;

/** Endpoints that list trades, with their ids. */
const TRADE_LISTS = ['history', 'historyResult'] as const;
const MOST_ID = Number.MAX_SAFE_INTEGER;

/** Ways in which a single row can be wrong. */
export const DEFECTS = [
  'notANumber',
  'overflow',
  'longNumber',
  'negativeAmount',
  'hugeId',
  'year1970',
  'microseconds',
] as const;
export type Defect = (typeof DEFECTS)[number];

/** Everything that can be made to go wrong, with where it can and by which parameters. */
export const FAULT_KINDS = {
  /** The reply, or the frame and all behind it, comes `ms` and up to `jitterMs` more later. */
  latency: {
    endpoints: endpointNames,
    isRealtime: true,
    parameters: { ms: whole(0, HOUR_MS, 500), jitterMs: whole(0, HOUR_MS, 0) },
  },
  /** An error envelope with this status; 200 is the success that is none. */
  status: onReplies({ status: status(503), ...retryAfter }),
  rateLimit: onReplies(retryAfter),
  /** A page in place of JSON. */
  html: onReplies({ status: status(200) }),
  /** The connection closes after this many bytes of the body; default: drawn. */
  truncate: onReplies({ bytes: whole(0, 1_000_000_000) }),
  /** A complete reply whose JSON ends after this many characters; default: drawn. */
  malformed: onReplies({ bytes: whole(1, 1_000_000_000) }),
  emptyBody: onReplies({ status: status(200) }),
  /**
   * A reply that a cache kept for up to `ms`; with `oldDate` its Date is the kept one too, with
   * `cacheTime` it says since when.
   */
  stale: onReplies({
    ms: whole(1, HOUR_MS, 5000),
    oldDate: { type: 'flag', default: true },
    cacheTime: { type: 'flag', default: false },
  }),
  /** Whichever page of a list is asked for, the one that was first asked for comes, for up to `ms`. */
  stuckPage: onReplies({ ms: whole(1, HOUR_MS, 5000) }, PAGED),
  /**
   * The Date is `byS` seconds off, or stays what it was when the rule first struck, or does not come.
   */
  wrongDate: onReplies({
    form: choice('shifted', 'frozen', 'missing'),
    byS: whole(-10_000_000_000, 10_000_000_000, -3600),
  }),
  /** The body, or all that comes before it, comes `bytes` at a time, with a pause of `ms` between. */
  drip: onReplies({
    bytes: whole(1, 1_000_000, 16),
    ms: whole(1, HOUR_MS, 100),
    part: choice('body', 'head'),
  }),
  /** No answer; the connection is closed after `ms`, or left to the client. */
  hang: onReplies({ ms: whole(0, HOUR_MS) }),
  reset: onReplies({}),
  /** Some rows are left out, neither the first nor the last: nothing shows that the page is not whole. */
  missingRows: onReplies({ rows }, LISTS),
  /** Some rows come twice. */
  duplicateRows: onReplies({ rows }, LISTS),
  /** All rows come in a drawn order, never in their own. */
  reorderRows: onReplies({}, LISTS),
  /** The list ends after `keep` rows, without its other end; default: drawn. */
  shortPage: onReplies({ keep: whole(0, 1000) }, LISTS),
  /** Rows with a known identity and other figures come right behind some, or in their place. */
  conflictRows: onReplies({ rows, place: choice('behind', 'instead') }, IDENTIFIED),
  /** The newest row comes with another id, another time or both, and is well-formed otherwise. */
  wrongHead: onReplies(
    {
      idBy: whole(-MOST_ID, MOST_ID, 1_000_000),
      timeByS: whole(-10_000_000_000, 10_000_000_000, 0),
    },
    TRADE_LISTS,
  ),
  /** Ids above this one begin anew at 1, while those up to it stay what they are. */
  idsAnew: onReplies({ above: whole(1, MOST_ID, 1) }, TRADE_LISTS),
  /** Some rows are spoilt. */
  badRows: onReplies({ rows, defect: choice('any', ...DEFECTS) }, MEASURED),
  /** The connection is cut. */
  dropSocket: onRealtime({ at: trigger }),
  /** The connection stays, answers protocol pings, and sends nothing, or answers only. */
  halfOpen: onRealtime({ at: trigger, answers: choice('nothing', 'requests') }),
  refuseSubscribe: onRealtime({}),
  ignoreSubscribe: onRealtime({}),
  /** A frame is followed by copies of itself. */
  duplicateFrames: onRealtime({ copies: whole(1, 1000, 1) }),
  /** An update is sent behind the frame that follows it. */
  reorderFrames: onRealtime({}),
  /** A frame of another making comes before the true one. */
  garbageFrame: onRealtime({ form: choice('text', 'json', 'utf8') }),
  /** A frame of this size comes before the true one. */
  oversizeFrame: onRealtime({ bytes: whole(1, 67_108_864, 1_048_576) }),
  /** An update or a queried record is one that was sent up to `ms` ago. */
  staleState: onRealtime({ ms: whole(1, HOUR_MS, 5000) }),
} as const satisfies Readonly<Record<string, FaultKindShape>>;

export type FaultKind = keyof typeof FAULT_KINDS;

export const faultKinds = Object.keys(FAULT_KINDS) as FaultKind[];

export function shapeOf(kind: FaultKind): FaultKindShape {
  return FAULT_KINDS[kind];
}
