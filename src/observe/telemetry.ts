import { collectDefaultMetrics, Registry } from 'prom-client';
import { createClientEvents } from './client-events.js';
import { createCollectEvents } from './collect-events.js';
import type { Telemetry } from './events.js';
import type { Logger } from './logger.js';
import { createDaemonEvents, createServerEvents } from './program-events.js';
import { createSealingEvents } from './sealing-events.js';
import { createSinks, type Sinks, seconds } from './sinks.js';
import { createStoreEvents } from './store-events.js';
import type { Tally } from './tally.js';
import { createVerifyEvents } from './verify-events.js';

export interface TelemetryOptions {
  readonly logger: Logger;
  /** The exchange's time now, UNIX milliseconds: lags are measured against it. */
  readonly exchangeNowMs: () => number;
  /** Where the metrics are registered. Default: a registry of this telemetry's own. */
  readonly registry?: Registry;
  /** Adds Node's own metrics (memory, event loop, garbage collection). Default true. */
  readonly processMetrics?: boolean;
}

/** The telemetry of a process, with its two readings: the metrics page and the running totals. */
export interface ObservedTelemetry extends Telemetry {
  readonly tally: Pick<Tally, 'snapshot'>;
  /** All metrics in Prometheus' text format. */
  metricsText(): Promise<string>;
  /** The Content-Type of {@link ObservedTelemetry.metricsText}. */
  readonly metricsContentType: string;
}

/** Works out at each scrape what only makes sense at that moment. */
function refresh({ metrics, tally, partitionEnds }: Sinks, exchangeNowMs: number): void {
  metrics.lagSeconds.reset();
  for (const { stream, market, newestMs } of tally.newest()) {
    metrics.lagSeconds.set({ stream, market }, Math.max(0, seconds(exchangeNowMs - newestMs)));
  }
  // A lead that shrinks is one that nobody reports any more.
  for (const [table, endMs] of partitionEnds) {
    metrics.partitionLeadSeconds.set({ table }, seconds(endMs - exchangeNowMs));
  }
  for (const { stream, inFlight } of tally.snapshot().streams) {
    metrics.rowsInFlight.set({ stream }, inFlight);
  }
}

/** Builds the telemetry: one function an event, each a log line and a metric. */
export function createTelemetry(options: TelemetryOptions): ObservedTelemetry {
  const registry = options.registry ?? new Registry();
  const sinks = createSinks(options.logger, registry);
  if (options.processMetrics !== false) collectDefaultMetrics({ register: registry });
  return {
    client: createClientEvents(sinks),
    store: createStoreEvents(sinks),
    collect: createCollectEvents(sinks),
    sealing: createSealingEvents(sinks),
    verify: createVerifyEvents(sinks),
    server: createServerEvents(sinks),
    daemon: createDaemonEvents(sinks),
    tally: sinks.tally,
    metricsText() {
      refresh(sinks, options.exchangeNowMs());
      return registry.metrics();
    },
    metricsContentType: registry.contentType,
  };
}
