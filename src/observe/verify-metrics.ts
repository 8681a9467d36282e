import type { Counter, Gauge } from 'prom-client';

/** Makes a metric of the registry; its name gets the program's prefix. */
type Maker<Metric extends 'counter' | 'gauge'> = <const L extends string>(
  name: string,
  help: string,
  labelNames: readonly L[],
) => Metric extends 'counter' ? Counter<L> : Gauge<L>;

/** How complete the archive is, and what verification finds. */
export function createVerifyMetrics({
  counter,
  gauge,
}: {
  readonly counter: Maker<'counter'>;
  readonly gauge: Maker<'gauge'>;
}) {
  return {
    coverageRatio: gauge(
      'coverage_ratio',
      'Covered part of what is expected up to the newest covered moment, 0 to 1.',
      ['stream', 'market'],
    ),
    openGapReasonSeconds: gauge(
      'open_gap_seconds_by_reason',
      'Length of the gaps that are open now, by why they are.',
      ['stream', 'reason'],
    ),
    oldestOpenGapSeconds: gauge(
      'oldest_open_gap_seconds',
      "The exchange's time now minus the oldest moment that is missing and may still be had.",
      ['stream'],
    ),
    verdicts: counter(
      'verdicts_total',
      'Candles that were held against the stored trades for the first time, by outcome.',
      ['outcome'],
    ),
    mismatchesSettled: counter(
      'mismatches_settled_total',
      'Mismatches that were fetched again as often as needed or allowed, by what was found.',
      ['outcome'],
    ),
    mismatches: gauge(
      'mismatches',
      'Candles with which the stored trades do not agree at present.',
      ['market', 'interval'],
    ),
    verifiedLagSeconds: gauge(
      'verified_lag_seconds',
      "The exchange's time now minus the end of the newest verdict.",
      ['market', 'interval'],
    ),
    verifyFailures: counter(
      'verify_failures_total',
      'Rounds of the continuous verification that failed, by error code.',
      ['code'],
    ),
  };
}
