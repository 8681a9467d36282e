import type { RequestBudgetState } from '../kernel/budget.js';
import { isoMs } from '../kernel/timestamp.js';
import { COLLECT, SPOOL, VERIFY } from './collect-events.js';
import { event, type Failure, type Reports, wholeSeconds } from './entry.js';
import { closeReason, slug } from './labels.js';
import type { Level } from './logger.js';
import type { RequestOutcome } from './run-counts.js';

/**
 * Every event of the domain that operators can see: one table, in which each entry names the level and
 * text of its log line and the metrics that it moves, so that neither can be forgotten. Rooms are
 * handed a {@link Telemetry} and know neither pino nor prom-client.
 */

export type { RequestBudgetState as BudgetState, RequestOutcome };

/** One HTTP request, however it ended. */
export interface RequestEnded {
  /** Name of the endpoint, such as `depth`. */
  readonly endpoint: string;
  /** How it ended, as the metric of requests counts it. */
  readonly outcome: RequestOutcome;
  /** From sending to the end, milliseconds. */
  readonly durationMs: number;
  /** Size of the answer's body. */
  readonly bytes: number;
  /** Present on failure: the error's stable code and message. */
  readonly error?: { readonly code: string; readonly message: string };
}

/** Two courses of the exchange's time that answers speak for. UNIX milliseconds. */
export interface ClockDispute {
  /** Now, by the course in use before. */
  readonly fromMs: number;
  /** Now, by the answers that contradict it. */
  readonly toMs: number;
  /** Share of the last answers that do, 0 to 1. */
  readonly share: number;
  /** True if they are followed from now on. */
  readonly isFollowed: boolean;
}

/** Events of a client, for logs and metrics. Written out, because users of the package report to their own. */
export interface ClientEvents {
  /** An HTTP request ended, well or not. */
  requestEnded(event: RequestEnded): void;
  /** The request budget changed. */
  budgetChanged(event: RequestBudgetState): void;
  /** The exchange asked us to wait (429, Retry-After, exhausted headers). */
  budgetPaused(event: { readonly reason: string; readonly waitMs: number }): void;
  /** A request that fills a gap went ahead of so many others that wait for the budget: they ask for all of it. */
  budgetShared(event: { readonly waiting: number }): void;
  /** Exchange time minus this machine's time, and how fast it runs (1 is real time). */
  exchangeClock(event: { readonly offsetMs: number; readonly pace: number }): void;
  /** Answers contradict the course of the exchange's time that is in use. */
  exchangeClockDisputed(event: ClockDispute): void;
  /**
   * A connection for states is open, and subscribed. `list 1` and so on stand for those of many markets, `*` and
   * 0 for the one of trades.
   */
  socketOpened(event: { readonly market: string; readonly periodS: number }): void;
  /** A connection for states ended: WebSocket close code, reason, and how long it had lived. */
  socketClosed(event: {
    readonly market: string;
    readonly periodS: number;
    readonly code: number;
    readonly reason: string;
    readonly livedMs: number;
    /** Why no connection came about, where that is how it ended. */
    readonly detail?: string;
  }): void;
  /** The next connection for states is tried after this wait. */
  socketRetry(event: {
    readonly market: string;
    readonly periodS: number;
    readonly waitMs: number;
  }): void;
  /** A WebSocket frame came, and what became of it. */
  frameReceived(event: {
    readonly outcome: 'update' | 'response' | 'unrecognised' | 'dropped';
  }): void;
}

/** Fields of a client's event. */
type Of<Name extends keyof ClientEvents> = Parameters<ClientEvents[Name]>[0];

const CLIENT = {
  requestEnded: event<Of<'requestEnded'>>({
    level: (one) => (isFailure(one) ? 'warn' : 'debug'),
    text: (one) => (isFailure(one) ? 'request failed' : 'request ended'),
    flood: (one) =>
      isFailure(one)
        ? `request ${one.endpoint} ${one.outcome} ${one.error?.code ?? ''}`
        : undefined,
    fields: ({ error, ...fields }) =>
      error === undefined || fields.outcome === 'aborted'
        ? fields
        : { ...fields, code: error.code, error: error.message },
    moves: {
      ...{ requests_total: 1, request_duration_seconds: 'durationMs' },
      response_bytes_total: 'bytes',
    },
    record: ({ counts, logger }, { endpoint, outcome, error }) => {
      const message = error === undefined ? outcome : logger.redact(error.message);
      counts.requestEnded(endpoint, outcome, message);
    },
  }),
  budgetChanged: event<Of<'budgetChanged'>>({
    level: 'trace',
    text: 'request budget',
    moves: {
      request_budget_rate: 'ratePerS',
      request_budget_tokens: 'tokens',
      request_budget_waiting: 'waiting',
    },
  }),
  budgetPaused: event<Of<'budgetPaused'>>({
    level: 'warn',
    text: 'exchange asks to wait; requests paused',
    flood: ({ reason }) => `pause ${slug(reason)}`,
    moves: { request_budget_pauses_total: 1, request_budget_pause_seconds_total: 'waitMs' },
  }),
  budgetShared: event<Of<'budgetShared'>>({
    level: 'trace',
    text: 'request for a gap sent ahead of others',
    moves: { request_budget_shared_total: 1 },
  }),
  exchangeClock: event<Of<'exchangeClock'>>({
    level: 'debug',
    text: "exchange's clock",
    moves: { exchange_clock_offset_seconds: 'offsetMs', exchange_clock_pace: 'pace' },
  }),
  exchangeClockDisputed: event<Of<'exchangeClockDisputed'>, 'outcome'>({
    level: 'warn',
    text: ({ isFollowed }) =>
      isFollowed
        ? 'exchange time jumped; following it, coverage beyond it revoked'
        : 'responses contradict the exchange time; covering up to the earlier one',
    flood: ({ isFollowed }) => (isFollowed ? undefined : 'clock disputed'),
    fields: ({ fromMs, toMs, share }) => ({
      ...{ from: isoMs(fromMs), to: isoMs(toMs), seconds: (toMs - fromMs) / 1000, share },
    }),
    labels: ({ isFollowed }) => ({ outcome: isFollowed ? 'followed' : 'held' }),
    moves: { exchange_clock_disputes_total: 1 },
  }),
  socketOpened: event<Of<'socketOpened'>>({
    level: 'debug',
    text: 'real-time connection opened',
    moves: { realtime_connections_opened_total: 1 },
    record({ metrics, counts }, { market, periodS }) {
      counts.openSockets.add(`${market} ${periodS}`);
      metrics.move('realtime_connections', counts.openSockets.size);
    },
  }),
  socketClosed: event<Of<'socketClosed'>>({
    level: ({ code, reason }) =>
      /^(stopped|normal)$/.test(closeReason(code, reason)) ? 'debug' : 'warn',
    text: 'real-time connection closed',
    flood: ({ code, reason }) => `socket ${closeReason(code, reason)}`,
    fields: ({ market, periodS, code, ...rest }) => ({ market, periodS, closeCode: code, ...rest }),
    labels: ({ code, reason }) => ({ reason: closeReason(code, reason) }),
    moves: { realtime_connections_closed_total: 1 },
    record({ metrics, counts }, { market, periodS, livedMs }) {
      if (counts.openSockets.delete(`${market} ${periodS}`)) {
        metrics.move('realtime_connection_lifetime_seconds', livedMs / 1000);
      }
      metrics.move('realtime_connections', counts.openSockets.size);
    },
  }),
  socketRetry: event<Of<'socketRetry'>>({
    level: 'debug',
    text: 'real-time reconnect scheduled',
    moves: { realtime_reconnects_total: 1 },
  }),
  frameReceived: event<Of<'frameReceived'>>({
    level: ({ outcome }) => (isUnused(outcome) ? 'warn' : 'trace'),
    text: ({ outcome }) => UNUSED[outcome] ?? 'real-time frame',
    flood: ({ outcome }) => (isUnused(outcome) ? `frame ${outcome}` : undefined),
    moves: { realtime_frames_total: 1 },
  }),
};

function isFailure({ error, outcome }: RequestEnded): boolean {
  return error !== undefined && outcome !== 'aborted';
}

/** Reasons for ignored frames. */
const UNUSED: Readonly<Record<string, string>> = {
  dropped: 'ignored frame: unknown market or request',
  unrecognised: 'ignored frame: unknown message',
};

const isUnused = (outcome: string): boolean => Object.hasOwn(UNUSED, outcome);

const EMBEDDED_LEVELS: Readonly<Record<string, Level>> = {
  ...{ failed: 'error', lost: 'error', not_started: 'warn' },
};

/** The archive. Commits are debug; what changes what an operator can rely on is info or worse. */
const STORE = {
  /** One transaction committed. `rows` by table and outcome. */
  committed: event<{
    durationMs: number;
    batches: number;
    rows: Readonly<Record<string, Readonly<Record<string, number>>>>;
  }>({
    level: 'debug',
    text: 'committed',
    moves: { commits_total: 1, commit_duration_seconds: 'durationMs', commit_batches: 'batches' },
    record({ metrics, clock, counts }, { rows }) {
      counts.committed();
      metrics.move('last_commit_timestamp_seconds', clock.wallMs() / 1000);
      for (const [table, outcomes] of Object.entries(rows)) {
        for (const [outcome, count] of Object.entries(outcomes)) {
          metrics.move('archive_rows_total', count, { table, outcome });
        }
      }
    },
  }),
  commitFailed: event<Failure & { willRetry: boolean }, 'retried'>({
    level: ({ willRetry }) => (willRetry ? 'warn' : 'error'),
    text: ({ willRetry }) => (willRetry ? 'commit failed, will retry' : 'commit failed'),
    flood: ({ code, willRetry }) => `commit ${code} ${willRetry}`,
    fields: ({ code, message }) => ({ code, error: message }),
    labels: ({ willRetry }) => ({ retried: String(willRetry) }),
    moves: { commit_failures_total: 1 },
  }),
  /** A commit waits for a lock. `by` names who holds it. */
  commitBlocked: event<{ by: string; waitedMs: number }>({
    level: 'warn',
    text: 'commit waits for a lock',
    flood: () => 'blocked',
    fields: ({ by, waitedMs }) => ({ heldBy: by, waitedS: wholeSeconds(waitedMs) }),
    moves: { commits_blocked_total: 1 },
  }),
  queueChanged: event<{ queue: string; size: number; limit: number }>({
    level: 'trace',
    text: 'queue',
    moves: { queue_items: 'size', queue_limit_items: 'limit' },
  }),
  quarantined: event<{
    endpoint: string;
    reason: string;
    count: number;
  }>({
    level: 'warn',
    text: 'data refused; kept in quarantine',
    flood: ({ endpoint, reason }) => `quarantine ${endpoint} ${slug(reason)}`,
    moves: { quarantined_total: 'count' },
  }),
  partitionMade: event<{ table: string; partition: string }>({
    level: 'debug',
    text: 'partition made',
    moves: { partitions_made_total: 1 },
  }),
  /** Partitions of a table were made up to here, exchange time. The lead is derived at each scrape. */
  partitionLead: event<{ table: string; endMs: number }>({
    level: 'trace',
    text: 'partitions reach ahead',
    record: ({ partitionEnds }, { table, endMs }) => partitionEnds.set(table, endMs),
  }),
  /** Rows came late for a sealed partition, which is hot again for that. */
  partitionReopened: event<{ partition: string }, 'table'>({
    level: 'warn',
    text: 'late rows: sealed partition opened again',
    labels: ({ partition }) => ({ table: partition.replace(/_\d+$/, '') }),
    moves: { partitions_reopened_total: 1 },
  }),
  /** The database is older than it was left, or another one. */
  databaseWentBack: event<{ acknowledged: number; found: number; why: string }>({
    level: 'error',
    text: 'database lacks confirmed commits; collecting again from stored data',
    moves: { database_went_back_total: 1 },
  }),
  databaseState: event<{ up: boolean; detail?: string }>({
    level: ({ up }, { wasUp }) => (up === wasUp ? undefined : up ? 'info' : 'error'),
    text: ({ up }) => (up ? 'database writable' : 'database not writable'),
    fields: ({ detail }) => (detail === undefined ? {} : { detail }),
    record(recorder, { up }) {
      recorder.metrics.move('database_up', up ? 1 : 0);
      if (up === recorder.wasUp) return;
      recorder.wasUp = up;
      recorder.metrics.move('database_state_changes_total', 1, { state: up ? 'up' : 'down' });
    },
  }),
  /** Rows that the archive accepts, and space left on the disks that hold it. */
  spaceMeasured: event<{
    databaseBytes: number;
    coldBytes: number;
    disks: readonly { directory: 'data' | 'cold'; freeBytes: number; sizeBytes: number }[];
  }>({
    level: 'debug',
    text: 'space measured',
    moves: { database_bytes: 'databaseBytes', cold_file_bytes: 'coldBytes' },
    record({ metrics }, { disks }) {
      for (const { directory, freeBytes, sizeBytes } of disks) {
        metrics.move('disk_free_bytes', freeBytes, { directory });
        metrics.move('disk_size_bytes', sizeBytes, { directory });
      }
    },
  }),
  /** A start waits for the database; logged again every ten seconds or so. */
  databaseAwaited: event<{
    detail: string;
    waitedMs: number;
    limitMs: number;
  }>({
    level: 'warn',
    text: 'waiting for the database',
    fields: ({ detail, waitedMs, limitMs }) => ({
      ...{ detail, waitedS: wholeSeconds(waitedMs), atMostS: wholeSeconds(limitMs) },
    }),
    moves: { database_up: 0 },
    record(recorder) {
      recorder.wasUp = false;
    },
  }),
  migrated: event<{ applied: readonly string[] }>({
    level: ({ applied }) => (applied.length > 0 ? 'info' : 'debug'),
    text: ({ applied }) =>
      applied.length > 0 ? 'schema brought up to date' : 'schema is up to date',
    fields: ({ applied }) => (applied.length > 0 ? { applied } : {}),
    moves: { migrations_applied_total: ({ applied }) => applied.length },
  }),
  ...SPOOL,
  embeddedPostgres: event<{ phase: string; detail?: string }>({
    level: ({ phase }) => EMBEDDED_LEVELS[slug(phase)] ?? 'info',
    text: ({ phase }) => `embedded Postgres: ${phase}`,
    fields: ({ detail }) => (detail === undefined ? {} : { detail }),
    moves: { embedded_postgres_phases_total: 1 },
  }),
};

/** Life of partitions after their time. */
const SEALING = {
  /** One partition was sealed, archived, restored or given up. */
  partitionChanged: event<{
    table: string;
    partition: string;
    became: 'sealed' | 'archived' | 'restored' | 'expired';
    rows: number | null;
  }>({
    level: 'info',
    text: ({ became }) => `partition ${became}`,
    fields: ({ table, partition, rows }) => ({ table, partition, rows }),
    moves: { partition_changes_total: 1 },
  }),
  /** A due step failed, of all or of one partition; it is retried. */
  failed: event<Failure>({
    level: 'warn',
    text: 'sealing, archiving or expiry of a partition failed, will retry',
    flood: ({ code }) => `sealing ${code}`,
    fields: ({ code, message }) => ({ code, error: message }),
    moves: { sealing_failures_total: 1 },
  }),
  /** All that is due was looked at once; `codes` of what could not be done. */
  roundEnded: event<{ codes: readonly string[] }>({
    level: 'trace',
    text: 'round of sealing done',
    record({ metrics }, { codes }) {
      metrics.reset('sealing_failing');
      for (const code of codes) metrics.raise('sealing_failing', 1, { code });
    },
  }),
  /** How many partitions there are by state. */
  partitionsCounted: event<{
    partitions: readonly {
      table: string;
      state: string;
      count: number;
    }[];
  }>({
    level: 'debug',
    text: 'partitions counted',
    fields: ({ partitions }) => ({ kinds: partitions.length }),
    record({ metrics }, { partitions }) {
      metrics.reset('partitions');
      for (const { table, state, count } of partitions) {
        metrics.move('partitions', count, { table, state });
      }
    },
  }),
};

/** The contract served by ourselves: the sandbox, or a replay. */
const SERVER = {
  served: event<{
    endpoint: string;
    status: number;
    durationMs: number;
  }>({
    level: 'trace',
    text: 'served',
    labels: ({ status }) => {
      const isStatus = Number.isInteger(status) && status >= 100 && status <= 599;
      return { status: isStatus ? String(status) : 'other' };
    },
    moves: { served_requests_total: 1, served_request_duration_seconds: 'durationMs' },
  }),
  realtimeOpened: event<{ open: number }>({
    level: 'trace',
    text: 'real-time client connected',
    moves: { served_realtime_connections: 'open' },
  }),
  realtimeClosed: event<{ open: number; reason: string }>({
    level: 'trace',
    text: 'real-time client left',
    moves: { served_realtime_connections: 'open', served_realtime_closed_total: 1 },
  }),
  /** A request was not answered as it should be, by a fault of the server or what is behind it. */
  handlerFailed: event<
    Failure & {
      endpoint: string;
      /** Place of the failure; for the log alone. */
      stack?: string;
    }
  >({
    level: 'error',
    text: ({ message }) => `a request could not be answered: ${message}`,
    flood: ({ endpoint, code }) => `handler ${endpoint} ${code}`,
    fields: ({ message: _, ...fields }) => fields,
    moves: { served_failures_total: 1 },
  }),
};

/** Outputs of a program for people. */
export type OutputName = 'stderr' | 'stdout';
/** Lines that were not written, because too much waited for a reader already. */
interface LinesDropped {
  readonly output: OutputName;
  readonly lines: number;
}

/** The daemon's own life. */
const DAEMON = {
  started: event<{ detail: Readonly<Record<string, string | number | boolean>> }, 'phase'>({
    level: 'info',
    text: 'started',
    fields: ({ detail }) => detail,
    labels: () => ({ phase: 'started' }),
    moves: { lifecycle_total: 1 },
  }),
  stopping: event<{ reason: string }, 'phase'>({
    level: 'info',
    text: 'stopping',
    labels: () => ({ phase: 'stopping' }),
    moves: { lifecycle_total: 1 },
  }),
  stopped: event<{ durationMs: number; exitCode: number }, 'phase'>({
    level: 'info',
    text: 'stopped',
    labels: () => ({ phase: 'stopped' }),
    moves: { lifecycle_total: 1, shutdown_duration_seconds: 'durationMs' },
  }),
  /** It stands by for another daemon, or has taken the archive: at its start, or from one that was `free` or `silent`. */
  roleChanged: event<{
    role: 'standby' | 'holder';
    cause: 'start' | 'held' | 'free' | 'silent';
    heldBy?: string;
    waitedMs: number;
  }>({
    level: 'info',
    text: ({ role }) =>
      role === 'holder' ? 'archive taken; collecting' : 'standing by; another daemon collects',
    fields: ({ waitedMs, role: _, ...fields }) => ({ ...fields, waitedS: wholeSeconds(waitedMs) }),
    record({ metrics }, { role, cause }) {
      metrics.move('archive_held', role === 'holder' ? 1 : 0);
      if (cause === 'free' || cause === 'silent') metrics.move('takeovers_total', 1, { cause });
    },
  }),
  /** A beat of the holder was answered. */
  beatAnswered: event<{ standbys: number }>({
    level: 'trace',
    text: 'beat answered',
    moves: { standbys: 'standbys' },
  }),
  holdLost: event<{ heldBy: string }>({
    level: 'error',
    text: 'another daemon took the archive; standing by',
    moves: { holds_lost_total: 1 },
  }),
  outputDropped: event<LinesDropped>({
    // The log cannot report that about itself.
    level: ({ output }) => (output === 'stderr' ? undefined : 'warn'),
    text: ({ output }) => `${output} not read; lines dropped`,
    flood: ({ output }) => `dropped ${output}`,
    fields: () => ({}),
    moves: { output_lines_dropped_total: 'lines' },
  }),
  /** The reader is back, and has all that waited. */
  outputResumed: event<LinesDropped, 'code'>({
    level: 'warn',
    text: ({ output }) => `${output} was not read for a while`,
    fields: ({ lines }) => ({ droppedLines: lines }),
    labels: ({ output }) => ({ code: `${output}_unread` }),
    moves: { warnings_total: 1 },
  }),
  /** Something that needs a person's eye but stops nothing. */
  warned: event<Failure>({
    level: 'warn',
    text: ({ message }) => message,
    flood: ({ code }) => `warned ${code}`,
    fields: ({ code }) => ({ code }),
    moves: { warnings_total: 1 },
  }),
  failed: event<Failure>({
    level: 'error',
    text: ({ message }) => message,
    fields: ({ code }) => ({ code }),
    moves: { failures_total: 1 },
  }),
  /** A receiver of notices took one; `checks` names its changes. */
  noticeSent: event<{ checks: readonly string[] }, 'outcome'>({
    level: 'info',
    text: 'notice sent',
    labels: () => ({ outcome: 'sent' }),
    moves: { notices_total: 1 },
  }),
  /** It did not; the notice is sent again. */
  noticeFailed: event<Failure, 'outcome'>({
    level: 'warn',
    text: 'notice not sent, will retry',
    flood: ({ code }) => `notice ${code}`,
    fields: ({ code, message }) => ({ code, error: message }),
    labels: () => ({ outcome: 'failed' }),
    moves: { notices_total: 1 },
  }),
  /** A request to the console was answered. `endpoint` is one of our names. */
  consoleAnswered: event<{ endpoint: string; status: number }>({
    level: 'trace',
    text: 'console answered',
    labels: ({ status }) => ({ status: String(status) }),
    moves: { console_requests_total: 1 },
  }),
  /** A token was typed or sent, and was right, wrong, or not looked at after too many wrong ones. */
  loginTried: event<{ outcome: 'ok' | 'wrong' | 'limited' }>({
    level: ({ outcome }) => (outcome === 'ok' ? 'info' : 'warn'),
    text: ({ outcome }) => (outcome === 'ok' ? 'login to the console' : 'login refused'),
    flood: ({ outcome }) => `login ${outcome}`,
    moves: { console_logins_total: 1 },
  }),
};

/** The endpoint of archived partitions, which foreign tables of Postgres read. */
const SERVE = {
  /** Rows of a FETCH were sent. */
  rowsSent: event<{ rows: number; durationMs: number }>({
    level: 'trace',
    text: 'archived rows sent',
    moves: {
      archived_rows_sent_total: 'rows',
      archived_fetches_total: 1,
      archived_fetch_seconds_total: 'durationMs',
    },
  }),
  /** A statement got an error; the connection goes on. */
  statementRefused: event<{ sqlstate: string; message: string }, 'code'>({
    level: 'warn',
    text: 'statement over archived rows failed',
    flood: ({ sqlstate, message }) => `serve ${sqlstate} ${slug(message)}`,
    labels: ({ sqlstate }) => ({ code: sqlstate }),
    moves: { archived_failures_total: 1 },
  }),
  /** A connection was ended with an error. */
  connectionEnded: event<{ sqlstate: string; message: string }, 'code'>({
    level: 'warn',
    text: 'connection for archived rows ended',
    flood: ({ sqlstate }) => `serve connection ${sqlstate}`,
    labels: ({ sqlstate }) => ({ code: sqlstate }),
    moves: { archived_failures_total: 1 },
  }),
};

/** The table, by the room that reports. */
export const EVENTS = {
  ...{ client: CLIENT, store: STORE, collect: COLLECT, verify: VERIFY, sealing: SEALING },
  ...{ server: SERVER, serve: SERVE, daemon: DAEMON },
};

export type StoreEvents = Reports<typeof STORE>;
export type CollectEvents = Reports<typeof COLLECT>;
export type VerifyEvents = Reports<typeof VERIFY>;
export type ServerEvents = Reports<typeof SERVER>;
export type ServeEvents = Reports<typeof SERVE>;
export type DaemonEvents = Reports<typeof DAEMON>;
export type Telemetry = { readonly [S in keyof typeof EVENTS]: Reports<(typeof EVENTS)[S]> };

function silent<S extends object>(section: S): Reports<S> {
  const names = Object.keys(section);
  return Object.fromEntries(names.map((name) => [name, () => undefined])) as unknown as Reports<S>;
}

/** Telemetry without a consumer: the library's default. */
export const silentClientEvents = silent(CLIENT);
/** Telemetry of an archive. */
export const silentStoreEvents = silent(STORE);
