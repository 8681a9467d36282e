import { randomUUID } from 'node:crypto';
import { sleep } from '../../kernel/clock.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import { Share } from '../../model/share.js';
import type { Runner } from '../connection.js';
import { isState } from '../errors.js';
import { sharesDiffer } from '../locks.js';
import {
  BEAT_MS,
  type DaemonFacts,
  holderText,
  type LeaseOptions,
  MACHINE,
  OwnLine,
  PRESENT,
  QUIET_MS,
  TAKE_MS,
} from './lease-wire.js';

/** Standing by: watching the holder of the writer's lock until the lock is free, and ending one that is silent. */

const REGISTER = `
  INSERT INTO writer_standby AS s (standby_id, host, pid, version, ready_token, share)
  VALUES ($1, $2, $3, $4, $5::bigint, $6)
  ON CONFLICT (standby_id) DO UPDATE SET seen_at = clock_timestamp(), ready_token = excluded.ready_token`;
const FORGET = `
  DELETE FROM writer_standby WHERE standby_id = $1 OR seen_at < clock_timestamp() - interval '1 hour'`;

const LOOK = `
  SELECT e.token::text, h.pid IS NOT NULL AS is_held, b.token IS NOT NULL AND b.token = e.token AS has_beaten,
         b.token IS NOT NULL AS is_kept, b.asked_token IS NOT NULL AND b.asked_token = e.token AS is_asked, b.beat::text, ${MACHINE}, h.held_by, h.application,
         CASE WHEN h.differs THEN (SELECT shares FROM exclusive_lock WHERE name = e.name AND id = 0) END AS held_shares
  FROM exclusive_lock e LEFT JOIN writer_beat b ON b.share = e.id LEFT JOIN lock_rival('writer', $1, $2) h ON true
  LEFT JOIN writer_beat m ON m.token = h.token
  WHERE e.name = 'writer' AND e.id = $1`;

/** Ends the connection that holds the lock, if it is still the one that was watched. */
const END = `
  SELECT pg_terminate_backend(h.pid) FROM exclusive_lock e, writer_beat b, lock_holder('writer', $3) h
  WHERE e.name = 'writer' AND e.id = $3 AND b.share = $3 AND e.token = $1::bigint AND b.token = e.token
    AND b.beat = $2::bigint AND h.pid IS NOT NULL`;

interface Look {
  readonly token: string | null;
  readonly isHeld: boolean;
  /** A holder that never beat, as a command, is waited for and never ended. */
  readonly hasBeaten: boolean;
  /** The holder is to hand over. */
  readonly isAsked: boolean;
  /** True unless the last holder let go by itself. */
  readonly isKept: boolean;
  readonly beat: string;
  readonly machine: string | null;
  readonly heldBy: string | null;
  readonly application: string | null;
  /** Into how many shares others divide the archive, where that is another number; else null. */
  readonly heldShares: number | null;
}

export interface StandByOptions extends LeaseOptions {
  readonly facts: DaemonFacts;
  readonly signal: AbortSignal;
  /** Called after each look. */
  readonly onLook: (heldBy: string) => void;
  /** Called once when the holder hands over and sends no request any more; {@link StandingBy.ready} answers. */
  readonly onAsked: () => void;
  /** Called when a look fails, or the silent holder cannot be ended. */
  readonly onTrouble: (code: string, message: string) => void;
}

/** How the lock came to be free. */
export interface Freed {
  readonly cause: 'free' | 'silent';
  /** First instant of the monotonic clock at which the former holder sends no request any more. */
  readonly quietUntilMs: number;
}

/** Between two looks while the lock is about to be free. */
const SOON_MS = 100;

const END_ADVICE =
  'give both the same login, or GRANT pg_signal_backend to this one; until then the lock is free only when that connection ends';

/**
 * A process that stands by.
 *
 * States: *watching* → *free*. Watching counts the time for which the same beat was seen, without a pause between two
 * looks: a standby that was frozen itself, or away from the database, begins to count again.
 */
export class StandingBy {
  readonly #options: StandByOptions;
  readonly #line: OwnLine;
  readonly #id = randomUUID();
  #beat: string | undefined;
  #beatSinceMs = Number.NEGATIVE_INFINITY;
  #lookedMs = Number.NEGATIVE_INFINITY;
  #hasEnded = false;
  /** Token and beat with which the holder was first seen to hand over. */
  #asked: { readonly token: string | null; readonly beat: string; isHeard: boolean } | undefined;
  #readyToken: string | null = null;

  constructor(options: StandByOptions) {
    this.#options = options;
    this.#line = new OwnLine(options);
  }

  /** Resolves when the lock is free. @throws the signal's reason; StoreError `shares_differ` */
  async untilFree(): Promise<Freed> {
    const { clock, signal, onTrouble } = this.#options;
    for (;;) {
      signal.throwIfAborted();
      try {
        const freed = await this.#look();
        if (freed !== undefined) return freed;
      } catch (error) {
        if (codeOf(error) === 'shares_differ') throw error;
        onTrouble('standby_blind', `the holder cannot be watched (${messageOf(error)})`);
      }
      const isSoon = this.#hasEnded || this.#asked !== undefined;
      await sleep(clock, isSoon ? SOON_MS : BEAT_MS, signal);
    }
  }

  /** Tells the holder that this process goes on at once when the lock is free. */
  ready(): void {
    this.#readyToken = this.#asked?.token ?? null;
  }

  /** Ends the watch, and with it the place among those that stand by. */
  async stop(): Promise<void> {
    await this.#line.rows(FORGET, [this.#id]).catch(() => undefined);
    await this.#line.close();
  }

  async #look(): Promise<Freed | undefined> {
    const { clock, share, facts, onLook } = this.#options;
    const askedMs = clock.monotonicMs();
    await this.#line.rows(REGISTER, [
      this.#id,
      facts.host,
      facts.pid,
      facts.version,
      this.#readyToken,
      share.number,
    ]);
    const [look] = await this.#line.rows<Look>(LOOK, [share.number, share.of]);
    const nowMs = clock.monotonicMs();
    if (look === undefined) throw new Error('the row of the lock is missing');
    const { token, beat, isHeld, hasBeaten, isKept, heldShares } = look;
    if (heldShares !== null) throw sharesDiffer(share, holderText(look), heldShares);
    const isSteady = askedMs - this.#lookedMs < 3 * BEAT_MS;
    this.#lookedMs = nowMs;
    const seen = `${token} ${beat}`;
    if (seen !== this.#beat || !isSteady) {
      this.#beat = seen;
      this.#beatSinceMs = nowMs;
      this.#hasEnded = false;
    }
    if (!isHeld) {
      const quietUntilMs = isKept ? this.#beatSinceMs + QUIET_MS : nowMs;
      return { cause: this.#hasEnded ? 'silent' : 'free', quietUntilMs };
    }
    this.#heed(look);
    onLook(holderText(look));
    if (hasBeaten && askedMs - this.#beatSinceMs >= TAKE_MS) await this.#end(token, beat);
    return undefined;
  }

  /** A holder that hands over has stopped its requests with the next beat. */
  #heed({ isAsked, token, beat }: Look): void {
    if (!isAsked) {
      this.#asked = undefined;
      this.#readyToken = null;
      return;
    }
    if (this.#asked?.token !== token) this.#asked = { token, beat, isHeard: false };
    if (this.#asked.isHeard || this.#asked.beat === beat) return;
    this.#asked.isHeard = true;
    this.#options.onAsked();
  }

  async #end(token: string | null, beat: string): Promise<void> {
    try {
      await this.#line.rows(END, [token, beat, this.#options.share.number]);
      this.#hasEnded = true;
    } catch (error) {
      if (!isState(error, 'not allowed')) throw error;
      const text = `the holder is silent, and its connection may not be ended (${messageOf(error)}): ${END_ADVICE}`;
      this.#options.onTrouble('standby_refused', text);
    }
  }
}

/** A daemon that stands by. */
export interface Standby extends DaemonFacts {
  readonly sinceMs: number;
  /** Number of its share; 0: all markets. */
  readonly share: number;
}

const STANDBYS = `
  SELECT host, pid, version, since, share FROM writer_standby
  WHERE seen_at > clock_timestamp() - ${PRESENT} ORDER BY share, since`;

/** Daemons that stand by at present, the longest first. */
export async function readStandbys(runner: Runner): Promise<Standby[]> {
  return await runner.rows<Standby>(STANDBYS);
}

const HOLDERS = `
  SELECT e.shares, h.id AS share, h.token::text, ${MACHINE}, h.held_by, h.application
  FROM exclusive_lock e LEFT JOIN lock_holders('writer') h ON true LEFT JOIN writer_beat m ON m.token = h.token
  WHERE e.name = 'writer' AND e.id = 0 ORDER BY h.id`;

/** The connection that holds the writer's lock, or a share of it. */
export interface HolderOfLock {
  /** Number of the share; 0: all markets. */
  readonly share: number;
  readonly token: string;
  /** Null before its first beat, and for a command, which has none. */
  readonly machine: string | null;
  readonly heldBy: string;
  readonly application: string;
}

/** Those that collect, as the lock shows them. */
export interface Holders {
  /** Into how many shares the markets are divided; 1: they are not. */
  readonly shares: number;
  /** By share. */
  readonly holders: readonly HolderOfLock[];
}

/** Returns the holders of the writer's lock, or of each share of it. */
export async function readHolders(runner: Runner): Promise<Holders> {
  const rows = await runner.rows<HolderOfLock & { shares: number }>(HOLDERS);
  const holders = rows.filter(({ token }) => token !== null);
  return { shares: rows[0]?.shares ?? 1, holders };
}

/** Shares without a daemon: those of an archive that is divided, while no program holds all of it. */
export function sharesWithoutHolder({ shares, holders }: Holders): Share[] {
  const held = new Set(holders.map(({ share }) => share));
  if (shares === 1 || held.has(0)) return [];
  const all = Array.from({ length: shares }, (_, at) => Share.parse(`${at + 1}/${shares}`));
  return all.flatMap((one) => (one === undefined || held.has(one.number) ? [] : [one]));
}

const ASK = `
  UPDATE writer_beat b SET asked_token = e.token FROM exclusive_lock e, lock_holder('writer', $1) h
  WHERE b.share = $1 AND e.name = 'writer' AND e.id = $1 AND h.pid IS NOT NULL AND b.token = e.token
  RETURNING e.token::text`;

/**
 * Asks the holder of a share to hand the lock over to a daemon that stands by.
 *
 * @returns the token of that hold; undefined where no daemon holds the lock
 */
export async function askHandover(runner: Runner, share: Share): Promise<string | undefined> {
  const [asked] = await runner.rows<{ token: string }>(ASK, [share.number]);
  return asked?.token;
}
