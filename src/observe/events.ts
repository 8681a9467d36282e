/**
 * Every event of the domain that operators can see, in one interface. One function an event: its
 * implementation writes the log line *and* moves the metric, so that neither can be forgotten.
 * Rooms are handed a {@link Telemetry} and know neither pino nor prom-client.
 */

import type { ClientEvents } from './exchange-events.js';

export type {
  BudgetState,
  ClientEvents,
  ClockDispute,
  RequestEnded,
  RequestOutcome,
} from './exchange-events.js';

export interface StoreEvents {
  /** One transaction committed. `rows` by table and outcome. */
  committed(event: {
    readonly durationMs: number;
    readonly batches: number;
    readonly rows: Readonly<Record<string, Readonly<Record<string, number>>>>;
  }): void;
  commitFailed(event: {
    readonly code: string;
    readonly message: string;
    readonly willRetry: boolean;
  }): void;
  /** A commit waits for a lock. `by` names who holds it. */
  commitBlocked(event: { readonly by: string; readonly waitedMs: number }): void;
  queueChanged(event: {
    readonly queue: string;
    readonly size: number;
    readonly limit: number;
  }): void;
  quarantined(event: {
    readonly endpoint: string;
    readonly reason: string;
    readonly count: number;
  }): void;
  partitionMade(event: { readonly table: string; readonly partition: string }): void;
  /** Partitions of a table were made up to here, exchange time. The lead is derived at each scrape. */
  partitionLead(event: { readonly table: string; readonly endMs: number }): void;
  /** Rows came late for a sealed partition, which is hot again for that. */
  partitionReopened(event: { readonly partition: string }): void;
  databaseState(event: { readonly up: boolean; readonly detail?: string }): void;
  /** A start waits for the database; logged again every ten seconds or so. */
  databaseAwaited(event: {
    readonly detail: string;
    readonly waitedMs: number;
    readonly limitMs: number;
  }): void;
  migrated(event: { readonly applied: readonly string[] }): void;
  embeddedPostgres(event: { readonly phase: string; readonly detail?: string }): void;
}

/** What becomes of partitions after their time. */
export interface SealingEvents {
  /** One partition was sealed, archived, restored or given up. */
  partitionChanged(event: {
    readonly table: string;
    readonly partition: string;
    readonly became: 'sealed' | 'archived' | 'restored' | 'expired';
    readonly rows: number | null;
  }): void;
  /** What is due could not be done, or not to one partition; it is tried again. */
  failed(event: { readonly code: string; readonly message: string }): void;
  /** How many partitions there are by state. */
  partitionsCounted(event: {
    readonly partitions: readonly {
      readonly table: string;
      readonly state: string;
      readonly count: number;
    }[];
  }): void;
}

export interface CollectEvents {
  /** Rows that arrived from the exchange, before anything is decided about them. */
  received(event: {
    readonly stream: string;
    readonly market: string;
    readonly count: number;
  }): void;
  /** What became of them. Over all outcomes the counts equal those received, less those in flight. */
  settled(event: {
    readonly stream: string;
    readonly market: string;
    readonly outcome:
      | 'stored'
      | 'updated'
      | 'duplicate'
      | 'conflict'
      | 'rejected'
      | 'unchanged'
      | 'lost';
    readonly count: number;
  }): void;
  /** Newest stored moment of a stream, exchange time. The lag is derived from it at each scrape. */
  progressed(event: {
    readonly stream: string;
    readonly market: string;
    readonly newestMs: number;
  }): void;
  pollFailed(event: {
    readonly stream: string;
    readonly market: string;
    readonly code: string;
    readonly message: string;
    readonly action: 'retry' | 'skip' | 'fatal';
  }): void;
  /** The newest trades of a market were asked for, and stored. */
  headPolled(event: {
    readonly stream: string;
    readonly market: string;
    /** Why then: told by the state feed or the tickers, asked for by the schedule, and so on. */
    readonly cause: 'pushed' | 'swept' | 'urgent' | 'floor' | 'spare';
    /** Time from the sign of a trade to the poll; undefined without a sign. */
    readonly waitMs: number | undefined;
    /** How old the new trades were once they were stored, exchange time. */
    readonly agesMs: readonly number[];
  }): void;
  /** A scheduled run found the one before still going, and was left out. */
  runSkipped(event: { readonly stream: string }): void;
  walkStepped(event: {
    readonly stream: string;
    readonly market: string;
    readonly pages: number;
    readonly connected: boolean;
  }): void;
  /** Streams whose coverage does not grow, as of now. */
  streamsStanding(event: {
    readonly streams: readonly {
      readonly kind: string;
      readonly market: string;
      readonly variant: number;
      readonly standingMs: number;
      readonly reason: string;
      readonly note: string;
    }[];
  }): void;
  /** The exchange began the ids of a market's trades anew. */
  idsBegunAnew(event: {
    readonly market: string;
    readonly firstId: number;
    readonly lastIdBefore: number;
    readonly atMs: number;
  }): void;
  /** Stored rows that later answers showed to be no trades went to quarantine. */
  tradesExposed(event: {
    readonly stream: string;
    readonly market: string;
    readonly count: number;
    readonly note: string;
  }): void;
  walkStalled(event: {
    readonly stream: string;
    readonly market: string;
    readonly detail: string;
  }): void;
  /**
   * A page of the newest trades lacks trades that another source shows: it is not claimed beyond its
   * rows. `isFirst`: the one before it was not held back.
   */
  historyStale(event: {
    readonly stream: string;
    readonly market: string;
    readonly source: 'states' | 'tickers' | 'history';
    /** Age of its newest row when the missing trade happened; null: it has no row. */
    readonly behindMs: number | null;
    readonly isFirst: boolean;
  }): void;
  /** How the server counts the offset of an endpoint; `before` when it was thought otherwise. */
  sinceModeSettled(event: {
    readonly endpoint: string;
    readonly mode: 'skip' | 'id';
    readonly before: 'skip' | 'id' | null;
  }): void;
  /** How many times the trades between two polls of a market would fit into a page. */
  historyHeadroom(event: {
    readonly stream: string;
    readonly market: string;
    readonly ratio: number;
  }): void;
  gapFound(event: {
    readonly stream: string;
    readonly market: string;
    readonly reason: string;
    readonly lengthMs: number;
  }): void;
  /**
   * The gaps of the whole archive as they are now; replaces the counts told before. Streams and
   * markets that are not named have none. Count and length are of open gaps, which may still be
   * filled; what nobody can fetch any more is told apart.
   */
  gapsCounted(event: {
    readonly gaps: readonly {
      readonly stream: string;
      readonly market: string;
      readonly count: number;
      readonly lengthMs: number;
      readonly unfillableMs: number;
    }[];
  }): void;
  marketsChanged(event: {
    readonly added: readonly string[];
    readonly removed: readonly string[];
    readonly changed: readonly string[];
  }): void;
  /** More markets are listed than may be collected, by so many; 0 when that is over. */
  marketsLeftOut(event: { readonly count: number; readonly max: number }): void;
  /** All markets that the settings name and the exchange does not list; `message` tells it in words. */
  marketsMissing(event: { readonly names: readonly string[]; readonly message: string }): void;
}

/** Trades held against candles, and what the ledger says of completeness. */
export interface VerifyEvents {
  /** Slots were judged for the first time; each mismatch among them is told by itself as well. */
  judged(event: {
    readonly market: string;
    readonly intervalS: number;
    readonly matches: number;
    readonly mismatches: number;
  }): void;
  /** The trades and the candle of a slot do not agree; both are fetched again. */
  mismatchFound(event: {
    readonly market: string;
    readonly intervalS: number;
    /** Begin of the slot. */
    readonly fromMs: number;
    readonly detail: string;
  }): void;
  /** What was found in the end, after all refetches that were needed or allowed. */
  mismatchSettled(event: {
    readonly market: string;
    readonly intervalS: number;
    readonly fromMs: number;
    readonly outcome: 'match' | 'mismatch';
    readonly tries: number;
    readonly detail: string;
  }): void;
  /** A round failed; the next one comes all the same. */
  failed(event: { readonly code: string; readonly message: string }): void;
  /** How complete the archive is now; replaces what was told before. */
  completenessCounted(event: {
    /** Covered part of what is expected, 0 to 1. */
    readonly coverage: readonly {
      readonly stream: string;
      readonly market: string;
      readonly ratio: number;
    }[];
    /** Open gaps, summed up over markets. */
    readonly openGaps: readonly {
      readonly stream: string;
      readonly reason: string;
      readonly lengthMs: number;
      /** Age of the oldest moment that is missing. */
      readonly oldestAgeMs: number;
    }[];
    readonly verdicts: readonly {
      readonly market: string;
      readonly intervalS: number;
      readonly mismatches: number;
      /** The exchange's time now minus the end of the newest verdict; null without one. */
      readonly lagMs: number | null;
    }[];
  }): void;
}

export interface ServerEvents {
  served(event: {
    readonly endpoint: string;
    readonly status: number;
    readonly durationMs: number;
  }): void;
  realtimeOpened(event: { readonly open: number }): void;
  realtimeClosed(event: { readonly open: number; readonly reason: string }): void;
  /** A request was not answered as it should be, by a fault of the server or what is behind it. */
  handlerFailed(event: {
    readonly endpoint: string;
    readonly code: string;
    readonly message: string;
    /** Where it went wrong; for the log alone. */
    readonly stack?: string;
  }): void;
}

/** Where a program writes for people. */
export type OutputName = 'stderr' | 'stdout';

export interface DaemonEvents {
  started(event: { readonly detail: Readonly<Record<string, string | number | boolean>> }): void;
  stopping(event: { readonly reason: string }): void;
  stopped(event: { readonly durationMs: number; readonly exitCode: number }): void;
  /** Lines that were not written, because too much waits for a reader already. */
  outputDropped(event: { readonly output: OutputName; readonly lines: number }): void;
  /** The reader is back, and has all that waited. */
  outputResumed(event: { readonly output: OutputName; readonly lines: number }): void;
  /** Something that needs a person's eye but stops nothing. */
  warned(event: { readonly code: string; readonly message: string }): void;
  failed(event: { readonly code: string; readonly message: string }): void;
}

export interface Telemetry {
  readonly client: ClientEvents;
  readonly store: StoreEvents;
  readonly collect: CollectEvents;
  readonly verify: VerifyEvents;
  readonly sealing: SealingEvents;
  readonly server: ServerEvents;
  readonly daemon: DaemonEvents;
}
