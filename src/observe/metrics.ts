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
  'requests_total{endpoint,outcome}': 'HTTP requests to the exchange that ended, by outcome.',
  'response_bytes_total{endpoint}': 'Bytes of HTTP answers from the exchange, after decompression.',
  'request_budget_pauses_total{reason}':
    'Times that the exchange made us wait, by what it used to say so.',
  request_budget_pause_seconds_total: 'Time that the exchange asked us to wait, summed up.',
  request_budget_shared_total:
    'Requests for candles and history, and second looks, that went out ahead of others by the tenth that is kept for them; the others ask for all of the budget.',
  'exchange_clock_disputes_total{outcome}':
    "Times that answers contradicted the exchange's time: held against them, or followed.",
  realtime_connections_opened_total: 'WebSocket connections to the exchange that came to be.',
  'realtime_connections_closed_total{reason}':
    'WebSocket connections to the exchange that ended or never came to be, by reason.',
  realtime_reconnects_total:
    'Reconnects to the exchange that were scheduled after a connection ended or failed.',
  'realtime_frames_total{outcome}': 'WebSocket frames from the exchange, by outcome.',
  commits_total: 'Transactions of received data that were committed.',
  'commit_failures_total{code,retried}':
    'Transactions that failed, by error code and whether they are repeated.',
  commits_blocked_total:
    'Times that a commit was seen to wait long for a lock; the log names its holder.',
  database_went_back_total:
    'Times that the database was older than it was left, or another one, so that collecting began again from it.',
  'archive_rows_total{table,outcome}': 'Rows given to the archive, by what came of them.',
  'quarantined_total{endpoint,reason}': 'Pieces of data refused and set aside, by reason.',
  'partitions_made_total{table}': 'Partitions made.',
  'partitions_reopened_total{table}':
    'Sealed partitions that were opened again because rows came late.',
  'partition_changes_total{table,became}':
    'Partitions that were sealed, archived, restored or given up.',
  'sealing_failures_total{code}':
    'Rounds or partitions in which sealing, archiving or retention failed, by error code.',
  'database_state_changes_total{state}':
    'Times that the database was found to take rows again, or no longer.',
  migrations_applied_total: 'Schema migrations applied.',
  'embedded_postgres_phases_total{phase}': 'Phases that the embedded Postgres entered.',
  'rows_received_total{stream}': 'Rows from the exchange, as they arrive.',
  'rows_total{stream,outcome}':
    'Rows from the exchange by what came of them, one outcome for each.',
  'poll_failures_total{stream,code,action}':
    'Polls that failed, by error code and what follows (retry, skip, fatal).',
  'head_polls_total{stream,cause}':
    'Polls of the newest trades, by cause: pushed and swept follow a sign of a trade, urgent a page that fills up, floor the schedule; spare ones use requests that no other work needs, or that are kept for the filling of gaps.',
  'runs_skipped_total{stream}': 'Scheduled runs left out because the one before was still going.',
  'schedules_missed_total{schedule}':
    'Times that a schedule missed two runs in a row and was run by the watchdog, by its setting.',
  'walks_total{stream,connected}':
    'Turns of walking back through history, by whether known ground was reached.',
  'walk_pages_total{stream}': 'Pages read while walking back through history.',
  'walk_stalls_total{stream}': 'Walks that stopped for lack of progress.',
  id_epochs_total: 'Times that the exchange began the ids of trades anew.',
  'trades_exposed_total{stream}': 'Stored rows that later answers showed to be no trades.',
  'stale_pages_total{stream,source}':
    'Pages of the newest trades that lacked trades which another source had shown.',
  'trade_feed_refuted_total{stream}':
    'Times that the trades that were pushed contradicted a page of history, or each other.',
  'since_modes_settled_total{endpoint,mode}':
    'Times that it was found out how the exchange counts the offset of an endpoint.',
  'gaps_found_total{stream,reason}': 'Gaps found, by reason.',
  'gap_seconds_found_total{stream}': 'Length of the gaps found, summed up.',
  'market_changes_total{change}':
    'Markets that were added to or removed from the exchange, or changed.',
  'candle_checks_total{outcome}':
    'Candles that were held against the stored trades for the first time, by outcome.',
  'mismatches_settled_total{outcome}':
    'Mismatches that were fetched again as often as needed or allowed, by what was found.',
  'verify_failures_total{code}':
    'Rounds of the continuous verification that failed, by error code.',
  'served_requests_total{endpoint,status}': 'HTTP requests answered as an exchange.',
  'served_failures_total{endpoint,code}':
    'Requests and real-time calls that failed by a fault of the server, by the code of the error.',
  'served_realtime_closed_total{reason}':
    'WebSocket connections served as an exchange that ended, by reason.',
  'lifecycle_total{phase}': 'Starts and stops of the daemon in this process.',
  'output_lines_dropped_total{output}':
    'Lines of the log (stderr) or the summary (stdout) that were dropped, because nothing read them.',
  'warnings_total{code}': 'Warnings that need an eye but stop nothing.',
  'failures_total{code}': 'Failures that stopped something.',
} as const;

const GAUGES = {
  request_budget_rate: 'Requests a second that the shared budget allows at present.',
  request_budget_tokens: 'Requests that could go out at once.',
  request_budget_waiting: 'Requests that wait for the budget.',
  exchange_clock_offset_seconds: "The exchange's time minus this machine's time.",
  exchange_clock_pace: "Speed of the exchange's time; 1 is real time.",
  realtime_connections: 'WebSocket connections to the exchange, open.',
  'queue_items{queue}': 'Items in a queue.',
  'queue_limit_items{queue}': 'Items that a queue holds at most.',
  'sealing_failing{code}':
    'What could not be sealed, archived or given up in the newest round that looked for it, by reason; none after one without failures.',
  'partitions{table,state}': 'Partitions by state: hot, sealed, archived or expired.',
  'partition_lead_seconds{table}': 'Time from now to the end of the last partition that exists.',
  'build_info{version,node}': 'Always 1; the labels name the program and the Node that runs it.',
  last_commit_timestamp_seconds:
    'UNIX time of the last commit of received data, by the clock of this machine; before the first one that of the start.',
  database_bytes: "Size of the archive's database.",
  cold_file_bytes: 'Size of the files of archived partitions.',
  'disk_free_bytes{directory}':
    'Free space of the disk that holds a directory: data (dataDir) or cold (cold.dir).',
  'disk_size_bytes{directory}': 'Size of that disk.',
  database_up: '1 while the database takes rows, else 0.',
  'rows_in_flight{stream}': 'Rows that were received and have no other outcome yet.',
  'lag_seconds{stream,market}': "The exchange's time now minus the newest stored moment.",
  'stretched_pace_seconds{stream}':
    'Time between two polls of a market where the request budget allows fewer than are scheduled.',
  'standing_seconds{stream,market}':
    'How long the coverage of a stream has not grown, beyond what is usual for it.',
  'history_headroom_ratio{stream,market}':
    'Trades that a page of history holds, over those that come between two polls; trades are at risk near 1.',
  'open_gaps{stream,market}': 'Gaps that are open now.',
  'open_gap_seconds{stream,market}': 'Length of the gaps that are open now, summed up.',
  'unfillable_gap_seconds{stream,market}':
    'Length of the gaps within the history of the exchange that nothing can fill any more, summed up.',
  markets_left_out:
    'Markets that are listed and not collected, because there are more than streams.markets.max.',
  markets_not_listed:
    'Markets named in the setting "markets" that the exchange does not list at present.',
  'coverage_ratio{stream,market}':
    'Covered part of what is expected up to the newest covered moment, 0 to 1.',
  'open_gap_seconds_by_reason{stream,reason}':
    'Length of the gaps that are open now, by why they are.',
  'oldest_open_gap_seconds{stream}':
    "The exchange's time now minus the oldest moment that is missing and may still be had.",
  'mismatches{market,interval}': 'Candles with which the stored trades do not agree at present.',
  'verified_lag_seconds{market,interval}':
    "The exchange's time now minus the end of the newest check result, of markets that are listed.",
  served_realtime_connections: 'WebSocket connections served as an exchange, open.',
  shutdown_duration_seconds: 'Time that the last stop took.',
} as const;

const HISTOGRAMS = {
  'request_duration_seconds{endpoint}': [
    'Time from sending an HTTP request to the last byte of its answer, or to its failure.',
    LATENCY_BUCKETS_S,
  ],
  realtime_connection_lifetime_seconds: [
    'How long WebSocket connections to the exchange lasted.',
    LIFETIME_BUCKETS_S,
  ],
  commit_duration_seconds: [
    'Time that a transaction of received data took, from its first statement to its commit.',
    COMMIT_BUCKETS_S,
  ],
  commit_batches: ['Batches that shared one transaction.', BATCH_BUCKETS],
  'head_poll_wait_seconds{stream}': [
    'Time from a sign of a trade to the poll that follows it.',
    WAIT_BUCKETS_S,
  ],
  trade_age_seconds: [
    'Age of new trades once they are stored, in the time of the exchange.',
    WAIT_BUCKETS_S,
  ],
  'served_request_duration_seconds{endpoint}': [
    'Time to answer an HTTP request as an exchange.',
    LATENCY_BUCKETS_S,
  ],
} as const;

/** Markets that have label values of their own. Past that, `other`. */
export const MARKET_LABELS_MAX = 2000;

/** How many values a label may have whose values come from outside. */
const LABEL_LIMITS = {
  ...{ market: MARKET_LABELS_MAX, stream: 32, endpoint: 32, code: 128, reason: 96, table: 32 },
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
  embedded_postgres_phases_total: [{ phase: 'lost' }],
  candle_checks_total: [{ outcome: 'match' }, { outcome: 'mismatch' }],
  mismatches_settled_total: [{ outcome: 'match' }, { outcome: 'mismatch' }],
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
    // Of rows and times that only grow a figure below zero is none.
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
    for (const stream of ['trades', 'times']) {
      this.#gauges.get('history_headroom_ratio')?.remove({ stream, market });
    }
  }

  /** Adds to a counter, sets a gauge, or notes a figure in a histogram. */
  move<N extends MetricName>(name: N, value: number, ...labels: Labels<N>): void {
    this.moveOf(name, value, labels[0] ?? NO_LABELS);
  }

  /** The same with labels from among the values of an event. */
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
