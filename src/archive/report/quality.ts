import { obtain } from '../../kernel/bounded.js';
import { DAY_MS } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import { isoMs, isoSpan } from '../../kernel/timestamp.js';
import { CONDITIONS, type Condition } from '../../model/day-conditions.js';
import { incidentsOf } from '../../model/incidents.js';
import type { Gap, Run, Store, StreamDay } from '../../store/index.js';

/** Data quality of a month: what the report shows in each of its forms. */

/** Figures of a stream, or of several together, over the month. */
export interface Continuity {
  readonly rows: number;
  readonly gaps: number;
  /** Null without rows. */
  readonly gapsPerMillionRows: number | null;
  readonly expectedS: number;
  readonly missingS: number;
  /** The part of it that cannot be fetched any more. */
  readonly unfillableS: number;
  /** Missing in a year at this rate; null where nothing is expected. */
  readonly missingSPerYear: number | null;
  readonly days: Readonly<Record<Condition, number>>;
}

export interface StreamQuality extends Continuity {
  readonly market: string;
  readonly kind: string;
  /** Seconds of candles and states, else 0. */
  readonly variant: number;
}

export interface KindQuality extends Continuity {
  readonly kind: string;
  readonly streams: number;
}

export interface IncidentQuality {
  readonly cause: string;
  readonly state: string;
  readonly from: string;
  readonly to: string;
  readonly lengthMs: number;
  readonly streams: number;
  readonly markets: number;
}

export interface CheckQuality {
  readonly market: string;
  readonly intervalS: number;
  readonly verified: number;
  readonly mismatches: number;
}

export interface RunQuality {
  readonly startedAt: string;
  /** Null while it may still run. */
  readonly endedAt: string | null;
  readonly host: string;
  readonly version: string;
  readonly configHash: string;
  /** Differences from the run before: host, version, configuration. */
  readonly changed: readonly string[];
}

export interface QualityReport {
  /** `2026-01` */
  readonly month: string;
  readonly from: string;
  readonly to: string;
  readonly madeAt: string;
  /** False: days of it are still to come. */
  readonly hasEnded: boolean;
  readonly exchange: string | null;
  readonly isSandbox: boolean | null;
  readonly version: string;
  readonly kinds: readonly KindQuality[];
  readonly streams: readonly StreamQuality[];
  readonly incidents: readonly IncidentQuality[];
  /** False: there are more gaps than were read, so that gaps and incidents are too few. */
  readonly isAll: boolean;
  readonly checks: readonly CheckQuality[];
  readonly runs: readonly RunQuality[];
}

/** Gaps of a month that are read. */
const GAPS_MAX = 50_000;
const YEAR_S = (365.25 * DAY_MS) / 1000;

/** Whole month of UTC. @param month `2026-01` */
export function monthSpan(month: string): Span {
  const fromMs = Date.parse(`${month}-01T00:00:00Z`);
  const start = new Date(fromMs);
  return { fromMs, toMs: Date.UTC(start.getUTCFullYear(), start.getUTCMonth() + 1) };
}

/**
 * Reads the data quality of a month.
 *
 * @param nowMs exchange time
 * @throws StoreError
 */
export async function readQuality(
  store: Pick<Store, 'inspection' | 'listGaps' | 'archive'>,
  {
    month,
    nowMs,
    madeMs,
    version,
  }: {
    readonly month: string;
    readonly nowMs: number;
    readonly madeMs: number;
    readonly version: string;
  },
): Promise<QualityReport> {
  const span = monthSpan(month);
  const { inspection } = store;
  const archive = await store.archive();
  const days = await inspection.days({}, span, nowMs);
  const found = await store.listGaps({ span, limit: GAPS_MAX + 1 }, nowMs);
  const gaps = found.slice(0, GAPS_MAX).filter(({ isBeforeHistory }) => !isBeforeHistory);
  const streams = streamsOf(days, gaps);
  const names = await inspection.streamNames();
  const nameOf = new Map(names.map(({ marketId, market }) => [marketId, market]));
  const counts = await inspection.checkCounts(span);
  return {
    ...{ month, ...isoSpan(span), madeAt: isoMs(madeMs), hasEnded: span.toMs <= nowMs, version },
    exchange: archive?.name ?? null,
    isSandbox: archive?.isSandbox ?? null,
    ...{ kinds: kindsOf(streams), streams },
    incidents: incidentsOf(gaps).map((one) => ({
      ...{ cause: one.cause, state: one.state, ...isoSpan(one.span) },
      ...{ lengthMs: one.span.toMs - one.span.fromMs, streams: one.streams, markets: one.markets },
    })),
    isAll: found.length <= GAPS_MAX,
    checks: counts.map(({ marketId, intervalS, verified, mismatches }) => ({
      market: nameOf.get(marketId) ?? '',
      ...{ intervalS, verified: Math.floor(verified), mismatches },
    })),
    runs: runsOf(await inspection.runs(span), span),
  };
}

const NO_DAYS: Readonly<Record<Condition, number>> = {
  ...{ available: 0, degraded: 0, pending: 0, missing: 0 },
};

const keyOf = ({ market, kind, variant }: Pick<StreamQuality, 'market' | 'kind' | 'variant'>) =>
  `${kind} ${variant} ${market}`;

function streamsOf(days: readonly StreamDay[], gaps: readonly Gap[]): StreamQuality[] {
  const gapsOf = new Map<string, number>();
  for (const gap of gaps) gapsOf.set(keyOf(gap), (gapsOf.get(keyOf(gap)) ?? 0) + 1);
  const byStream = new Map<string, StreamDay[]>();
  for (const day of days) obtain(byStream, keyOf(day), () => []).push(day);
  return [...byStream].map(([key, own]) => {
    const [{ market, kind, variant } = { market: '', kind: '', variant: 0 }] = own;
    const sum = (of: (day: StreamDay) => number) => own.reduce((all, day) => all + of(day), 0);
    return {
      ...{ market, kind, variant },
      ...continuity({
        rows: sum((day) => day.rows),
        gaps: gapsOf.get(key) ?? 0,
        expectedS: sum((day) => day.expectedS),
        missingS: sum((day) => day.openS + day.unfillableS),
        unfillableS: sum((day) => day.unfillableS),
        days: countDays(own.map(({ condition }) => ({ ...NO_DAYS, [condition]: 1 }))),
      }),
    };
  });
}

function kindsOf(streams: readonly StreamQuality[]): KindQuality[] {
  const byKind = new Map<string, StreamQuality[]>();
  for (const one of streams) obtain(byKind, one.kind, () => []).push(one);
  return [...byKind].map(([kind, own]) => {
    const sum = (of: (one: StreamQuality) => number) => own.reduce((all, one) => all + of(one), 0);
    const sums = {
      rows: sum((one) => one.rows),
      gaps: sum((one) => one.gaps),
      expectedS: sum((one) => one.expectedS),
      missingS: sum((one) => one.missingS),
      unfillableS: sum((one) => one.unfillableS),
    };
    const days = countDays(own.map((one) => one.days));
    return { kind, streams: own.length, ...continuity({ ...sums, days }) };
  });
}

function countDays(all: readonly Readonly<Record<Condition, number>>[]) {
  const counts = { ...NO_DAYS } as Record<Condition, number>;
  for (const one of all) for (const name of CONDITIONS) counts[name] += one[name];
  return counts;
}

function continuity(sums: Omit<Continuity, 'gapsPerMillionRows' | 'missingSPerYear'>): Continuity {
  const { rows, gaps, expectedS, missingS } = sums;
  return {
    ...sums,
    gapsPerMillionRows: rows === 0 ? null : (gaps * 1e6) / rows,
    missingSPerYear: expectedS === 0 ? null : (missingS / expectedS) * YEAR_S,
  };
}

function runsOf(runs: readonly Run[], { fromMs }: Span): RunQuality[] {
  return runs.flatMap((run, at) => {
    const { startedAtMs, endedAtMs, host, version, configHash } = run;
    const before = runs[at - 1];
    if (endedAtMs !== null && endedAtMs < fromMs) return [];
    const changed = [
      ...(before !== undefined && before.host !== host ? ['host'] : []),
      ...(before !== undefined && before.version !== version ? ['version'] : []),
      ...(before !== undefined && before.configHash !== configHash ? ['configuration'] : []),
    ];
    return [
      {
        startedAt: isoMs(startedAtMs),
        endedAt: endedAtMs === null ? null : isoMs(endedAtMs),
        ...{ host, version, configHash, changed },
      },
    ];
  });
}
