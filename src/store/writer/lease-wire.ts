import type { Clock } from '../../kernel/clock.js';
import type { Share } from '../../model/share.js';
import type { ConnectionOptions } from '../address.js';
import { Connection, inStoreWords } from '../connection.js';

/**
 * Parts that the holder of the writer's lock and those that stand by have in common: times, and a connection that
 * nothing else can hold up.
 *
 * Times are of one monotonic clock each, and fit together: a holder that is silent stops its requests ({@link SILENT_MS})
 * before a standby takes the lock from it ({@link TAKE_MS}).
 */

/** Between two beats, and between two looks at them. */
export const BEAT_MS = 1_000;
/** Time between two beats while the lock is handed over. */
export const ASKED_BEAT_MS = 200;
/** A holder without an answered beat for so long sends no request any more. */
export const SILENT_MS = 4_000;
/** A beat that stays the same for so long has no holder behind it. */
export const TAKE_MS = 6_000;
/** A beat may still be counted as answered by its holder for so long after a standby saw it. */
export const QUIET_MS = SILENT_MS + 500;
/** A standby that was not seen for so long stands by no more. SQL, clock of the database. */
export const PRESENT = `interval '5 seconds'`;
/** Limit of one look or beat, connecting included. */
const LIMIT_MS = 2_000;

export interface LeaseOptions {
  readonly connection: ConnectionOptions;
  readonly clock: Clock;
  /** Each share of the markets has a lock and a beat of its own. */
  readonly share: Share;
}

/** Facts by which the others name a daemon. */
export interface DaemonFacts {
  readonly host: string;
  readonly pid: number;
  readonly version: string;
}

/** Machine of a holder, as its beat (`m`, joined by its token) says; null before its first. SQL. */
export const MACHINE = `m.host || ' (process ' || m.pid || ')' AS machine`;

/** Names the connection that holds the lock. */
export function holderText(holder: {
  readonly machine: string | null;
  readonly application: string | null;
  readonly heldBy: string | null;
}): string {
  const { machine, application, heldBy } = holder;
  return `${machine === null ? '' : `${machine}, `}application ${application}, user ${heldBy}`;
}

/** A connection of its own for short statements, opened again after each failure. */
export class OwnLine {
  readonly #options: ConnectionOptions;
  #connection: Connection | undefined;

  constructor({ connection, clock }: LeaseOptions) {
    const limits = { connectTimeoutMs: LIMIT_MS, statementTimeoutMs: LIMIT_MS };
    this.#options = { ...connection, clock, ...limits };
  }

  /** @throws {@link StoreError} within some seconds; the next call connects again */
  async rows<Row extends object>(sql: string, values: readonly unknown[]): Promise<Row[]> {
    try {
      if (this.#connection === undefined || this.#connection.isLost) {
        const use = { silenceMs: LIMIT_MS, explain: inStoreWords };
        this.#connection = await Connection.open(this.#options, use);
      }
      return await this.#connection.rows<Row>(sql, values);
    } catch (error) {
      this.#connection?.destroy();
      this.#connection = undefined;
      throw inStoreWords(error);
    }
  }

  async close(): Promise<void> {
    await this.#connection?.close();
  }
}
