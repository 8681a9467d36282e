import type { Config } from '../../config/schema.js';
import { systemClock } from '../../kernel/clock.js';
import { shownDuration } from '../../kernel/durations.js';
import { doOverlap, hullOf, type Span } from '../../kernel/span.js';
import { formatSpan, isoMs, isoSpan } from '../../kernel/timestamp.js';
import type { StreamRef } from '../../model/batch.js';
import { GAP_REASONS, type GapReason } from '../../model/gap-reasons.js';
import { MOMENT_STREAMS, streamName } from '../../model/series.js';
import type { BoundedOutput } from '../../observe/bounded-output.js';
import type { Gap, SpanProgress, Store } from '../../store/index.js';
import type { Need } from '../command.js';
import { endSoon, untilStopped } from '../ending.js';
import { EXIT_CODES, type ExitCode, UsageError } from '../failure.js';
import { gapIdOf, isSwitchedOn } from '../gaps.js';
import { type ArchiveNeed, type Database, withArchive } from '../opening/database.js';
import { openSession, type Session } from '../opening/session.js';
import { countOf, type Lines, printable, printReport } from '../output.js';
import { coveredShare, Progress } from '../progress.js';
import { type FillEnd, Filling } from './filling.js';
import type { FillTask } from './worker.js';

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
  const marketIds = [...new Set(tasks.map(({ stream }) => stream.marketId))];
  const kinds = [...new Set(tasks.map(({ stream }) => stream.kind))];
  const span = hullOf(tasks.map((task) => task.span));
  const filter = { marketIds, kinds, span, limit: LOOKED_MAX };
  const gaps = await store.listGaps(filter, Math.max(untilMs, span.toMs));
  return gaps.filter((gap) =>
    tasks.some((task) => task.stream.streamId === gap.streamId && doOverlap(gap.span, task.span)),
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
    tasks.map(({ market, stream, span, progress }) => {
      return `${spanText(market, stream, span)}: ${coveredShare(progress)} covered`;
    }),
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
      .map(
        (gap) =>
          `  ${spanText(gap.market, gap, gap.span)}: ${gap.state}, ${gap.reason} (gap ${gapIdOf(gap)})`,
      ),
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
const spanText = (market: string, stream: Pick<Gap, 'kind' | 'variant'>, span: Span) =>
  `${printable(market)} ${streamName(stream)}  ${formatSpan(span)}`;

/** For programs. */
function outcomeDocument(outcome: FillOutcome) {
  const { end, tasks, gaps, rows, durationMs } = outcome;
  return {
    isWhole: isWhole(outcome),
    end,
    rows,
    durationMs: Math.round(durationMs),
    streams: tasks.map(({ market, stream, span, progress }) => ({
      ...{ market, kind: stream.kind, variant: stream.variant },
      ...isoSpan(span),
      lengthMs: progress.lengthMs,
      ...{ coveredMs: progress.coveredMs, unfillableMs: progress.unfillableMs },
    })),
    gaps: gaps.map(gapDocument),
  };
}

/** One gap for programs. */
export function gapDocument(gap: Gap) {
  const { market, kind, variant, span, state, reason, attempts, note } = gap;
  const { firstSeenAtMs, nextAttemptAtMs, isBeforeHistory } = gap;
  return {
    ...{ id: gapIdOf(gap), market, kind, variant, ...isoSpan(span) },
    ...{ lengthMs: span.toMs - span.fromMs, state, reason, isBeforeHistory, attempts },
    firstSeenAt: firstSeenAtMs === null ? null : isoMs(firstSeenAtMs),
    nextAttemptAt: nextAttemptAtMs === null ? null : isoMs(nextAttemptAtMs),
    note,
  };
}

/** What a command that fills works with. */
export interface FillContext {
  readonly session: Session;
  readonly store: Store;
  readonly filling: Filling;
  readonly signal: AbortSignal;
  /** A line for people, beside the results. */
  say(text: string): void;
  /**
   * Works on the tasks, shows progress, and reports the outcome.
   *
   * @param isAll false: something that was asked for is left out of the plan
   */
  fill(plan: Plan, json: boolean, isAll?: boolean): Promise<ExitCode>;
}

/** Tasks, or words for people when there is nothing to do. */
type Plan = readonly FillTask[] | string;

/** The need of a command that fills: the archive, taken or beside a daemon, and how it goes on stderr. */
export function filling(need: ArchiveNeed): Need<FillContext> {
  return async (common, use) => {
    const clock = systemClock;
    // The first look is shown as well.
    const progress = new Progress('', 0, Number.NEGATIVE_INFINITY);
    const write = (line: string) => progress.write(line);
    const destination = ({ isTTY }: BoundedOutput) => ({ isTTY, write });
    const session = openSession({ logLevel: 'warn', ...common }, { destination });
    const fillIn = async (store: Store, { signal }: Database) => {
      const say = (text: string) => progress.write(`${text}\n`);
      const filling = new Filling({
        ...{ session, store, signal, onWorker: say },
        onProgress: (totals) => showFill(progress, totals),
      });
      const startedMs = clock.monotonicMs();
      const fill: FillContext['fill'] = (plan, isJson, isAll = true) =>
        fillAll({ filling, store, startedMs }, plan, isJson, isAll);
      try {
        return await use({ session, store, filling, signal, say, fill });
      } finally {
        progress.end();
        await filling.end();
      }
    };
    const work = () => withArchive(session, fillIn, 'by itself', need);
    const notice = () => 'Stopped before anything was asked for.\n';
    return await untilStopped(work, notice).finally(() => endSoon());
  };
}

/** How far filling has come, with its pace and the time left. */
function showFill(
  progress: Progress,
  { coveredMs, lengthMs, unfillableMs, waitingMs, rows }: SpanProgress,
): void {
  const share = lengthMs === 0 ? 1 : coveredMs / lengthMs;
  const openShare = 1 - share - (unfillableMs + waitingMs) / Math.max(1, lengthMs);
  progress.show(share, countOf(rows, 'row'), [rows, 'rows'], openShare);
}

/** Works on the tasks, and reports what came of it. */
async function fillAll(
  { filling, store, startedMs }: Pick<FillContext, 'filling' | 'store'> & { startedMs: number },
  tasks: Plan,
  isJson: boolean,
  isAll: boolean,
): Promise<ExitCode> {
  if (typeof tasks === 'string') {
    printReport(isJson, { isWhole: isAll, message: tasks }, () => [tasks]);
    return isAll ? EXIT_CODES.ok : EXIT_CODES.incomplete;
  }
  const end = await filling.run(tasks);
  const nowMs = await filling.nowMs();
  const parts = await filling.progress(tasks, nowMs);
  const outcome: FillOutcome = {
    end,
    isAll,
    tasks: tasks.flatMap((task, at) => {
      const part = parts[at];
      return part === undefined ? [] : [{ ...task, progress: part }];
    }),
    gaps: await gapsOf(store, tasks, nowMs),
    rows: filling.totalsOf(tasks, parts).rows,
    durationMs: systemClock.monotonicMs() - startedMs,
  };
  printReport(isJson, outcomeDocument(outcome), () => outcomeLines(outcome));
  if (isWhole(outcome)) return EXIT_CODES.ok;
  return end === 'stopped' ? EXIT_CODES.forced : EXIT_CODES.incomplete;
}
