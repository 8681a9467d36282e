import { collectDefaultMetrics, Registry } from 'prom-client';
import { type Clock, systemClock } from '../kernel/clock.js';
import { Recorder } from './entry.js';
import { EVENTS, type Telemetry } from './events.js';
import type { Logger } from './logger.js';
import { Metrics } from './metrics.js';
import { RunCounts } from './run-counts.js';

export interface TelemetryOptions {
  readonly logger: Logger;
  /** The exchange's time now, UNIX milliseconds: lags are measured against it. */
  readonly exchangeNowMs: () => number;
  /** Default: the clock of this machine. */
  readonly clock?: Clock;
  /** Version of the program; default: not said. */
  readonly version?: string;
  /** Streams whose series begin at once, and not with their first rows. */
  readonly streams?: readonly string[];
  /** Adds Node's own metrics (memory, event loop, garbage collection). Default true. */
  readonly processMetrics?: boolean;
}

/** The telemetry of a process, with its two readings: the metrics page and the running totals. */
export interface ObservedTelemetry extends Telemetry {
  readonly counts: Pick<RunCounts, 'snapshot' | 'newestOf'>;
  /** All metrics in Prometheus' text format. */
  metricsText(): Promise<string>;
}

/** Works out at each scrape what only makes sense at that time. */
function refresh({ metrics, counts, partitionEnds }: Recorder, exchangeNowMs: number): void {
  metrics.reset('lag_seconds');
  for (const { stream, market, newestMs } of counts.newest()) {
    const lagMs = Math.max(0, exchangeNowMs - newestMs);
    metrics.move('lag_seconds', lagMs / 1000, { stream, market });
  }
  // A lead that shrinks is not reported any more.
  for (const [table, endMs] of partitionEnds) {
    metrics.move('partition_lead_seconds', (endMs - exchangeNowMs) / 1000, { table });
  }
  for (const { stream, inFlight } of counts.snapshot().streams) {
    metrics.move('rows_in_flight', inFlight, { stream });
  }
}

/** Gauges of prom-client with the ending of counters: sums over series that are there as well. */
const MISNAMED = ['handles', 'requests', 'resources'].map((what) => `nodejs_active_${what}_total`);

/** Builds the telemetry: one function an event, each a log line and a metric. */
export function createTelemetry(options: TelemetryOptions): ObservedTelemetry {
  const registry = new Registry();
  const { logger, clock = systemClock, version } = options;
  const recorder = new Recorder(logger, new Metrics(registry), new RunCounts(), clock);
  for (const stream of options.streams ?? []) recorder.stream(stream);
  if (version !== undefined) {
    recorder.metrics.move('build_info', 1, { version, node: process.versions.node });
  }
  if (options.processMetrics !== false) {
    collectDefaultMetrics({ register: registry });
    for (const name of MISNAMED) registry.removeSingleMetric(name);
  }
  const sections = Object.entries(EVENTS).map(([section, entries]) => {
    const reports = Object.entries(entries).map(([name, entry]) => {
      return [name, (event: object) => recorder.report(entry, event)];
    });
    return [section, Object.fromEntries(reports)];
  });
  return {
    ...(Object.fromEntries(sections) as Telemetry),
    counts: recorder.counts,
    metricsText() {
      refresh(recorder, options.exchangeNowMs());
      return registry.metrics();
    },
  };
}
