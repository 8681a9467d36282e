import { z } from 'zod';
import { type EndpointName, endpointNames } from '../../contract/endpoints.js';
import { HOUR_MS } from '../../kernel/durations.js';

type Parameters = Readonly<Record<string, z.ZodType>>;

interface FaultKindShape {
  /** Endpoints whose replies it can befall; empty for faults of real-time connections only. */
  readonly endpoints: readonly EndpointName[];
  readonly isRealtime: boolean;
  /** It spoils the rows of a reply or of pushed trades, and needs some. */
  readonly isAboutRows: boolean;
  readonly parameters: Parameters;
}

/** A whole number; the messages of these schemas say what is expected. */
export function whole(min: number, max: number) {
  const error = `a whole number from ${min} to ${max}`;
  return z.int({ error }).min(min, { error }).max(max, { error });
}

export function oneOf<const T extends string>(names: readonly T[]) {
  return z.enum(names, { error: `one of ${names.join(', ')}` });
}

const flag = () => z.boolean({ error: 'true or false' });

function onReplies<P extends Parameters>(
  parameters: P,
  endpoints: readonly EndpointName[] = endpointNames,
) {
  return { endpoints, isRealtime: false, isAboutRows: false, parameters };
}

/** All of them befall trades, which are pushed as well. */
function onRows<P extends Parameters>(parameters: P, endpoints: readonly EndpointName[]) {
  return { ...onReplies(parameters, endpoints), isRealtime: true, isAboutRows: true };
}

function onRealtime<P extends Parameters>(parameters: P) {
  return { endpoints: [], isRealtime: true, isAboutRows: false, parameters };
}

/** Far beyond any sensible wait on both sides: a client must survive what it cannot obey. */
const retryAfter = {
  /** Sent as it is; left out, no such header comes. */
  retryAfterS: whole(-1_000_000_000_000, 1_000_000_000_000).optional(),
  /** `date` sends the exchange's time plus `retryAfterS` as an HTTP date. */
  retryAfterForm: oneOf(['seconds', 'date']).default('seconds'),
};
const status = (byDefault: number) => whole(200, 599).default(byDefault);
const rows = whole(1, 1000).default(1);
/** When a fault of a connection strikes: as it opens, or as a frame is sent. */
const trigger = oneOf(['frame', 'open']).default('frame');

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
  'otherType',
  'overflow',
  'longNumber',
  'negativeAmount',
  'hugeId',
  'year1970',
  'microseconds',
] as const;
export type Defect = (typeof DEFECTS)[number];

/** Everything that can be made to go wrong, with where it can and by which parameters. */
const FAULT_KINDS = {
  /** The reply, or the frame and all behind it, comes `ms` and up to `jitterMs` more later. */
  latency: {
    ...onReplies({ ms: whole(0, HOUR_MS).default(500), jitterMs: whole(0, HOUR_MS).default(0) }),
    isRealtime: true,
  },
  /** An error envelope with this status; 200 is the success that is none. */
  status: onReplies({ status: status(503), ...retryAfter }),
  rateLimit: onReplies(retryAfter),
  /** A page in place of JSON. */
  html: onReplies({ status: status(200) }),
  /** The connection closes after this many bytes of the body; default: drawn. */
  truncate: onReplies({ bytes: whole(0, 1_000_000_000).optional() }),
  /** A complete reply whose JSON ends after this many characters; default: drawn. */
  malformed: onReplies({ bytes: whole(1, 1_000_000_000).optional() }),
  emptyBody: onReplies({ status: status(200) }),
  /**
   * A reply, or an answer of newest trades in real time, that a cache kept for up to `ms`; with `oldDate` the Date
   * of a reply is the kept one too, with `cacheTime` it says since when.
   */
  stale: {
    ...onReplies({
      ms: whole(1, HOUR_MS).default(5000),
      oldDate: flag().default(true),
      cacheTime: flag().default(false),
    }),
    isRealtime: true,
  },
  /** Whichever page of a list is asked for, the one that was first asked for comes, for up to `ms`. */
  stuckPage: onReplies({ ms: whole(1, HOUR_MS).default(5000) }, PAGED),
  /**
   * The Date is `byS` seconds off, or stays what it was when the rule first struck, or does not come.
   */
  wrongDate: onReplies({
    form: oneOf(['shifted', 'frozen', 'missing']).default('shifted'),
    byS: whole(-10_000_000_000, 10_000_000_000).default(-3600),
  }),
  /** The body, or all that comes before it, comes `bytes` at a time, with a pause of `ms` between. */
  drip: onReplies({
    bytes: whole(1, 1_000_000).default(16),
    ms: whole(1, HOUR_MS).default(100),
    part: oneOf(['body', 'head']).default('body'),
  }),
  /** No answer; the connection is closed after `ms`, or left to the client. */
  hang: onReplies({ ms: whole(0, HOUR_MS).optional() }),
  reset: onReplies({}),
  /** Some rows are left out, neither the first nor the last: nothing shows that the page is not whole. */
  missingRows: onRows({ rows }, LISTS),
  /** Some rows come twice. */
  duplicateRows: onRows({ rows }, LISTS),
  /** All rows come in a drawn order, never in their own. */
  reorderRows: onRows({}, LISTS),
  /** The list ends after `keep` rows, without its other end; default: drawn. */
  shortPage: onRows({ keep: whole(0, 1000).optional() }, LISTS),
  /** Rows with a known identity and other figures come right behind some, or in their place. */
  conflictRows: onRows({ rows, place: oneOf(['behind', 'instead']).default('behind') }, IDENTIFIED),
  /** The newest row comes with another id, another time or both, and is well-formed otherwise. */
  wrongHead: onRows(
    {
      idBy: whole(-MOST_ID, MOST_ID).default(1_000_000),
      timeByS: whole(-10_000_000_000, 10_000_000_000).default(0),
    },
    TRADE_LISTS,
  ),
  /** Ids above this one begin anew at 1, while those up to it stay what they are. */
  idsAnew: onRows({ above: whole(1, MOST_ID).default(1) }, TRADE_LISTS),
  /** Some rows are spoilt. */
  badRows: onRows({ rows, defect: oneOf(['any', ...DEFECTS]).default('any') }, MEASURED),
  /** The connection is cut. */
  dropSocket: onRealtime({ at: trigger }),
  /** The connection stays, answers protocol pings, and sends nothing, or answers only. */
  halfOpen: onRealtime({ at: trigger, answers: oneOf(['nothing', 'requests']).default('nothing') }),
  refuseSubscribe: onRealtime({}),
  ignoreSubscribe: onRealtime({}),
  /** A frame is followed by copies of itself. */
  duplicateFrames: onRealtime({ copies: whole(1, 1000).default(1) }),
  /** An update is sent behind the frame that follows it. */
  reorderFrames: onRealtime({}),
  /** A frame of another making comes before the true one, or in its place. */
  garbageFrame: onRealtime({
    form: oneOf(['text', 'json', 'utf8']).default('text'),
    place: oneOf(['before', 'instead']).default('before'),
  }),
  /** A frame of this size comes before the true one. */
  oversizeFrame: onRealtime({ bytes: whole(1, 67_108_864).default(1_048_576) }),
  /** An update or a queried record is one that was sent up to `ms` ago. */
  staleState: onRealtime({ ms: whole(1, HOUR_MS).default(5000) }),
} as const satisfies Readonly<Record<string, FaultKindShape>>;

export type FaultKind = keyof typeof FAULT_KINDS;

export const faultKinds = Object.keys(FAULT_KINDS) as FaultKind[];

export function shapeOf(kind: FaultKind): FaultKindShape {
  return FAULT_KINDS[kind];
}

type KindParameters = (typeof FAULT_KINDS)[FaultKind]['parameters'];
type NameOf<Shape> = Shape extends Shape ? keyof Shape : never;
type ValueOf<Shape, Name extends PropertyKey> = Shape extends { readonly [N in Name]: z.ZodType }
  ? z.output<Shape[Name]>
  : never;

/** The parameters of all kinds; each kind has its own of them. */
export type FaultParameters = {
  readonly [Name in NameOf<KindParameters>]?: ValueOf<KindParameters, Name>;
};
