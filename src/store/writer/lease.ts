import { endsInTime, sleep } from '../../kernel/clock.js';
import {
  ASKED_BEAT_MS,
  BEAT_MS,
  type DaemonFacts,
  holderText,
  type LeaseOptions,
  MACHINE,
  OwnLine,
  PRESENT,
  SILENT_MS,
} from './lease-wire.js';

/**
 * The hold of the writer's lock as its holder shows it: a beat each second, with the token of the hold. The lock
 * itself needs no beat: it lives and dies with the connection that commits.
 */

const BEAT = `
  UPDATE writer_beat b SET token = e.token, beat = b.beat + 1, host = $3, pid = $4
  FROM exclusive_lock e
  WHERE b.share = $2 AND e.name = 'writer' AND e.id = $2 AND e.token = $1::bigint
  RETURNING b.asked_token IS NOT DISTINCT FROM e.token AS is_asked,
    ARRAY(SELECT host || ' (process ' || pid || ')' FROM writer_standby
          WHERE share = $2 AND seen_at > clock_timestamp() - ${PRESENT} ORDER BY since) AS standbys,
    EXISTS (SELECT FROM writer_standby s WHERE s.ready_token = e.token) AS is_ready`;

const ASK = `UPDATE writer_beat SET asked_token = token WHERE share = $2 AND token = $1::bigint`;

/** Holder that excludes it now, where that is another hold than the known one. */
const OTHER = `
  SELECT ${MACHINE}, h.held_by, h.application
  FROM exclusive_lock e, lock_rival('writer', $2, $3) h LEFT JOIN writer_beat m ON m.token = h.token
  WHERE e.name = 'writer' AND e.id = $2 AND h.pid IS NOT NULL AND e.token IS DISTINCT FROM $1::bigint`;

const LET_GO = `UPDATE writer_beat SET token = NULL WHERE share = $2 AND token = $1::bigint`;

interface Answer {
  readonly isAsked: boolean;
  readonly standbys: readonly string[];
  readonly isReady: boolean;
}

interface Other {
  readonly machine: string | null;
  readonly heldBy: string;
  readonly application: string;
}

export interface HeldLeaseOptions extends LeaseOptions {
  readonly facts: DaemonFacts;
  /** Token of the hold, as the writer knows it; null before its first. */
  readonly token: () => string | null;
  /** First instant of the monotonic clock at which requests may be sent. */
  readonly quietUntilMs: number;
  /** Called once when another process holds the lock. */
  readonly onLost: (heldBy: string) => void;
  /** Called once when a handover is asked for while a standby is there. */
  readonly onAsked: () => void;
  /** Called after each answered beat. */
  readonly onBeat: (standbys: readonly string[]) => void;
}

/**
 * The beat of a process that holds the lock.
 *
 * States: *beating* → *lost* (another process holds the lock) or *stopped*. While beating, a failed beat is tried
 * again a second later.
 */
export class Lease {
  readonly #options: HeldLeaseOptions;
  readonly #line: OwnLine;
  readonly #stopping = new AbortController();
  readonly #running: Promise<void>;
  #answeredMs: number;
  #standbys: readonly string[] = [];
  #isAsked = false;
  /** Resolves when a standby is ready to go on. */
  readonly #ready: Promise<void>;
  #isReady: () => void = () => undefined;
  /** Token with which another holder was found; a writer that just took the lock again learns its token late. */
  #suspect: string | null | undefined;

  constructor(options: HeldLeaseOptions) {
    this.#options = options;
    this.#line = new OwnLine(options);
    this.#answeredMs = options.clock.monotonicMs();
    this.#ready = new Promise((resolve) => {
      this.#isReady = resolve;
    });
    this.#running = this.#run();
  }

  /** Daemons that stand by, as the last answered beat saw them. */
  get standbys(): readonly string[] {
    return this.#standbys;
  }

  /**
   * False while requests must wait, because a standby may send them by now: no beat was answered for long, or
   * another holder was seen, or it is to hand over. Without a standby requests go on through an outage.
   */
  get maySend(): boolean {
    const nowMs = this.#options.clock.monotonicMs();
    if (this.#suspect !== undefined || nowMs < this.#options.quietUntilMs) return false;
    return this.#standbys.length === 0 || (!this.#isAsked && nowMs - this.#answeredMs < SILENT_MS);
  }

  /** Asks itself to hand over, so that a standby makes itself ready. */
  async ask(): Promise<void> {
    this.#isAsked = true;
    await this.#line
      .rows(ASK, [this.#options.token(), this.#options.share.number])
      .catch(() => undefined);
  }

  /** Resolves when a standby is ready to go on, or after a time. */
  async untilReady(limitMs: number): Promise<void> {
    await endsInTime(this.#options.clock, limitMs, this.#ready);
  }

  /** Ends the beat. Called when no request is sent any more: a standby need not wait before its own ones then. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
    const token = this.#options.token();
    await this.#line.rows(LET_GO, [token, this.#options.share.number]).catch(() => undefined);
    await this.#line.close();
  }

  async #run(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      // A beat that fails is tried again; what its silence means, maySend says.
      const isLost = await this.#beat().catch(() => false);
      if (isLost) return;
      await sleep(clock, this.#isAsked ? ASKED_BEAT_MS : BEAT_MS, signal, {
        background: true,
      }).catch(() => undefined);
    }
  }

  /** @returns whether another process holds the lock for good */
  async #beat(): Promise<boolean> {
    const { clock, share, facts, onAsked, onBeat, onLost } = this.#options;
    const token = this.#options.token();
    const sentMs = clock.monotonicMs();
    const values = [token, share.number, facts.host, facts.pid];
    const [answer] = await this.#line.rows<Answer>(BEAT, values);
    if (answer !== undefined) {
      this.#suspect = undefined;
      this.#answeredMs = sentMs;
      this.#standbys = answer.standbys;
      onBeat(answer.standbys);
      if (answer.isReady) this.#isReady();
      if (answer.isAsked && !this.#isAsked && answer.standbys.length > 0) {
        this.#isAsked = true;
        onAsked();
      }
      return false;
    }
    const [other] = await this.#line.rows<Other>(OTHER, [token, share.number, share.of]);
    if (other === undefined) return false;
    if (this.#suspect !== token) {
      this.#suspect = token;
      return false;
    }
    if (!this.#stopping.signal.aborted) onLost(holderText(other));
    return true;
  }
}
