import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { LabelLimit, slug } from './labels.js';

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
 * Every metric by name and labels, as Prometheus writes them, with its help. Base units (seconds,
 * bytes); the program's prefix comes before each name.
 */
const COUNTERS = {
  'requests_total{endpoint,outcome}': 'HTTP requests to the exchange, by outcome.',
  'response_bytes_total{endpoint}': 'Bytes of HTTP responses of the exchange, decompressed.',
  'request_budget_pauses_total{reason}': 'Pauses that the exchange asked for, by reason.',
  request_budget_pause_seconds_total: 'Sum of the pauses that the exchange asked for.',
  request_budget_shared_total:
    'Requests of the 10 % that is reserved for gaps and history under load.',
  'exchange_clock_disputes_total{outcome}':
    "Responses that contradicted the exchange's time, ignored or followed.",
  realtime_connections_opened_total: 'WebSocket connections to the exchange that were opened.',
  'realtime_connections_closed_total{reason}':
    'WebSocket connections to the exchange that closed or failed, by reason.',
  realtime_reconnects_total: 'Scheduled reconnects to the exchange.',
  'realtime_frames_total{outcome}': 'WebSocket frames from the exchange, by outcome.',
  commits_total: 'Committed transactions of received data.',
  'commit_failures_total{code,retried}':
    'Failed transactions, by error code and whether they are retried.',
  'spool_batches_total{outcome}':
    'Batches that were kept in the spool, stored from it, dropped at its bound or refused.',
  'spool_failures_total{code}': 'Failures of the spool, by error code.',
  spool_torn_bytes_total: 'Bytes at the end of files of the spool that were never confirmed.',
  commits_blocked_total: 'Commits that waited long for a lock; the log names its holder.',
  'takeovers_total{cause}':
    'Takeovers of the archive by cause: free: its holder ended; silent: its holder was ended.',
  holds_lost_total: 'Times that another daemon took the archive from this one.',
  database_went_back_total:
    'Times that the database lacked confirmed commits, so that collecting started again.',
  'archive_rows_total{table,outcome}': 'Rows given to the archive, by outcome.',
  'quarantined_total{endpoint,reason}': 'Refused pieces of data, by reason.',
  'partitions_made_total{table}': 'Created partitions.',
  'partitions_reopened_total{table}': 'Sealed partitions that late rows opened again.',
  'partition_changes_total{table,became}':
    'Partitions that were sealed, archived, restored or expired.',
  'sealing_failures_total{code}': 'Failures of sealing, archiving or retention, by error code.',
  'database_state_changes_total{state}': 'Times that the database became writable or not writable.',
  migrations_applied_total: 'Applied schema migrations.',
  'embedded_postgres_phases_total{phase}': 'Phases of the embedded Postgres.',
  'rows_received_total{stream}': 'Received rows.',
  'rows_total{stream,outcome}': 'Received rows by outcome; each has one.',
  'poll_failures_total{stream,code,action}':
    'Failed polls, by error code and action (retry, skip, fatal).',
  'head_polls_total{stream,cause}':
    'Polls of the newest trades by cause: pushed, swept: a sign of a trade; stored: rows to prove; urgent: a page that fills up; floor: the schedule; spare: unused requests.',
  'runs_skipped_total{stream}': 'Scheduled runs skipped because the previous one was in progress.',
  'schedules_missed_total{schedule}':
    'Schedules that missed two runs and were run by the watchdog.',
  'walks_total{stream,connected}':
    'Turns of walks through history, by whether covered time was reached.',
  'walk_pages_total{stream}': 'Pages of walks through history.',
  'walk_stalls_total{stream}': 'Walks that stopped for lack of progress.',
  id_epochs_total: 'Times that the exchange restarted its trade ids.',
  'trades_exposed_total{stream}': 'Stored rows that later responses showed to be no trades.',
  'stale_pages_total{stream,source}':
    'Pages of newest trades that lacked trades of another source.',
  'trade_feed_refuted_total{stream}':
    'Times that pushed trades contradicted a page, or each other.',
  'since_modes_settled_total{endpoint,mode}':
    'Endpoints whose way to count the offset was found out.',
  'gaps_found_total{stream,reason}': 'New gaps, by reason.',
  'gap_seconds_found_total{stream}': 'Length of new gaps.',
  'market_changes_total{change}': 'Markets that were listed, delisted or changed.',
  'candle_checks_total{outcome}':
    'Candles compared with stored trades for the first time, by outcome.',
  'mismatches_settled_total{outcome}': 'Mismatches after the last refetch, by outcome.',
  'verify_failures_total{code}': 'Failed rounds of verification, by error code.',
  'served_requests_total{endpoint,status}': 'HTTP requests served as an exchange.',
  'served_failures_total{endpoint,code}':
    'Requests and real-time calls that failed in the server, by error code.',
  'served_realtime_closed_total{reason}': 'Closed WebSocket connections of the server, by reason.',
  archived_fetches_total: 'Fetches of archived rows by Postgres.',
  archived_rows_sent_total: 'Archived rows sent to Postgres.',
  archived_fetch_seconds_total: 'Time spent on fetches of archived rows.',
  'archived_failures_total{code}':
    'Statements and connections over archived rows that failed, by SQLSTATE.',
  'console_requests_total{endpoint,status}': 'Requests to the console, by endpoint and status.',
  'console_logins_total{outcome}':
    'Tokens sent to the console: ok (by form), wrong, or limited: ignored after too many wrong ones.',
  'lifecycle_total{phase}': 'Starts and stops of the daemon in this process.',
  'output_lines_dropped_total{output}':
    'Dropped lines of log (stderr) or summary (stdout), because nobody read them.',
  'warnings_total{code}': 'Warnings that stop nothing.',
  'failures_total{code}': 'Failures that stopped something.',
  'notices_total{outcome}':
    'Notices to alerts.webhook, sent or failed; a failed one is sent again.',
} as const;

const GAUGES = {
  request_budget_rate: 'Current limit of requests a second.',
  request_budget_tokens: 'Requests that can be sent at once.',
  request_budget_waiting: 'Requests that wait for the budget.',
  exchange_clock_offset_seconds: "The exchange's time minus this machine's time.",
  exchange_clock_pace: "Speed of the exchange's time; 1 is real time.",
  realtime_connections: 'Open WebSocket connections to the exchange.',
  'queue_items{queue}': 'Items in a queue.',
  'queue_limit_items{queue}': 'Capacity of a queue.',
  'sealing_failing{code}':
    'Failures of the last round of sealing, archiving or retention, by error code.',
  'partitions{table,state}': 'Partitions by state: hot, sealed, archived or expired.',
  'partition_lead_seconds{table}': 'Time until the last existing partition ends.',
  'build_info{version,node}': 'Always 1; the labels name the versions of program and Node.',
  last_commit_timestamp_seconds:
    "UNIX time of the last commit, by this machine's clock; before the first, of the start.",
  database_bytes: 'Size of the database.',
  spool_keeping: '1 while new data goes to the spool, else 0.',
  spool_bytes: 'Bytes in the spool, which wait for the database.',
  spool_limit_bytes: 'Bytes that the spool may take (spool.maxBytes).',
  cold_file_bytes: 'Size of the cold files.',
  'disk_free_bytes{directory}':
    'Free disk space of a directory: data (dataDir) or cold (cold.dir).',
  'disk_size_bytes{directory}': 'Size of that disk.',
  archive_held: '1 while the process holds the archive and collects, 0 while it stands by.',
  standbys: 'Daemons that stand by, as the holder sees them.',
  shares_idle: 'Shares of the markets that no daemon collects.',
  database_up: '1 while the database is writable, else 0.',
  'rows_in_flight{stream}': 'Received rows without an outcome yet.',
  'lag_seconds{stream,market}': 'Age of the newest stored row, in exchange time.',
  'stretched_pace_seconds{stream}':
    'Time between two polls of a market where the budget is too small for the schedule.',
  'standing_seconds{stream,market}':
    'Time since the coverage of a stream advanced, beyond what is usual.',
  'history_headroom_ratio{stream,market}':
    'Trades that a page holds, divided by those between two polls; near 1 trades are at risk.',
  'open_gaps{stream,market}': 'Open gaps.',
  'open_gap_seconds{stream,market}': 'Length of open gaps.',
  'unfillable_gap_seconds{stream,market}':
    "Length of unfillable gaps within the exchange's history.",
  markets_left_out: 'Listed markets that are not collected, because there are too many.',
  markets_not_listed: 'Configured markets that the exchange does not list.',
  'coverage_ratio{stream,market}': 'Covered share of the expected time, 0 to 1.',
  'open_gap_seconds_by_reason{stream,reason}': 'Length of open gaps, by reason.',
  'oldest_open_gap_seconds{stream}': 'Age of the oldest open gap, in exchange time.',
  'mismatches{market,interval}': 'Candles that do not match the stored trades.',
  'verified_lag_seconds{market,interval}':
    'Age of the newest check result of listed markets, in exchange time.',
  served_realtime_connections: 'Open WebSocket connections of the server.',
  shutdown_duration_seconds: 'Duration of the last stop.',
} as const;

const HISTOGRAMS = {
  'request_duration_seconds{endpoint}': [
    'Time from sending an HTTP request to its complete response or failure.',
    LATENCY_BUCKETS_S,
  ],
  realtime_connection_lifetime_seconds: [
    'Lifetime of WebSocket connections to the exchange.',
    LIFETIME_BUCKETS_S,
  ],
  commit_duration_seconds: ['Duration of a transaction of received data.', COMMIT_BUCKETS_S],
  commit_batches: ['Batches in one transaction.', BATCH_BUCKETS],
  'head_poll_wait_seconds{stream}': ['Time from a sign of a trade to its poll.', WAIT_BUCKETS_S],
  trade_age_seconds: ['Age of new trades when stored, in exchange time.', WAIT_BUCKETS_S],
  'served_request_duration_seconds{endpoint}': [
    'Time to respond to an HTTP request as an exchange.',
    LATENCY_BUCKETS_S,
  ],
} as const;

/** Markets that have label values of their own. Past that, `other`. */
export const MARKET_LABELS_MAX = 2000;

/** How many values a label may have whose values come from outside. */
const LABEL_LIMITS = {
  ...{ market: MARKET_LABELS_MAX, stream: 32, endpoint: 64, code: 128, reason: 96, table: 32 },
  ...{ queue: 32, phase: 16, outcome: 64 },
} as const;
type LimitedLabel = keyof typeof LABEL_LIMITS;

type Split<L> = L extends `${infer A},${infer B}` ? A | Split<B> : L;
/** The labels of each metric of a group. */
type LabelsIn<T> = {
  [K in keyof T & string as K extends `${infer N}{${string}`
    ? N
    : K]: K extends `${string}{${infer L}}` ? Split<L> : never;
};
/** Every metric by its name, with its labels. */
export type MetricLabels = LabelsIn<typeof COUNTERS> &
  LabelsIn<typeof GAUGES> &
  LabelsIn<typeof HISTOGRAMS>;
export type MetricName = keyof MetricLabels;
type GaugeName = keyof LabelsIn<typeof GAUGES>;
/** The labels that a metric takes; no argument where it has none. */
type Labels<N extends MetricName> = [MetricLabels[N]] extends [never]
  ? []
  : [labels: Readonly<Record<MetricLabels[N] & string, string>>];

/** How a metric takes a value. */
interface Taker {
  readonly labelNames: readonly string[];
  take(labels: Readonly<Record<string, string>>, value: number): void;
}

/**
 * Counters that alerts watch, by the values that their labels are known to take: there from the start at 0,
 * since an increase from nothing to 1 is none to Prometheus.
 */
const FROM_ZERO = {
  takeovers_total: [{ cause: 'free' }, { cause: 'silent' }],
  notices_total: [{ outcome: 'sent' }, { outcome: 'failed' }],
  embedded_postgres_phases_total: [{ phase: 'lost' }],
  candle_checks_total: [{ outcome: 'match' }, { outcome: 'mismatch' }],
  mismatches_settled_total: [{ outcome: 'match' }, { outcome: 'mismatch' }],
  spool_batches_total: ['kept', 'stored', 'dropped', 'refused'].map((outcome) => ({ outcome })),
  output_lines_dropped_total: [{ output: 'stderr' }, { output: 'stdout' }],
  exchange_clock_disputes_total: [{ outcome: 'held' }, { outcome: 'followed' }],
  warnings_total: [{ code: 'log_closed' }, { code: 'output_closed' }],
  // Postgres: the disk is full, a permission is missing, the server is a standby.
  commit_failures_total: ['53100', '42501', '25006'].map((code) => ({ code, retried: 'false' })),
  sealing_failures_total: ['cold_disk_full', 'cold_mismatch', 'cold_damaged', 'cold_missing'].map(
    (code) => ({ code }),
  ),
} satisfies Partial<Record<MetricName, readonly Readonly<Record<string, string>>[]>>;

const NO_LABELS = {};

/** The metrics of one registry. Values of labels are bounded here. */
export class Metrics {
  readonly #takers = new Map<string, Taker>();
  readonly #gauges = new Map<string, Gauge>();
  readonly #limits = new Map(
    Object.entries(LABEL_LIMITS).map(([label, limit]) => [label, new LabelLimit(limit)]),
  );

  constructor(registry: Registry) {
    const made = (line: string, help: string) => {
      const [short = '', labels] = line.split(/[{}]/);
      const labelNames = labels?.split(',') ?? [];
      return { short, labelNames, name: `tapekeep_${short}`, help, registers: [registry] };
    };
    // Counts and durations only grow: a value below zero counts as zero.
    for (const [line, help] of Object.entries(COUNTERS)) {
      const { short, ...options } = made(line, help);
      const metric = new Counter(options);
      const take: Taker['take'] = (labels, value) => metric.inc(labels, Math.max(0, value));
      this.#takers.set(short, { labelNames: options.labelNames, take });
    }
    for (const [line, help] of Object.entries(GAUGES)) {
      const { short, ...options } = made(line, help);
      const metric = new Gauge(options);
      this.#gauges.set(short, metric);
      const take: Taker['take'] = (labels, value) => metric.set(labels, value);
      this.#takers.set(short, { labelNames: options.labelNames, take });
    }
    for (const [line, [help, buckets]] of Object.entries(HISTOGRAMS)) {
      const { short, ...options } = made(line, help);
      const metric = new Histogram({ ...options, buckets: [...buckets] });
      const take: Taker['take'] = (labels, value) => metric.observe(labels, Math.max(0, value));
      this.#takers.set(short, { labelNames: options.labelNames, take });
    }
  }

  /** Lets counters begin whose series are known beforehand. */
  begin(): void {
    for (const [name, series] of Object.entries(FROM_ZERO)) {
      for (const labels of series) this.moveOf(name as MetricName, 0, labels);
    }
  }

  /** Names of the labels, by name of the metric. */
  get labelNames(): ReadonlyMap<string, readonly string[]> {
    return new Map([...this.#takers].map(([name, one]) => [`tapekeep_${name}`, one.labelNames]));
  }

  /** The value of a label that stands for a name from outside. */
  label(label: LimitedLabel, name: string): string {
    return this.#limits.get(label)?.admit(name) ?? name;
  }

  /** Frees the place of a market that will not come again. */
  forgetMarket(market: string): void {
    this.#limits.get('market')?.forget(market);
    this.#gauges.get('history_headroom_ratio')?.remove({ stream: 'trades', market });
  }

  /** Adds to a counter, sets a gauge, or notes a figure in a histogram. */
  move<N extends MetricName>(name: N, value: number, ...labels: Labels<N>): void {
    this.moveOf(name, value, labels[0] ?? NO_LABELS);
  }

  /** Moves a metric with labels from among the values of an event. */
  moveOf(name: MetricName, value: number, values: Readonly<Record<string, unknown>>): void {
    const taker = this.#takers.get(name);
    taker?.take(this.#labelsOf(taker.labelNames, values), value);
  }

  /** Adds to a gauge: several things outside share one label value here. */
  raise<N extends GaugeName>(name: N, by: number, ...labels: Labels<N>): void {
    const values = labels[0] ?? NO_LABELS;
    this.#gauges.get(name)?.inc(this.#labelsOf(Object.keys(values), values), by);
  }

  /** Drops all series of gauges, before they are reported anew. */
  reset(...names: readonly GaugeName[]): void {
    for (const name of names) this.#gauges.get(name)?.reset();
  }

  #labelsOf(names: readonly string[], values: Readonly<Record<string, unknown>>) {
    if (names.length === 0) return NO_LABELS;
    return Object.fromEntries(
      names.map((name) => {
        const value = String(values[name]);
        const shown = name === 'reason' || name === 'phase' ? slug(value) : value;
        return [name, this.#limits.get(name)?.admit(shown) ?? shown];
      }),
    );
  }
}
