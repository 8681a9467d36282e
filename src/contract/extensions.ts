import { exchangeKindOf } from '../kernel/exchange-kind.js';

/** Identity, sessions and the time of a replay: our own words beside the contract, which no exchange knows. */

/** Names the history that a server serves, so that those of two exchanges are never mixed. */
export const IDENTITY_HEADER = 'x-tapekeep-exchange';

/** Names the session of a client, at a backend that keeps several; so does the parameter. */
export const SESSION_HEADER = 'x-tapekeep-session';
export const SESSION_PARAMETER = 'session';

/** The session that an address names: `http://127.0.0.1:8080/?session=mine`. */
export function sessionIn(address: string): string | null {
  return new URL(address).searchParams.get(SESSION_PARAMETER);
}

/** Returns true if the query of an address is empty, or names a session and nothing else. */
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

/** Returns true if it is a replay by its identity: what another server sends under its words is ignored. */
export function isReplay(identity: string | null | undefined): boolean {
  return exchangeKindOf(identity) === 'replay';
}

/**
 * A client that sends this method, without parameters, on a connection to a replay gets a notification of
 * the same name: at once, and whenever the time of its session changes its course.
 */
export const TIME_NOTICE = 'tapekeep.time';

/** How the time of a replay goes on. */
export interface TimeNotice {
  /** UNIX milliseconds. */
  readonly nowMs: number;
  /** Its seconds per second of ours; 0 while it stands. */
  readonly pace: number;
  /** Another number for each change: one that was sent before is none. */
  readonly change: number;
  /** True if the time went to another place with it. */
  readonly isJump: boolean;
}

/** The frame {@link TIME_NOTICE}. */
export function timeNoticeMessage({ nowMs, pace, change, isJump }: TimeNotice) {
  return { method: TIME_NOTICE, params: [nowMs, pace, change, isJump], id: null };
}

/**
 * How a replay names its time when it has nothing to show yet. A reader knows from it that asking again
 * does not help before that time has gone on.
 */
export const REPLAY_TIME = 'the time of this replay';

/** Returns true if a refusal says that nothing is recorded up to the time of a replay. */
export function isNotRecordedYet(message: string): boolean {
  return message.includes(REPLAY_TIME);
}
