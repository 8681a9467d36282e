import type { PastSession, PastUpdate, StatePlace } from '../archive/past.js';
import type { StateFollower, WrittenUpdate } from '../server/backend.js';
import { lastSeen, type Sight } from './catalog.js';

/** Records read ahead at once: few while time passes slowly, more when they are soon used up. */
const AHEAD_MIN = 64;
const AHEAD_MAX = 2048;
/** A batch that lasts less than this is followed by one twice its size. */
const SOON_MS = 1000;
/** Beyond every number of a record within one millisecond. */
const AFTER_ALL = 2 ** 31 - 1;
/** A recorded end that came without a code: the connection is cut. */
const ABNORMAL_CLOSURE = 1006;

/** Next item of a channel. */
export interface ChannelEvent {
  readonly atMs: number;
  readonly kind: 'update' | 'close';
}

export interface ChannelOptions extends Sight {
  readonly marketId: number;
  readonly periodS: number;
  /** Recorded connections, where their ends are to be sent; oldest first. */
  readonly sessions: readonly PastSession[] | undefined;
}

/**
 * The recorded updates of one market and period, handed to all who follow them in one session.
 *
 * States: *unset* → *set* to an instant (what was last then is known) → *unset* by a jump of time. While
 * set, records are read ahead of the instant, and none is handed out before its own.
 */
export class StateChannel {
  readonly #options: ChannelOptions;
  readonly #followers = new Set<StateFollower>();
  #rows: PastUpdate[] = [];
  #at = 0;
  #place: StatePlace | undefined;
  #isAtEnd = false;
  #ahead = AHEAD_MIN;
  #readAtMs = 0;
  #loading: Promise<void> | undefined;
  /** Last sent, for followers that come later. */
  #last: WrittenUpdate | undefined;
  /** Records never come back in time, whenever they were received. */
  #reportedMs = Number.NEGATIVE_INFINITY;
  #lap = 0;
  #sinceMs: number;
  /** Recorded ends that lie behind. */
  #endsPassed = 0;

  /** @param sinceMs the instant to be set to: that of the first follower */
  constructor(options: ChannelOptions, sinceMs: number) {
    this.#options = options;
    this.#sinceMs = sinceMs;
  }

  get isFollowed(): boolean {
    return this.#followers.size > 0;
  }

  /** New followers of a channel that is set get the last update. */
  add(follower: StateFollower, nowMs: number): void {
    this.#followers.add(follower);
    if (this.#place !== undefined) this.#greet(follower, nowMs);
  }

  remove(follower: StateFollower): void {
    this.#followers.delete(follower);
  }

  /** Forgets where it stands: time has jumped. */
  unset(nowMs: number): void {
    this.#lap += 1;
    this.#sinceMs = nowMs;
    this.#rows = [];
    this.#at = 0;
    this.#place = undefined;
    this.#isAtEnd = false;
    this.#ahead = AHEAD_MIN;
    this.#last = undefined;
    this.#reportedMs = Number.NEGATIVE_INFINITY;
  }

  /** Makes sure that what comes next is known. */
  async prepare(): Promise<void> {
    // A jump of time meanwhile makes what was asked for worthless, also what others still wait for.
    while (this.#place === undefined || (this.#at >= this.#rows.length && !this.#isAtEnd)) {
      await (this.#place === undefined ? this.#set() : this.#load());
    }
  }

  /** Next items, as far as they are prepared. */
  next(): ChannelEvent | undefined {
    if (this.#place === undefined) return undefined;
    const row = this.#rows[this.#at];
    // Rows still to be read may come before everything else that is known.
    if (row === undefined && !this.#isAtEnd) return undefined;
    const update = row === undefined ? undefined : this.#timeOf(row);
    const end = this.#options.sessions?.[this.#endsPassed];
    if (end !== undefined && end.endedMs < (update ?? this.#options.toMs)) {
      return { atMs: Math.max(end.endedMs, this.#reportedMs), kind: 'close' };
    }
    return update === undefined ? undefined : { atMs: update, kind: 'update' };
  }

  /** Hands out what {@link StateChannel.next} named. Resolves when all who follow have room for more. */
  report(event: ChannelEvent): Promise<unknown> | undefined {
    this.#reportedMs = event.atMs;
    if (event.kind === 'close') {
      const end = this.#options.sessions?.[this.#endsPassed];
      this.#endsPassed += 1;
      if (end !== undefined) for (const follower of [...this.#followers]) close(follower, end);
      return undefined;
    }
    const row = this.#rows[this.#at];
    if (row === undefined) return undefined;
    this.#at += 1;
    // The next batch is fetched while one is sent: where they are soon used up, a whole one before.
    const isSlow = this.#ahead === AHEAD_MIN;
    const left = this.#rows.length - this.#at;
    if (left <= (isSlow ? AHEAD_MIN / 2 : this.#ahead) && !this.#isAtEnd) {
      void this.#load().catch(() => undefined);
    }
    this.#last = row;
    const waits: Promise<void>[] = [];
    for (const follower of this.#followers) {
      const room = follower.send(row);
      if (room !== undefined) waits.push(room);
    }
    return waits.length === 0 ? undefined : Promise.all(waits);
  }

  async #set(): Promise<void> {
    const lap = this.#lap;
    const nowMs = this.#sinceMs;
    const { past, marketId, periodS } = this.#options;
    const { ms } = lastSeen(this.#options, nowMs);
    const last = await past.lastState(marketId, periodS, ms, true);
    if (lap !== this.#lap) return;
    this.#place =
      last === undefined
        ? { observedAtMs: nowMs, seq: AFTER_ALL }
        : { observedAtMs: last.observedAtMs, seq: last.seq };
    this.#reportedMs = nowMs;
    this.#endsPassed = countUntil(this.#options.sessions ?? [], ({ endedMs }) => endedMs > nowMs);
    if (last !== undefined) this.#last = last;
    for (const follower of [...this.#followers]) this.#greet(follower, nowMs);
  }

  /** Shows a follower where the channel stands. */
  #greet(follower: StateFollower, nowMs: number): void {
    const outage = this.#outageAt(nowMs);
    if (outage !== undefined) close(follower, outage);
    else if (this.#last !== undefined) void follower.send(this.#last);
  }

  #load(): Promise<void> {
    this.#loading ??= this.#read().finally(() => {
      this.#loading = undefined;
    });
    return this.#loading;
  }

  async #read(): Promise<void> {
    const { past, clock, marketId, periodS, toMs } = this.#options;
    const lap = this.#lap;
    const place = this.#place;
    if (place === undefined) return;
    const nowMs = clock.monotonicMs();
    const isSoon = nowMs - this.#readAtMs < SOON_MS;
    this.#ahead = isSoon ? Math.min(AHEAD_MAX, this.#ahead * 2) : AHEAD_MIN;
    this.#readAtMs = nowMs;
    const rows = await past.updatesAfter(marketId, periodS, place, toMs, this.#ahead);
    if (lap !== this.#lap) return;
    const last = rows.at(-1);
    if (last !== undefined) this.#place = { observedAtMs: last.observedAtMs, seq: last.seq };
    this.#isAtEnd = rows.length < this.#ahead;
    this.#rows = [...this.#rows.slice(this.#at), ...rows];
    this.#at = 0;
  }

  #timeOf({ observedAtMs }: PastUpdate): number {
    return Math.max(observedAtMs, this.#reportedMs);
  }

  /**
   * The end of the recorded connection after which nothing was connected at an instant. Where time stands
   * at its end no next connection can be waited for: a client that comes then stays.
   */
  #outageAt(nowMs: number): PastSession | undefined {
    const { sessions, toMs } = this.#options;
    if (sessions === undefined || nowMs >= toMs) return undefined;
    const isLive = sessions.some(({ openedMs, endedMs }) => openedMs <= nowMs && nowMs < endedMs);
    return isLive
      ? undefined
      : (sessions.findLast(({ endedMs }) => endedMs <= nowMs) ?? NO_SESSION);
  }
}

/** How many come before the first that is meant. */
function countUntil<T>(all: readonly T[], isMeant: (one: T) => boolean): number {
  const first = all.findIndex(isMeant);
  return first < 0 ? all.length : first;
}

const NO_SESSION: PastSession = {
  openedMs: Number.NEGATIVE_INFINITY,
  endedMs: Number.NEGATIVE_INFINITY,
  closeCode: ABNORMAL_CLOSURE,
  reason: 'no connection was recorded yet',
};

function close(follower: StateFollower, { closeCode, reason }: PastSession): void {
  // A close frame has room for 123 bytes of reason.
  follower.close(closeCode ?? ABNORMAL_CLOSURE, `recorded: ${reason}`.slice(0, 100));
}
