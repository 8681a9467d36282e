import type { VerifyEvents } from './events.js';
import { slug } from './labels.js';
import { type Sinks, seconds } from './sinks.js';

/** Sorts of open gaps that are kept for the status page. */
const OPEN_GAPS_MAX = 100;

const timeOf = (ms: number) => new Date(ms).toISOString();

/** Verification. What agrees is debug; what does not is a doubt about the archive, so warn. */
export function createVerifyEvents({ logger, metrics, tally, labels }: Sinks): VerifyEvents {
  for (const outcome of ['match', 'mismatch']) {
    metrics.verdicts.inc({ outcome }, 0);
    metrics.mismatchesSettled.inc({ outcome }, 0);
  }
  return {
    judged({ market, intervalS, matches, mismatches }) {
      metrics.verdicts.inc({ outcome: 'match' }, matches);
      logger.write('debug', 'candles verified', { market, intervalS, matches, mismatches });
    },
    mismatchFound({ market, intervalS, fromMs, detail }) {
      metrics.verdicts.inc({ outcome: 'mismatch' });
      const fields = { market, intervalS, candle: timeOf(fromMs), detail };
      logger.writeRepeating('warn', `mismatch ${market}`, 'trades and candle differ', fields);
    },
    mismatchSettled({ market, intervalS, fromMs, outcome, tries, detail }) {
      metrics.mismatchesSettled.inc({ outcome });
      const fields = { market, intervalS, candle: timeOf(fromMs), outcome, tries, detail };
      const level = outcome === 'match' ? 'info' : 'warn';
      const text = 'trades and candle were judged again';
      logger.writeRepeating(level, `settled ${market} ${outcome}`, text, fields);
    },
    failed({ code, message }) {
      metrics.verifyFailures.inc({ code: labels.code.admit(code) });
      const fields = { code, error: message };
      logger.writeRepeating('warn', `verify ${code}`, 'verification failed, goes on later', fields);
    },
    completenessCounted({ coverage, openGaps, verdicts }) {
      metrics.coverageRatio.reset();
      metrics.openGapReasonSeconds.reset();
      metrics.oldestOpenGapSeconds.reset();
      metrics.mismatches.reset();
      metrics.verifiedLagSeconds.reset();
      const lowest = new Map<string, number>();
      for (const { stream: name, market, ratio } of coverage) {
        const stream = labels.stream.admit(name);
        // Markets beyond the limit share one label: the worst of them is shown.
        const at = labels.market.admit(market);
        const key = `${stream} ${at}`;
        lowest.set(key, Math.min(ratio, lowest.get(key) ?? 1));
        metrics.coverageRatio.set({ stream, market: at }, lowest.get(key) ?? ratio);
      }
      const oldest = new Map<string, number>();
      for (const { stream: name, reason: words, lengthMs, oldestAgeMs } of openGaps) {
        const stream = labels.stream.admit(name);
        const reason = labels.reason.admit(slug(words));
        metrics.openGapReasonSeconds.inc({ stream, reason }, seconds(lengthMs));
        oldest.set(stream, Math.max(oldestAgeMs, oldest.get(stream) ?? 0));
      }
      for (const [stream, ageMs] of oldest) {
        metrics.oldestOpenGapSeconds.set({ stream }, seconds(ageMs));
      }
      const lags = new Map<string, number>();
      for (const { market: name, intervalS, mismatches, lagMs } of verdicts) {
        const at = { market: labels.market.admit(name), interval: String(intervalS) };
        metrics.mismatches.inc(at, mismatches);
        if (lagMs === null) continue;
        const key = `${at.market} ${at.interval}`;
        lags.set(key, Math.max(lagMs, lags.get(key) ?? 0));
        metrics.verifiedLagSeconds.set(at, seconds(lags.get(key) ?? lagMs));
      }
      const counted = {
        mismatches: verdicts.reduce((sum, { mismatches }) => sum + mismatches, 0),
        oldestGapMs: oldest.size === 0 ? null : Math.max(...oldest.values()),
        lowestCoverage: coverage.reduce((low, { ratio }) => Math.min(low, ratio), 1),
        verifiedLagMs: verifiedLagOf(verdicts),
      };
      const longest = [...openGaps].sort((a, b) => b.lengthMs - a.lengthMs);
      tally.completeness({ ...counted, openGaps: longest.slice(0, OPEN_GAPS_MAX) });
      logger.write('debug', 'completeness', counted);
    },
  };
}

/** Of the shortest candles, the market that is furthest behind. */
function verifiedLagOf(
  verdicts: Parameters<VerifyEvents['completenessCounted']>[0]['verdicts'],
): number | null {
  const shortestS = verdicts.reduce(
    (low, one) => Math.min(low, one.intervalS),
    Number.POSITIVE_INFINITY,
  );
  const lags = verdicts.flatMap(({ intervalS, lagMs }) =>
    intervalS === shortestS && lagMs !== null ? [lagMs] : [],
  );
  return lags.length === 0 ? null : Math.max(...lags);
}
