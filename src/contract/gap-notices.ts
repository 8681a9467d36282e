import { hullOf, type Span } from '../kernel/span.js';

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

/** Prefix of a replay's identity. */
export const REPLAY_IDENTITY = 'replay-';
/**
 * A client that asks for it on a connection to a replay (method without parameters) is notified by
 * {@link GAP_NOTICE} whether the states of its subscription are known: before their first, and whenever
 * that changes. Others get no notice: they take every frame for a state.
 */
export const GAP_NOTICES_METHOD = 'tapekeep.gaps';
/** The notification: whether a gap begins (or it ends), and the time, UNIX milliseconds. */
export const GAP_NOTICE = 'tapekeep.gap';

/** The frame {@link GAP_NOTICE}. */
export function gapNoticeMessage(isGap: boolean, atMs: number) {
  return { method: GAP_NOTICE, params: [isGap, atMs], id: null };
}

/** A piece of time that an answer speaks of and the archive behind it does not have whole. */
export interface GapNotice {
  /** Kind of the stream: `trades`, `times`, `candles`, `depth`, `tickers`, `states`. */
  readonly kind: string;
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
const GAP = /^([a-z]{1,20}) (\S{24,27}) (\S{24,27})(?: (.{0,200}))?$/;

/**
 * `trades 2026-01-31T12:00:00.000Z 2026-01-31T12:05:00.000Z not collected`, several with commas. Of
 * many the first are named, and the rest of each kind as one span around them.
 *
 * @param namedMax how many are named
 */
export function describeGaps(gaps: readonly GapNotice[], namedMax = NAMED_MAX): string {
  const rest = gaps.slice(namedMax);
  const around = [...new Set(rest.map(({ kind }) => kind))].map((kind) => {
    const those = rest.filter((one) => one.kind === kind);
    const span = hullOf(those.map((one) => one.span));
    return { kind, span, reason: `${those.length} more in this time` };
  });
  return [...gaps.slice(0, namedMax), ...around]
    .map(({ kind, span, reason }) => {
      const [from, to] = [new Date(span.fromMs), new Date(span.toMs)];
      // Commas part one from the next.
      const words = reason.replace(/[^\x20-\x2b\x2d-\x7e]/g, ' ').slice(0, 200);
      return `${kind} ${from.toISOString()} ${to.toISOString()} ${words}`;
    })
    .join(', ');
}

/** Two timestamps, ISO 8601. */
export function describeCovered({ fromMs, toMs }: Span): string {
  return `${new Date(fromMs).toISOString()} ${new Date(toMs).toISOString()}`;
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
    const [, kind = '', from, to, reason = ''] = GAP.exec(one.trim()) ?? [];
    const [fromMs, toMs] = [readTimestamp(from), readTimestamp(to)];
    if (fromMs === undefined || toMs === undefined || fromMs >= toMs) return UNREADABLE;
    return { kind, span: { fromMs, toMs }, reason };
  });
}

/** The span in {@link COVERED_HEADER}; undefined when it cannot be read. */
export function readCovered(text: string): Span | undefined {
  const [from, to, ...more] = text.trim().split(' ');
  const [fromMs, toMs] = [readTimestamp(from), readTimestamp(to)];
  if (fromMs === undefined || toMs === undefined || more.length > 0) return undefined;
  return fromMs <= toMs ? { fromMs, toMs } : undefined;
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

/** Whether a refusal says that nothing is recorded up to the time of a replay. */
export function isNotRecordedYet(message: string): boolean {
  return message.includes(REPLAY_TIME);
}
