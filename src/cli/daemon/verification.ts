import { Verification } from '../../archive/verification.js';
import type { ExchangeClock } from '../../client/index.js';
import type { Config } from '../../config/schema.js';
import type { Clock } from '../../kernel/clock.js';
import type { Telemetry } from '../../observe/events.js';
import type { Store, StreamStatus, VerdictTotals } from '../../store/index.js';
import { openGapsOf } from '../gaps/open-gaps.js';

interface Surroundings {
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly exchangeTime: ExchangeClock;
}

/** Verifies what is collected until `signal` aborts; at once over when that is switched off. */
export async function keepVerifying(
  store: Store,
  { verification }: Pick<Config, 'verification'>,
  { clock, telemetry, exchangeTime, signal }: Surroundings & { readonly signal: AbortSignal },
): Promise<void> {
  if (!verification.enabled) return;
  const work = new Verification({
    archive: store,
    clock,
    nowMs: () => exchangeTime.nowMs(),
    telemetry: telemetry.verify,
    pauseMs: verification.every,
  });
  await work.run(signal);
}

/** Tells how complete the archive is. All of it comes from the ledger. */
export async function tellCompleteness(
  store: Store,
  streams: readonly StreamStatus[],
  { telemetry, exchangeTime }: Surroundings,
): Promise<void> {
  const nowMs = exchangeTime.nowMs();
  const [gaps, verdicts] = await Promise.all([store.gapTotals(nowMs), store.verdicts.totals()]);
  telemetry.verify.completenessCounted({
    coverage: coverageOf(streams),
    openGaps: openGapsOf(gaps, streams, nowMs).map(({ oldestMs, ...gap }) => ({
      ...gap,
      oldestAgeMs: Math.max(0, nowMs - oldestMs),
    })),
    verdicts: verdicts.map((totals) => verdictOf(totals, nowMs)),
  });
}

/** Streams of several intervals of one market are one: what all of them cover of all they should. */
function coverageOf(streams: readonly StreamStatus[]) {
  const sums = new Map<string, { stream: string; market: string; covered: number; all: number }>();
  for (const { kind: stream, market, coveredS, gapS, beforeHistoryS } of streams) {
    const key = `${stream} ${market}`;
    const sum = sums.get(key) ?? { stream, market, covered: 0, all: 0 };
    sum.covered += coveredS;
    sum.all += coveredS + gapS - beforeHistoryS;
    sums.set(key, sum);
  }
  return [...sums.values()]
    .filter(({ all }) => all > 0)
    .map(({ stream, market, covered, all }) => ({ stream, market, ratio: covered / all }));
}

function verdictOf({ market, intervalS, mismatches, judgedUntilMs }: VerdictTotals, nowMs: number) {
  const lagMs = judgedUntilMs === null ? null : Math.max(0, nowMs - judgedUntilMs);
  return { market, intervalS, mismatches, lagMs };
}
