import { exchangeKindOf } from '../kernel/exchange-kind.js';
import { hullOf, type Span } from '../kernel/span.js';
import { isoMs } from '../kernel/timestamp.js';

/**
 * Identity, sessions and gap notices, in headers of our own beside the contract: an
 * exchange knows none. One place for both sides, because a collector that misread them would take
 * for complete what is not.
 */

/** Names the history that a server serves, so that those of two exchanges are never mixed. */
export const IDENTITY_HEADER = 'x-tapekeep-exchange';

/** Names the session of a client, at a backend that keeps several; so does the parameter. */
export const SESSION_HEADER = 'x-tapekeep-session';
export const SESSION_PARAMETER = 'session';

/** The session that an address names: `http://127.0.0.1:8080/?session=mine`. */
export function sessionIn(address: string): string | null {
  return new URL(address).searchParams.get(SESSION_PARAMETER);
}

/** Whether the query of an address is empty, or names a session and nothing else. */
export function hasSessionAtMost({ searchParams }: URL): boolean {
  const names = [...searchParams.keys()];
  return names.length === 0 || (names.length === 1 && names[0] === SESSION_PARAMETER);
}

/** The address with a session named in it; without one, as it is. */
export function inSession(address: string, session: string | null | undefined): string {
  if (session === null || session === undefined || !URL.canParse(address)) return address;
  const url = new URL(address);
  url.searchParams.set(SESSION_PARAMETER, session);
  return url.href;
}

/** Names the gaps that an answer touches. */
export const GAP_HEADER = 'x-tapekeep-gap';
/**
 * On answers that show one time: since when, and until that time, all was recorded without a
 * break. Between two such answers there was a gap if the later one begins after the earlier ended.
 */
export const COVERED_HEADER = 'x-tapekeep-covered';

/** Only a replay reports gaps: what another server sends under these names is not looked at. */
export function isReplay(identity: string | null | undefined): boolean {
  return exchangeKindOf(identity) === 'replay';
}

/**
 * A client that asks for it on a connection to a replay (method without parameters) is notified by
 * {@link GAP_NOTICE} whether the states of its subscription are known: before their first, and whenever
 * that changes. Others get no notice: they take every frame for a state.
 */
export const GAP_NOTICES_METHOD = 'tapekeep.gaps';
/** The notification: whether a gap begins (or it ends), and the time, UNIX milliseconds. */
export const GAP_NOTICE = 'tapekeep.gap';

/**
 * With this parameter it asks for {@link TIME_NOTICE} as well: at once, and whenever the time of its session
 * goes on otherwise than before.
 */
export const WITH_TIME = 'time';
/** The notification: the time, its pace, the number of the change, and whether that was a jump. */
export const TIME_NOTICE = 'tapekeep.time';

/** How the time of a replay goes on. */
export interface TimeNotice {
  /** UNIX milliseconds. */
  readonly nowMs: number;
  /** Its seconds per second of ours; 0 while it stands. */
  readonly pace: number;
  /** Another number for each change: one that was sent before is none. */
  readonly change: number;
  /** Whether the time went to another place with it. */
  readonly isJump: boolean;
}

/** The frame {@link TIME_NOTICE}. */
export function timeNoticeMessage({ nowMs, pace, change, isJump }: TimeNotice) {
  return { method: TIME_NOTICE, params: [nowMs, pace, change, isJump], id: null };
}

/** The frame {@link GAP_NOTICE}. */
export function gapNoticeMessage(isGap: boolean, atMs: number) {
  return { method: GAP_NOTICE, params: [isGap, atMs], id: null };
}

/** A piece of time that an answer speaks of and the archive behind it does not have whole. */
export interface GapNotice {
  /** Kind of the stream: `trades`, `times`, `candles`, `depth`, `tickers`, `states`. */
  readonly kind: string;
  /** Those that it is of, in an answer that shows several markets; left out: all that it shows. */
  readonly markets?: readonly string[];
  /** UNIX milliseconds; infinite at both ends where the words could not be read. */
  readonly span: Span;
  /** Why, in the words of the archive that is replayed. */
  readonly reason: string;
}

/** Gaps that a header names one by one; the rest is one span of each kind. */
const NAMED_MAX = 20;
/** A header longer than this is not read: it was not written here. */
const HEADER_MAX_LENGTH = 16_384;
const TIMESTAMP = /^(?:\d{4}|[+-]\d{6})-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;
const GAP = /^([a-z]{1,20})(?: of (\S{1,8000}))? (\S{24,27}) (\S{24,27})(?: (.{0,200}))?$/;

/** Names that take more characters together are left out: what is said then holds for all markets. */
const NAMES_MAX_LENGTH = 6000;
const textOf = (names: readonly string[]) => names.map(encodeURIComponent).join('+');

/**
 * `trades 2026-01-31T12:00:00.000Z 2026-01-31T12:05:00.000Z not collected`, several with commas;
 * `tickers of BTC_USDT+ETH_USDT …` where it is of these markets alone. Of many the first are named, and
 * the rest of each kind as one span around them.
 *
 * @param namedMax how many are named
 */
export function describeGaps(gaps: readonly GapNotice[], namedMax = NAMED_MAX): string {
  const rest = gaps.slice(namedMax);
  const around = [...new Set(rest.map(({ kind }) => kind))].map((kind) => {
    const those = rest.filter((one) => one.kind === kind);
    const span = hullOf(those.map((one) => one.span));
    const reason = `${those.length} more in this time`;
    const isOfAll = those.some(({ markets }) => markets === undefined);
    const markets = [...new Set(those.flatMap((one) => one.markets ?? []))];
    return { kind, span, reason, ...(isOfAll ? {} : { markets }) };
  });
  const shown: GapNotice[] = [...gaps.slice(0, namedMax), ...around];
  const length = shown.reduce((sum, { markets = [] }) => sum + textOf(markets).length, 0);
  return shown
    .map(({ kind, span, reason, markets = [] }) => {
      const of = markets.length === 0 || length > NAMES_MAX_LENGTH ? '' : ` of ${textOf(markets)}`;
      // Commas part one from the next.
      const words = reason.replace(/[^\x20-\x2b\x2d-\x7e]/g, ' ').slice(0, 200);
      return `${kind}${of} ${isoMs(span.fromMs)} ${isoMs(span.toMs)} ${words}`;
    })
    .join(', ');
}

/** Until when an answer shows what is recorded, and since when that is without a break. */
export interface CoveredTime extends Span {
  /** Since when of some markets, where an answer shows several and not all have the same begin. */
  readonly since?: ReadonlyMap<string, number>;
}

/** Two timestamps, ISO 8601; after commas the names of markets with another begin, and that. */
export function describeCovered({ fromMs, toMs, since = new Map() }: CoveredTime): string {
  const begins = [...new Set(since.values())];
  const others = begins.map((beginMs) => {
    const names = [...since].flatMap(([name, ms]) => (ms === beginMs ? [name] : []));
    return `, ${textOf(names)} ${isoMs(beginMs)}`;
  });
  const text = others.join('');
  if (text.length <= NAMES_MAX_LENGTH) return `${isoMs(fromMs)} ${isoMs(toMs)}${text}`;
  return `${isoMs(Math.max(fromMs, ...begins))} ${isoMs(toMs)}`;
}

/** What is left of an answer that says something of itself which cannot be read. */
export const UNREADABLE: GapNotice = {
  kind: 'unreadable',
  span: { fromMs: Number.NEGATIVE_INFINITY, toMs: Number.POSITIVE_INFINITY },
  reason: 'it said so in words that could not be read',
};

/**
 * Gaps in a reply. Never fewer than it names: what cannot be read makes all of the
 * answer suspect.
 *
 * @param texts the headers {@link GAP_HEADER} of one answer, as they came
 */
export function readGaps(texts: readonly string[]): readonly GapNotice[] {
  const text = texts.join(', ');
  if (text.length > HEADER_MAX_LENGTH) return [UNREADABLE];
  return text.split(',').map((one) => {
    const [, kind = '', names, from, to, reason = ''] = GAP.exec(one.trim()) ?? [];
    const [fromMs, toMs] = [readTimestamp(from), readTimestamp(to)];
    const markets = names === undefined ? undefined : readNames(names);
    const isReadable = fromMs !== undefined && toMs !== undefined && fromMs < toMs;
    if (!isReadable || (names !== undefined && markets === undefined)) return UNREADABLE;
    return { kind, span: { fromMs, toMs }, reason, ...(markets && { markets }) };
  });
}

function readNames(text: string): readonly string[] | undefined {
  try {
    return text.split('+').map(decodeURIComponent);
  } catch {
    return undefined;
  }
}

/** The time in {@link COVERED_HEADER}; undefined when it cannot be read. */
export function readCovered(text: string): CoveredTime | undefined {
  if (text.length > HEADER_MAX_LENGTH) return undefined;
  const [span = '', ...others] = text.split(',').map((one) => one.trim());
  const [from, to, ...more] = span.split(' ');
  const [fromMs, toMs] = [readTimestamp(from), readTimestamp(to)];
  if (fromMs === undefined || toMs === undefined || more.length > 0) return undefined;
  const since = new Map<string, number>();
  for (const other of others) {
    const [names = '', begin, ...rest] = other.split(' ');
    const [markets, beginMs] = [readNames(names), readTimestamp(begin)];
    if (markets === undefined || beginMs === undefined || rest.length > 0) return undefined;
    for (const market of markets) since.set(market, beginMs);
  }
  if (fromMs > toMs || [...since.values()].some((ms) => ms > toMs)) return undefined;
  return { fromMs, toMs, ...(since.size > 0 && { since }) };
}

function readTimestamp(text: string | undefined): number | undefined {
  if (text === undefined || !TIMESTAMP.test(text)) return undefined;
  const atMs = Date.parse(text);
  return Number.isNaN(atMs) ? undefined : atMs;
}

/**
 * How a replay names its time when it has nothing to show yet. A reader knows from it that asking again
 * does not help before that time has gone on.
 */
export const REPLAY_TIME = 'the time of this replay';

/** How a strict replay begins to say which gaps an answer would touch. */
export const REFUSED_FOR_GAPS = 'gap in the archive: ';

/** Whether a strict replay refused: asking again does not close its gap. */
export function isRefusedForGaps(message: string): boolean {
  return message.includes(REFUSED_FOR_GAPS);
}

/** Whether a refusal says that nothing is recorded up to the time of a replay. */
export function isNotRecordedYet(message: string): boolean {
  return message.includes(REPLAY_TIME);
}
