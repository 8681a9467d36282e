import { GAP_REASONS } from '../../ledger/gap-reasons.js';
import type { Gap, SpanProgress, Store } from '../../store/index.js';
import { roughDuration } from '../daemon/summary.js';
import { gapIdOf } from '../gaps/gap-ids.js';
import { streamName } from '../options/kinds.js';
import { formatMoment } from '../options/moments.js';
import { printable } from '../output/printable.js';
import type { FillEnd } from './filling.js';
import { percent } from './progress-line.js';
import type { FillTask } from './task.js';

/** Gaps that are named in the end; of more only the number is told. */
const NAMED_MAX = 20;
/** Gaps that are looked at for it. */
const LOOKED_MAX = 1000;

/** What filling came to. */
export interface FillOutcome {
  readonly end: FillEnd;
  readonly tasks: readonly (FillTask & { readonly progress: SpanProgress })[];
  /** What is left of the tasks, newest first; no more than a thousand. */
  readonly gaps: readonly Gap[];
  readonly rows: number;
  readonly durationMs: number;
}

/** What is missing of the tasks, from the ledger. */
export async function gapsOf(
  store: Store,
  tasks: readonly FillTask[],
  untilMs: number,
): Promise<Gap[]> {
  const marketIds = [...new Set(tasks.map(({ stream }) => stream.marketId))];
  const kinds = [...new Set(tasks.map(({ stream }) => stream.kind))];
  const fromMs = Math.min(...tasks.map(({ span }) => span.fromMs));
  const toMs = Math.max(...tasks.map(({ span }) => span.toMs));
  const filter = { marketIds, kinds, span: { fromMs, toMs }, limit: LOOKED_MAX };
  const gaps = await store.listGaps(filter, Math.max(untilMs, toMs));
  return gaps.filter((gap) =>
    tasks.some(
      ({ stream, span }) =>
        stream.streamId === gap.streamId &&
        gap.span.fromMs < span.toMs &&
        span.fromMs < gap.span.toMs,
    ),
  );
}

export function isWhole({ tasks }: FillOutcome): boolean {
  return tasks.every(({ progress }) => progress.coveredMs >= progress.lengthMs - 0.5);
}

/** For people. */
export function outcomeText(outcome: FillOutcome, again: string): string {
  const { tasks, gaps, rows, durationMs, end } = outcome;
  const lines = tasks.map(({ market, stream, span, progress }) => {
    const between = `${formatMoment(span.fromMs)} – ${formatMoment(span.toMs)}`;
    const share = percent(Math.min(1, (progress.coveredMs + 0.5) / progress.lengthMs));
    return `${printable(market)} ${streamName(stream)}  ${between}: ${share} covered`;
  });
  const stored = `${rows.toLocaleString('en-US')} rows in ${roughDuration(durationMs)}`;
  if (isWhole(outcome)) return text([...lines, `All of it is covered: ${stored}.`]);
  lines.push(`Not all of it is covered: ${stored}.`);
  if (end !== 'stopped') {
    lines.push(...gaps.slice(0, NAMED_MAX).map(gapLine));
    if (gaps.length > NAMED_MAX) lines.push(`  … and ${gaps.length - NAMED_MAX} more gaps`);
    lines.push(...reasonLines(gaps));
  }
  return text([...lines, ...adviceLines(outcome, again)]);
}

function text(lines: readonly string[]): string {
  return `${lines.join('\n')}\n`;
}

function gapLine(gap: Gap): string {
  const { market, span, state, reason } = gap;
  const between = `${formatMoment(span.fromMs)} – ${formatMoment(span.toMs)}`;
  const id = gapIdOf(gap);
  return `  ${printable(market)} ${streamName(gap)}  ${between}: ${state}, ${reason} (${id})`;
}

function reasonLines(gaps: readonly Gap[]): string[] {
  const reasons = [...new Set(gaps.map(({ reason }) => reason))];
  return reasons.map((reason) => {
    const words: string | undefined = (GAP_REASONS as Readonly<Record<string, string>>)[reason];
    return `  ${reason}: ${words ?? 'see "tapekeep gaps explain"'}`;
  });
}

function adviceLines({ end, gaps }: FillOutcome, again: string): string[] {
  if (end === 'stopped') {
    return [`Stopped. What is stored stays; run it again to go on from there: ${again}`];
  }
  const lines: string[] = [];
  if (gaps.some(({ state }) => state === 'unfillable')) {
    lines.push('What is unfillable was given up; "tapekeep gaps fill --again" tries it once more.');
  }
  if (gaps.some(({ state }) => state !== 'unfillable')) {
    lines.push(
      end === 'stuck'
        ? `Nothing has changed for a while. A running daemon goes on trying; so does: ${again}`
        : `What is open is tried again later by a running daemon, or at once by: ${again}`,
    );
  }
  return lines;
}

const iso = (ms: number) => new Date(ms).toISOString();

/** For programs. */
export function outcomeDocument(outcome: FillOutcome) {
  const { end, tasks, gaps, rows, durationMs } = outcome;
  return {
    isWhole: isWhole(outcome),
    end,
    rows,
    durationMs: Math.round(durationMs),
    streams: tasks.map(({ market, stream, span, progress }) => ({
      ...{ market, kind: stream.kind, variant: stream.variant },
      ...{ from: iso(span.fromMs), to: iso(span.toMs), lengthMs: progress.lengthMs },
      ...{ coveredMs: progress.coveredMs, unfillableMs: progress.unfillableMs },
    })),
    gaps: gaps.map(gapDocument),
  };
}

/** One gap for programs. */
export function gapDocument(gap: Gap) {
  const { market, kind, variant, span, state, reason, attempts, note } = gap;
  const { firstSeenAtMs, nextAttemptAtMs } = gap;
  return {
    ...{ id: gapIdOf(gap), market, kind, variant, from: iso(span.fromMs), to: iso(span.toMs) },
    ...{ lengthMs: span.toMs - span.fromMs, state, reason, attempts },
    firstSeenAt: firstSeenAtMs === null ? null : iso(firstSeenAtMs),
    nextAttemptAt: nextAttemptAtMs === null ? null : iso(nextAttemptAtMs),
    note,
  };
}
