import type { Store } from '../../store/index.js';
import type { ArchiveGap } from './errors.js';
import { readMarkets } from './markets.js';
import { findStream, spanOf } from './plan.js';
import type { CoverageQuery } from './query.js';

/** Spans and gaps that are listed at most. */
const LISTED_MAX = 100_000;

/** What the ledger says of a span. */
export interface SpanCoverage {
  /** Whether nothing is missing. */
  readonly isComplete: boolean;
  /**
   * Spans that are proven complete, oldest first, UNIX microseconds, half-open. Candles count by the
   * time at which they open.
   */
  readonly covered: readonly { readonly fromUs: number; readonly toUs: number }[];
  /** What is missing, oldest first. */
  readonly missing: readonly ArchiveGap[];
}

/** Asks the ledger; of more than a hundred thousand pieces the newest are left out. */
export async function readCoverage(
  store: Pick<Store, 'query' | 'inspection' | 'snapshot'>,
  query: CoverageQuery,
): Promise<SpanCoverage> {
  const { fromUs, toUs } = spanOf(query);
  const streams = await store.inspection.streams();
  const { stream } = findStream(query, streams, await readMarkets(store));
  const span = { fromMs: Math.floor(fromUs / 1000), toMs: Math.ceil(toUs / 1000) };
  const snapshot = await store.snapshot();
  try {
    const found = await snapshot.completeness(stream, span, LISTED_MAX);
    const micros = (one: { readonly fromMs: number; readonly toMs: number }) => ({
      ...{ fromUs: one.fromMs * 1000, toUs: one.toMs * 1000 },
    });
    return {
      isComplete: found.missingCount === 0,
      covered: found.covered.map(micros),
      missing: found.missing.map(({ span: gap, reason }) => ({
        ...{ market: query.market, kind: query.kind, variantS: stream.variant, reason },
        ...micros(gap),
      })),
    };
  } finally {
    await snapshot.close();
  }
}
