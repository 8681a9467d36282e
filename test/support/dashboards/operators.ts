import {
  bars,
  dashboard,
  figure,
  lines,
  listed,
  PROMETHEUS,
  section,
  sourceVariable,
} from './panels.js';

/** The dashboard of whoever runs the collector, from the metrics of the reference. */

const AT = 'instance=~"$instance"';
const OF = `${AT},stream=~"$stream"`;
const EACH = `${OF},market=~"$market"`;

/** A counter without a series before its first increase, or a gauge without one while all is well: then zero. */
const orZero = (expr: string) => `${expr} or vector(0)`;
const rate = (counter: string, by: string, labels = AT) =>
  `sum by (${by}) (rate(${counter}{${labels}}[$__rate_interval]))`;
const quantile = (share: number, histogram: string, labels = AT) =>
  `histogram_quantile(${share}, sum by (le) (rate(${histogram}_bucket{${labels}}[$__rate_interval])))`;

const one = figure.bind(null, PROMETHEUS);
const many = lines.bind(null, PROMETHEUS);
const piled = bars.bind(null, PROMETHEUS);

const STATE = [
  one({
    ...{ title: 'Answering', unit: 'bool_yes_no', limits: [1, 0.5] },
    about: 'Whether Prometheus reaches the collector. No: see TapekeepDown in the runbook.',
    queries: [[`min(up{${AT}})`, '']],
  }),
  one({
    ...{ title: 'Database writable', unit: 'bool_yes_no', limits: [1, 0.5] },
    about: 'Whether rows can be stored. No: see TapekeepDatabaseDown in the runbook.',
    queries: [[`min(tapekeep_database_up{${AT}})`, '']],
  }),
  one({
    ...{ title: 'Alerts', unit: 'short', limits: [1, 5] },
    about: 'Alerts of config/prometheus-rules.yml that fire now.',
    queries: [[orZero('count(ALERTS{alertname=~"Tapekeep.*",alertstate="firing"})'), '']],
  }),
  one({
    ...{ title: 'Worst lag', unit: 's', limits: [60, 120] },
    about: 'Age of the newest stored row on the slowest market of trades, depth and tickers.',
    queries: [
      [`max(tapekeep_lag_seconds{${AT},market=~"$market",stream=~"trades|depth|tickers"})`, ''],
    ],
  }),
  one({
    ...{ title: 'Stalled for', unit: 's', limits: [60, 300] },
    about: 'Longest time for which the coverage of a stream has not grown.',
    queries: [[orZero(`max(tapekeep_standing_seconds{${EACH}})`), '']],
  }),
  one({
    ...{ title: 'Coverage', unit: 'percentunit', limits: [0.999, 0.99] },
    about: 'Covered share of the expected time, of all chosen streams and markets.',
    queries: [[`avg(tapekeep_coverage_ratio{${EACH}})`, '']],
  }),
];

const COLLECTING = [
  many({
    ...{ title: 'Received rows', unit: 'rowsps' },
    about: 'Rows that came from the exchange, by stream.',
    queries: [[rate('tapekeep_rows_received_total', 'stream', OF), '{{stream}}']],
  }),
  many({
    ...{ title: 'Lag', unit: 's' },
    about:
      'Age of the newest stored row of the slowest market, by stream. A quiet market has no new trades.',
    queries: [[`max by (stream) (tapekeep_lag_seconds{${EACH}})`, '{{stream}}']],
  }),
  many({
    ...{ title: 'Rows lost, refused or in conflict', unit: 'rowsps' },
    about:
      'Anything above zero is worth a look: TapekeepRowsLost and TapekeepQuarantineFills in the runbook.',
    queries: [
      [
        orZero(
          `sum by (outcome) (rate(tapekeep_rows_total{${OF},outcome=~"lost|conflict"}[$__rate_interval]))`,
        ),
        '{{outcome}}',
      ],
      [orZero(rate('tapekeep_quarantined_total', 'reason')), 'refused: {{reason}}'],
    ],
  }),
  many({
    ...{ title: 'Polls of the newest trades', unit: 'reqps' },
    about: 'Why a market was polled. Many urgent ones: TapekeepPagesFill in the runbook.',
    queries: [[rate('tapekeep_head_polls_total', 'cause'), '{{cause}}']],
  }),
  many({
    ...{ title: 'Wait for a poll', unit: 's' },
    about: 'Time from the sign of a trade to its poll. Long: TapekeepTradesWait in the runbook.',
    queries: [
      [quantile(0.5, 'tapekeep_head_poll_wait_seconds'), 'half'],
      [quantile(0.95, 'tapekeep_head_poll_wait_seconds'), '95 %'],
    ],
  }),
  many({
    ...{ title: 'Walks through history', unit: 'ops' },
    about: 'Pages of walks, and walks that stopped for lack of progress.',
    queries: [
      [orZero(`sum(rate(tapekeep_walk_pages_total{${AT}}[$__rate_interval]))`), 'pages'],
      [orZero(`sum(rate(tapekeep_walk_stalls_total{${AT}}[$__rate_interval]))`), 'stalls'],
    ],
  }),
];

const REQUESTS = [
  many({
    ...{ title: 'Requests', unit: 'reqps' },
    about: 'Requests to the exchange by outcome, and what the budget allows.',
    queries: [
      [rate('tapekeep_requests_total', 'outcome'), '{{outcome}}'],
      [`sum(tapekeep_request_budget_rate{${AT}})`, 'budget'],
    ],
  }),
  many({
    ...{ title: 'Duration of requests', unit: 's' },
    about: 'From sending a request to its complete response.',
    queries: [
      [quantile(0.5, 'tapekeep_request_duration_seconds'), 'half'],
      [quantile(0.99, 'tapekeep_request_duration_seconds'), '99 %'],
    ],
  }),
  many({
    ...{ title: 'Waiting for the budget', unit: 'short' },
    about: 'Requests that wait. Always some: TapekeepBudgetShort in the runbook.',
    queries: [[`sum(tapekeep_request_budget_waiting{${AT}})`, 'requests']],
  }),
  many({
    ...{ title: 'WebSocket connections', unit: 'short' },
    about: 'Open connections to the exchange.',
    queries: [[`sum(tapekeep_realtime_connections{${AT}})`, 'open']],
  }),
  many({
    ...{ title: 'WebSocket frames', unit: 'ops' },
    about: 'Frames from the exchange, by outcome.',
    queries: [[rate('tapekeep_realtime_frames_total', 'outcome'), '{{outcome}}']],
  }),
  many({
    ...{ title: 'WebSocket connections lost', unit: 'ops' },
    about: 'Connections that closed, by reason. Many: TapekeepReconnects in the runbook.',
    queries: [[orZero(rate('tapekeep_realtime_connections_closed_total', 'reason')), '{{reason}}']],
  }),
];

const STORING = [
  many({
    ...{ title: 'Commits', unit: 'ops' },
    about: 'Transactions of received data, and those that failed, by code of Postgres.',
    queries: [
      [`sum(rate(tapekeep_commits_total{${AT}}[$__rate_interval]))`, 'commits'],
      [orZero(rate('tapekeep_commit_failures_total', 'code')), 'failed {{code}}'],
    ],
  }),
  many({
    ...{ title: 'Duration of commits', unit: 's' },
    about: 'Above one second at 99 %: TapekeepCommitsSlow in the runbook.',
    queries: [
      [quantile(0.5, 'tapekeep_commit_duration_seconds'), 'half'],
      [quantile(0.99, 'tapekeep_commit_duration_seconds'), '99 %'],
    ],
  }),
  many({
    ...{ title: 'Queues', unit: 'percentunit' },
    about: 'How full each queue is. Above 80 %: TapekeepQueueFills in the runbook.',
    queries: [
      [
        `max by (queue) (tapekeep_queue_items{${AT}} / tapekeep_queue_limit_items{${AT}})`,
        '{{queue}}',
      ],
    ],
  }),
];

const COMPLETENESS = [
  many({
    ...{ title: 'Coverage by stream', unit: 'percentunit' },
    about: 'Covered share of the expected time, of the worst market.',
    queries: [[`min by (stream) (tapekeep_coverage_ratio{${EACH}})`, '{{stream}}']],
  }),
  many({
    ...{ title: 'Missing time', unit: 's' },
    about: 'Length of gaps that can still be filled, and of those that cannot.',
    queries: [
      [orZero(`sum by (stream) (tapekeep_open_gap_seconds{${EACH}})`), 'open {{stream}}'],
      [
        orZero(`sum by (stream) (tapekeep_unfillable_gap_seconds{${EACH}})`),
        'unfillable {{stream}}',
      ],
    ],
  }),
  piled({
    ...{ title: 'New gaps', unit: 'short' },
    about: 'Gaps that were found, by reason.',
    queries: [
      [
        orZero(
          `sum by (reason) (increase(tapekeep_gaps_found_total{${OF}}[$__rate_interval])) > 0`,
        ),
        '{{reason}}',
      ],
    ],
  }),
  many({
    ...{ title: 'Candles that trades contradict', unit: 'short' },
    about: 'TapekeepTradesDoNotAddUp in the runbook says how to find the wrong side.',
    queries: [[orZero(`sum by (market) (tapekeep_mismatches{${AT}}) > 0`), '{{market}}']],
  }),
  many({
    ...{ title: 'Age of the newest check', unit: 's' },
    about:
      'Age of the newest candle that was compared with trades, by length of candles in seconds.',
    queries: [[orZero(`max by (interval) (tapekeep_verified_lag_seconds{${AT}})`), '{{interval}}']],
  }),
  many({
    ...{ title: "The exchange's clock", unit: 's' },
    about: "The exchange's time minus this machine's time.",
    queries: [[`max(tapekeep_exchange_clock_offset_seconds{${AT}})`, 'offset']],
  }),
];

const STORAGE = [
  many({
    ...{ title: 'Size of the archive', unit: 'bytes' },
    about: 'Size of the database and of the cold files.',
    queries: [
      [`sum(tapekeep_database_bytes{${AT}})`, 'database'],
      [orZero(`sum(tapekeep_cold_file_bytes{${AT}})`), 'cold files'],
    ],
  }),
  many({
    ...{ title: 'Free disk', unit: 'percentunit' },
    about: 'Free share of each disk. Below 10 %: TapekeepDiskFills in the runbook.',
    queries: [
      [
        `min by (directory) (tapekeep_disk_free_bytes{${AT}} / tapekeep_disk_size_bytes{${AT}})`,
        '{{directory}}',
      ],
    ],
  }),
  many({
    ...{ title: 'Partitions', unit: 'short' },
    about: 'Partitions by state: hot, sealed, archived or expired.',
    queries: [[`sum by (state) (tapekeep_partitions{${AT}})`, '{{state}}']],
  }),
  many({
    ...{ title: 'Partitions ahead', unit: 's' },
    about:
      'Time until the last existing partition of a table ends. Below a day: TapekeepPartitionsRunOut.',
    queries: [[`min by (table) (tapekeep_partition_lead_seconds{${AT}})`, '{{table}}']],
  }),
  many({
    ...{ title: 'Failures and warnings', unit: 'ops' },
    about: 'Failures that stopped something, warnings, and what sealing could not do, by code.',
    queries: [
      [orZero(rate('tapekeep_failures_total', 'code')), 'failure {{code}}'],
      [orZero(rate('tapekeep_warnings_total', 'code')), 'warning {{code}}'],
      [orZero(rate('tapekeep_sealing_failures_total', 'code')), 'sealing {{code}}'],
    ],
  }),
  many({
    ...{ title: 'Processor', unit: 'percentunit' },
    about: 'Share of one core that the collector takes.',
    queries: [[`sum(rate(process_cpu_seconds_total{${AT}}[$__rate_interval]))`, 'core']],
  }),
  many({
    ...{ title: 'Memory', unit: 'bytes' },
    about: 'Memory of the collector, without that of an embedded Postgres.',
    queries: [[`sum(process_resident_memory_bytes{${AT}})`, 'resident']],
  }),
  many({
    ...{ title: 'Delay of the event loop', unit: 's' },
    about: 'Time that work waits for its turn, at 99 %. Above a second something takes too long.',
    queries: [[`max(nodejs_eventloop_lag_p99_seconds{${AT}})`, '99 %']],
  }),
  many({
    ...{ title: 'Notices', unit: 'short' },
    about: 'Notices to alerts.webhook that were sent, and tries that failed.',
    queries: [
      [
        `sum by (outcome) (increase(tapekeep_notices_total{${AT}}[$__rate_interval]))`,
        '{{outcome}}',
      ],
    ],
  }),
];

export function operators() {
  const board = dashboard(
    'tapekeep-operators',
    'tapekeep: operators',
    'Whether the collector collects, what it misses and what it needs, from its metrics.',
  )
    .time({ from: 'now-3h', to: 'now' })
    .refresh('30s')
    .withVariable(sourceVariable(PROMETHEUS, 'Prometheus'))
    .withVariable(
      listed(PROMETHEUS, 'instance', 'label_values(tapekeep_build_info, instance)', true),
    )
    .withVariable(
      listed(PROMETHEUS, 'stream', 'label_values(tapekeep_rows_received_total, stream)', true),
    )
    .withVariable(listed(PROMETHEUS, 'market', 'label_values(tapekeep_lag_seconds, market)', true));
  section(board, 'State', STATE);
  section(board, 'Collecting', COLLECTING);
  section(board, 'Requests and connections', REQUESTS);
  section(board, 'Storing', STORING);
  section(board, 'Completeness', COMPLETENESS);
  return section(board, 'Storage and process', STORAGE);
}
