import type { Config } from '../../config/schema.js';
import { gapDocument } from '../../console/api/gaps.js';
import { systemClock } from '../../kernel/clock.js';
import { shownDuration } from '../../kernel/durations.js';
import { doOverlap, hullOf } from '../../kernel/span.js';
import { formatSpan, isoSpan } from '../../kernel/timestamp.js';
import type { StreamRef } from '../../model/batch.js';
import { gapIdOf } from '../../model/explain.js';
import { GAP_REASONS, type GapReason } from '../../model/gap-reasons.js';
import { MOMENT_STREAMS, streamName } from '../../model/series.js';
import type { Gap, SpanProgress, Store } from '../../store/index.js';
import { EXIT_CODES, type ExitCode, UsageError } from '../failure.js';
import { isSwitchedOn } from '../gaps.js';
import { countOf, type Lines, printable, printReport } from '../output.js';
import { coveredShare } from '../progress.js';
import type { FillEnd, Filling, FillTask } from './filling.js';

/**
 * A running daemon only fills what it collects, by its settings: the same as ours, as a rule. Which those
 * are is not known here.
 *
 * @throws UsageError naming what these settings leave out
 */
export function assertCollected(
  config: Config,
  market: string,
  streams: readonly Pick<StreamRef, 'kind' | 'variant'>[],
): void {
  const advice =
    'change them and restart the daemon; or, if it runs with others, run this with those; or stop it, and this program does the work itself';
  const { markets } = config;
  if (markets.length > 0 && !markets.includes(market)) {
    const why = `a daemon with these settings does not collect it (setting "markets"); ${advice}`;
    throw new UsageError('--market', market, why);
  }
  for (const stream of streams) {
    if (MOMENT_STREAMS.has(stream.kind) || isSwitchedOn(config, stream)) continue;
    const why = `a daemon with these settings does not collect them (below "streams"); ${advice}`;
    throw new UsageError('--kinds', streamName(stream), why);
  }
}

/** Most gaps named in the final report; of more it has only the number. */
const NAMED_MAX = 20;
/** Gaps that are looked at for it. */
const LOOKED_MAX = 1000;

/** What filling came to. */
interface FillOutcome {
  readonly end: FillEnd;
  readonly tasks: readonly (FillTask & { readonly progress: SpanProgress })[];
  /** False: something that was asked for is not among the tasks. */
  readonly isAll: boolean;
  /** What is left of the tasks, newest first; no more than a thousand. */
  readonly gaps: readonly Gap[];
  readonly rows: number;
  readonly durationMs: number;
}

/** What is missing of the tasks, from the ledger. */
async function gapsOf(store: Store, tasks: readonly FillTask[], untilMs: number): Promise<Gap[]> {
  const marketIds = [...new Set(tasks.map(({ marketId }) => marketId))];
  const kinds = [...new Set(tasks.map(({ kind }) => kind))];
  const span = hullOf(tasks.map((task) => task.span));
  const filter = { marketIds, kinds, span, limit: LOOKED_MAX };
  const gaps = await store.listGaps(filter, Math.max(untilMs, span.toMs));
  return gaps.filter((gap) =>
    tasks.some((task) => task.streamId === gap.streamId && doOverlap(gap.span, task.span)),
  );
}

const isWhole = (outcome: FillOutcome) => outcome.isAll && isCovered(outcome);

function isCovered({ tasks }: FillOutcome): boolean {
  return tasks.every(({ progress }) => progress.coveredMs >= progress.lengthMs - 0.5);
}

/** For people. */
function outcomeLines(outcome: FillOutcome): Lines {
  const { tasks, rows, durationMs } = outcome;
  const how = isCovered(outcome) ? 'Complete' : 'Incomplete';
  return [
    tasks.map((task) => `${spanText(task)}: ${coveredShare(task.progress)} covered`),
    `${how} after ${shownDuration(durationMs)}. ${countOf(rows, 'row')} were added.`,
    !isCovered(outcome) && leftLines(outcome),
    !outcome.isAll && 'The gaps that were left out stay as they are.',
  ];
}

/** What is left of the tasks, why, and what becomes of it. */
function leftLines({ gaps, end }: FillOutcome): Lines {
  if (end === 'stopped') {
    return `Stopped. Stored rows stay; to continue, run ${AGAIN} again.`;
  }
  const open =
    end === 'stuck'
      ? `Nothing has changed for a while. A running daemon retries; so does ${AGAIN}.`
      : `Open gaps are retried by a running daemon, or now by ${AGAIN}.`;
  return [
    gaps
      .slice(0, NAMED_MAX)
      .map((gap) => `  ${spanText(gap)}: ${gap.state}, ${gap.reason} (gap ${gapIdOf(gap)})`),
    gaps.length > NAMED_MAX && `  … and ${countOf(gaps.length - NAMED_MAX, 'more gap')}`,
    [...new Set(gaps.map((gap) => gap.reason))].map(
      (reason) => `  ${reason}: ${GAP_REASONS[reason as GapReason] ?? ''}`,
    ),
    gaps.some(({ state }) => state === 'unfillable') &&
      'Retry unfillable gaps by "tapekeep gaps fill --again"; "tapekeep gaps --all" shows the next try of a daemon.',
    gaps.some(({ state }) => state !== 'unfillable') && open,
  ];
}

const AGAIN = 'the same command';
const spanText = ({ market, span, ...stream }: FillTask) =>
  `${printable(market)} ${streamName(stream)}  ${formatSpan(span)}`;

/** For programs. */
function outcomeDocument(outcome: FillOutcome) {
  const { end, tasks, gaps, rows, durationMs } = outcome;
  return {
    isWhole: isWhole(outcome),
    end,
    rows,
    durationMs: Math.round(durationMs),
    streams: tasks.map(({ market, kind, variant, span, progress }) => ({
      ...{ market, kind, variant, ...isoSpan(span) },
      lengthMs: progress.lengthMs,
      ...{ coveredMs: progress.coveredMs, unfillableMs: progress.unfillableMs },
    })),
    gaps: gaps.map(gapDocument),
  };
}

/**
 * Works on tasks until they are settled, and reports the outcome.
 *
 * @param tasks or words for people when there is nothing to do
 * @param isAll false: something that was asked for is not among them
 */
export async function fill(
  filling: Filling,
  tasks: readonly FillTask[] | string,
  isJson: boolean,
  isAll = true,
): Promise<ExitCode> {
  if (typeof tasks === 'string') {
    printReport(isJson, { isWhole: isAll, message: tasks }, () => [tasks]);
    return isAll ? EXIT_CODES.ok : EXIT_CODES.incomplete;
  }
  const end = await filling.run(tasks);
  const nowMs = await filling.nowMs();
  const { parts, totals } = await filling.look(tasks, nowMs);
  const outcome: FillOutcome = {
    ...{ end, isAll, rows: totals.rows, durationMs: systemClock.monotonicMs() - filling.startedMs },
    tasks: tasks.flatMap((task, at) => {
      const progress = parts[at];
      return progress === undefined ? [] : [{ ...task, progress }];
    }),
    gaps: await gapsOf(filling.store, tasks, nowMs),
  };
  printReport(isJson, outcomeDocument(outcome), () => outcomeLines(outcome));
  if (isWhole(outcome)) return EXIT_CODES.ok;
  return end === 'stopped' ? EXIT_CODES.forced : EXIT_CODES.incomplete;
}
