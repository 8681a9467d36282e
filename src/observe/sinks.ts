import type { Registry } from 'prom-client';
import { LabelLimit } from './labels.js';
import type { Logger } from './logger.js';
import { createMetrics, type Metrics } from './metrics.js';
import { Tally } from './tally.js';

/** What the event functions write to, and the limits of what they may write. */
export interface Sinks {
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly tally: Tally;
  /** Ends of the partitions made ahead, by table; exchange time. */
  readonly partitionEnds: Map<string, number>;
  readonly labels: {
    readonly market: LabelLimit;
    readonly stream: LabelLimit;
    readonly endpoint: LabelLimit;
    readonly code: LabelLimit;
    readonly reason: LabelLimit;
    readonly table: LabelLimit;
    readonly queue: LabelLimit;
    readonly phase: LabelLimit;
  };
}

/** Markets that have label values of their own. Past that, `other`. */
export const MARKET_LABELS_MAX = 2000;

export function createSinks(logger: Logger, registry: Registry): Sinks {
  return {
    logger,
    metrics: createMetrics(registry),
    tally: new Tally(),
    partitionEnds: new Map(),
    labels: {
      market: new LabelLimit(MARKET_LABELS_MAX),
      stream: new LabelLimit(32),
      endpoint: new LabelLimit(32),
      code: new LabelLimit(128),
      reason: new LabelLimit(64),
      table: new LabelLimit(32),
      queue: new LabelLimit(32),
      phase: new LabelLimit(16),
    },
  };
}

/** Milliseconds in Prometheus' base unit. */
export function seconds(ms: number): number {
  return ms / 1000;
}
