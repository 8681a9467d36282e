import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { createVerifyMetrics } from './verify-metrics.js';

/** From a local answer to a request at its deadline. */
const LATENCY_BUCKETS_S = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
/** From a commit on a fast disk to one behind a lock. */
const COMMIT_BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 30];
/** From a connection that is refused at once to one that lives for days. */
const LIFETIME_BUCKETS_S = [1, 10, 60, 300, 1800, 7200, 43_200, 172_800];
/** From at once to the longest schedule that makes sense. */
const WAIT_BUCKETS_S = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800];
const BATCH_BUCKETS = [1, 2, 5, 10, 20, 50, 100, 200, 500];

/**
 * Every metric, in one struct on the given registry. Base units (seconds, bytes); labels are
 * bounded by whoever sets them.
 */
export function createMetrics(registry: Registry) {
  const registers = [registry];
  const counter = <const L extends string>(name: string, help: string, labelNames: readonly L[]) =>
    new Counter<L>({ name: `tapekeep_${name}`, help, labelNames: [...labelNames], registers });
  const gauge = <const L extends string>(name: string, help: string, labelNames: readonly L[]) =>
    new Gauge<L>({ name: `tapekeep_${name}`, help, labelNames: [...labelNames], registers });
  const histogram = <const L extends string>(
    name: string,
    help: string,
    buckets: number[],
    labelNames: readonly L[],
  ) =>
    new Histogram<L>({
      name: `tapekeep_${name}`,
      help,
      labelNames: [...labelNames],
      buckets,
      registers,
    });

  return {
    // The exchange over HTTP
    requests: counter('requests_total', 'HTTP requests to the exchange that ended, by outcome.', [
      'endpoint',
      'outcome',
    ]),
    requestSeconds: histogram(
      'request_duration_seconds',
      'Time from sending an HTTP request to the last byte of its answer, or to its failure.',
      LATENCY_BUCKETS_S,
      ['endpoint'],
    ),
    responseBytes: counter(
      'response_bytes_total',
      'Bytes of HTTP answers from the exchange, after decompression.',
      ['endpoint'],
    ),
    budgetRate: gauge(
      'request_budget_rate',
      'Requests a second that the shared budget allows at present.',
      [],
    ),
    budgetTokens: gauge('request_budget_tokens', 'Requests that could go out at once.', []),
    budgetWaiting: gauge('request_budget_waiting', 'Requests that wait for the budget.', []),
    budgetPauses: counter(
      'request_budget_pauses_total',
      'Times that the exchange made us wait, by what it used to say so.',
      ['reason'],
    ),
    budgetPauseSeconds: counter(
      'request_budget_pause_seconds_total',
      'Time that the exchange asked us to wait, summed up.',
      [],
    ),
    clockOffsetSeconds: gauge(
      'exchange_clock_offset_seconds',
      "The exchange's time minus this machine's time.",
      [],
    ),
    clockPace: gauge('exchange_clock_pace', "Speed of the exchange's time; 1 is real time.", []),

    clockDisputes: counter(
      'exchange_clock_disputes_total',
      "Times that answers contradicted the exchange's time: held against them, or followed.",
      ['outcome'],
    ),

    // The exchange over WebSocket
    socketsOpen: gauge('realtime_connections', 'WebSocket connections to the exchange, open.', []),
    socketsOpened: counter(
      'realtime_connections_opened_total',
      'WebSocket connections to the exchange that came to be.',
      [],
    ),
    socketsClosed: counter(
      'realtime_connections_closed_total',
      'WebSocket connections to the exchange that ended or never came to be, by reason.',
      ['reason'],
    ),
    socketSeconds: histogram(
      'realtime_connection_lifetime_seconds',
      'How long WebSocket connections to the exchange lasted.',
      LIFETIME_BUCKETS_S,
      [],
    ),
    socketRetries: counter(
      'realtime_reconnects_total',
      'Reconnects to the exchange that were scheduled after a connection ended or failed.',
      [],
    ),
    frames: counter('realtime_frames_total', 'WebSocket frames from the exchange, by outcome.', [
      'outcome',
    ]),

    // The archive
    commits: counter('commits_total', 'Transactions of received data that were committed.', []),
    commitSeconds: histogram(
      'commit_duration_seconds',
      'Time that a transaction of received data took, from its first statement to its commit.',
      COMMIT_BUCKETS_S,
      [],
    ),
    commitBatches: histogram(
      'commit_batches',
      'Batches that shared one transaction.',
      BATCH_BUCKETS,
      [],
    ),
    commitFailures: counter(
      'commit_failures_total',
      'Transactions that failed, by error code and whether they are repeated.',
      ['code', 'retried'],
    ),
    commitsBlocked: counter(
      'commits_blocked_total',
      'Times that a commit was seen to wait long for a lock; the log names its holder.',
      [],
    ),
    archiveRows: counter('archive_rows_total', 'Rows given to the archive, by what came of them.', [
      'table',
      'outcome',
    ]),
    queueItems: gauge('queue_items', 'Items in a queue.', ['queue']),
    queueLimit: gauge('queue_limit_items', 'Items that a queue holds at most.', ['queue']),
    quarantined: counter('quarantined_total', 'Pieces of data refused and set aside, by reason.', [
      'endpoint',
      'reason',
    ]),
    partitionsMade: counter('partitions_made_total', 'Partitions made.', ['table']),
    partitionsReopened: counter(
      'partitions_reopened_total',
      'Sealed partitions that were opened again because rows came late.',
      ['table'],
    ),
    partitionChanges: counter(
      'partition_changes_total',
      'Partitions that were sealed, archived, restored or given up.',
      ['table', 'became'],
    ),
    partitions: gauge('partitions', 'Partitions by state: hot, sealed, archived or expired.', [
      'table',
      'state',
    ]),
    sealingFailures: counter(
      'sealing_failures_total',
      'Rounds or partitions in which sealing, archiving or retention failed, by error code.',
      ['code'],
    ),
    partitionLeadSeconds: gauge(
      'partition_lead_seconds',
      'Time from now to the end of the last partition that exists.',
      ['table'],
    ),
    databaseUp: gauge('database_up', '1 while the database answers, else 0.', []),
    databaseChanges: counter(
      'database_state_changes_total',
      'Times that the database was found to answer again, or no longer.',
      ['state'],
    ),
    migrations: counter('migrations_applied_total', 'Schema migrations applied.', []),
    embeddedPhases: counter(
      'embedded_postgres_phases_total',
      'Phases that the embedded Postgres entered.',
      ['phase'],
    ),

    // Collecting
    rows: counter(
      'rows_total',
      'Rows from the exchange: outcome received as they arrive, then one other outcome for each.',
      ['stream', 'outcome'],
    ),
    rowsInFlight: gauge(
      'rows_in_flight',
      'Rows that were received and have no other outcome yet.',
      ['stream'],
    ),
    lagSeconds: gauge('lag_seconds', "The exchange's time now minus the newest stored moment.", [
      'stream',
      'market',
    ]),
    pollFailures: counter(
      'poll_failures_total',
      'Polls that failed, by error code and what follows (retry, skip, fatal).',
      ['stream', 'code', 'action'],
    ),
    headPolls: counter(
      'head_polls_total',
      'Polls of the newest trades, by cause: pushed and swept follow a sign of a trade, urgent a page that fills up, floor the schedule; spare ones use requests that nobody else needs.',
      ['stream', 'cause'],
    ),
    headWaitSeconds: histogram(
      'head_poll_wait_seconds',
      'Time from a sign of a trade to the poll that follows it.',
      WAIT_BUCKETS_S,
      ['stream'],
    ),
    tradeAgeSeconds: histogram(
      'trade_age_seconds',
      'Age of new trades once they are stored, in the time of the exchange.',
      WAIT_BUCKETS_S,
      [],
    ),
    runsSkipped: counter(
      'runs_skipped_total',
      'Scheduled runs left out because the one before was still going.',
      ['stream'],
    ),
    walks: counter(
      'walks_total',
      'Turns of walking back through history, by whether known ground was reached.',
      ['stream', 'connected'],
    ),
    walkPages: counter('walk_pages_total', 'Pages read while walking back through history.', [
      'stream',
    ]),
    walkStalls: counter('walk_stalls_total', 'Walks that stopped for lack of progress.', [
      'stream',
    ]),
    standingSeconds: gauge(
      'standing_seconds',
      'How long the coverage of a stream has not grown, beyond what is usual for it.',
      ['stream', 'market'],
    ),
    idEpochs: counter(
      'id_epochs_total',
      'Times that the exchange began the ids of trades anew.',
      [],
    ),
    tradesExposed: counter(
      'trades_exposed_total',
      'Stored rows that later answers showed to be no trades.',
      ['stream'],
    ),
    stalePages: counter(
      'stale_pages_total',
      'Pages of the newest trades that lacked trades which another source had shown.',
      ['stream', 'source'],
    ),
    sinceModes: counter(
      'since_modes_settled_total',
      'Times that it was found out how the exchange counts the offset of an endpoint.',
      ['endpoint', 'mode'],
    ),
    historyHeadroom: gauge(
      'history_headroom_ratio',
      'Trades that a page of history holds, over those that come between two polls; trades are at risk near 1.',
      ['stream', 'market'],
    ),
    gapsFound: counter('gaps_found_total', 'Gaps found, by reason.', ['stream', 'reason']),
    gapSecondsFound: counter('gap_seconds_found_total', 'Length of the gaps found, summed up.', [
      'stream',
    ]),
    openGaps: gauge('open_gaps', 'Gaps that are open now.', ['stream', 'market']),
    openGapSeconds: gauge('open_gap_seconds', 'Length of the gaps that are open now, summed up.', [
      'stream',
      'market',
    ]),
    unfillableGapSeconds: gauge(
      'unfillable_gap_seconds',
      'Length of the gaps that nothing can fill any more, summed up.',
      ['stream', 'market'],
    ),
    marketsLeftOut: gauge(
      'markets_left_out',
      'Markets that are listed and not collected, because there are more than streams.markets.max.',
      [],
    ),
    marketsMissing: gauge(
      'markets_not_listed',
      'Markets named in the setting "markets" that the exchange does not list at present.',
      [],
    ),
    marketChanges: counter(
      'market_changes_total',
      'Markets that were added to or removed from the exchange, or changed.',
      ['change'],
    ),

    ...createVerifyMetrics({ counter, gauge }),

    // Serving the contract (sandbox and replay)
    served: counter('served_requests_total', 'HTTP requests answered as an exchange.', [
      'endpoint',
      'status',
    ]),
    servedSeconds: histogram(
      'served_request_duration_seconds',
      'Time to answer an HTTP request as an exchange.',
      LATENCY_BUCKETS_S,
      ['endpoint'],
    ),
    servedFailures: counter(
      'served_failures_total',
      'Requests and real-time calls that failed by a fault of the server, by the code of the error.',
      ['endpoint', 'code'],
    ),
    servedRealtime: gauge(
      'served_realtime_connections',
      'WebSocket connections served as an exchange, open.',
      [],
    ),
    servedRealtimeClosed: counter(
      'served_realtime_closed_total',
      'WebSocket connections served as an exchange that ended, by reason.',
      ['reason'],
    ),

    // The program
    lifecycle: counter('lifecycle_total', 'Starts and stops of the daemon in this process.', [
      'phase',
    ]),
    shutdownSeconds: gauge('shutdown_duration_seconds', 'Time that the last stop took.', []),
    outputDropped: counter(
      'output_lines_dropped_total',
      'Lines of the log (stderr) or the summary (stdout) that were dropped, because nothing read them.',
      ['output'],
    ),
    warnings: counter('warnings_total', 'Warnings that need an eye but stop nothing.', ['code']),
    failures: counter('failures_total', 'Failures that stopped something.', ['code']),
  };
}

export type Metrics = ReturnType<typeof createMetrics>;
