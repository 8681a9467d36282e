import { obtain } from '../../kernel/bounded.js';
import { DAY_MS } from '../../kernel/durations.js';
import { ceilToMs, floorToMs, hullOf, isEmptySpan, type Span } from '../../kernel/span.js';
import { isoMs, isoSpan } from '../../kernel/timestamp.js';
import { type Condition, conditionOf, sumPieces } from '../../model/day-conditions.js';
import { missingOf, type Piece } from '../../model/explain.js';
import { type SeriesKind, tableOfKind } from '../../model/kinds.js';
import { streamsOf } from '../../model/series.js';
import type { ArchiveIdentity, StreamPiece } from '../../store/index.js';
import { ExportGapsError, type SeriesGaps } from '../errors.js';
import type { RowKey } from '../lines.js';
import type { ArchiveReader } from '../reading.js';

/** The forms of a file. */
export const FORMATS = ['csv', 'ndjson', 'parquet'] as const;
export type Format = (typeof FORMATS)[number];

/** Content of a file for one market. */
export interface MarketPart {
  readonly market: string;
  readonly from: string;
  readonly to: string;
  /** Rows before `from` and since this time were stored after the file that this one continues. */
  readonly lateFrom?: string;
  readonly rows: number;
  readonly first: RowKey | null;
  readonly last: RowKey | null;
  readonly coverage: Listed<{ readonly from: string; readonly to: string }>;
  readonly gaps: Listed<{
    readonly from: string;
    readonly to: string;
    readonly state: string;
    readonly reason: string;
    readonly note?: string;
  }>;
  readonly days: DaysPart;
}

/** Conditions of the days (UTC) that a part reaches into, each of the whole day, as of the file's making. */
export interface DaysPart extends Readonly<Record<Condition, number>> {
  /** Those that are not available. */
  readonly others: Listed<{ readonly day: string; readonly condition: Condition }>;
}

/** A list that is cut where it would be endless; `count` is of all. */
interface Listed<T> {
  readonly count: number;
  readonly list: readonly T[];
}

/** Stands beside a file: enough to check whether it is whole, and whether it is what one needs. */
export interface Manifest {
  readonly tapekeep: string;
  /** Clock of this machine. */
  readonly madeAt: string;
  readonly archive: ArchiveIdentity | null;
  /** Name without folder; null when it went to standard output. */
  readonly file: string | null;
  readonly bytes: number;
  readonly sha256: string;
  readonly rows: number;
  /** Nothing of the spans is missing in what was read. */
  readonly isComplete: boolean;
  readonly notes: readonly string[];
  readonly kind: SeriesKind;
  /** Interval of candles or period of states in seconds. */
  readonly variantS?: number;
  readonly format: Format;
  readonly order: readonly string[];
  readonly columns: readonly ManifestColumn[];
  readonly markets: readonly MarketPart[];
  /** Number of the newest entry of the journal that the file has. */
  readonly journal: number;
  /** Name of the file that this one continues. */
  readonly continues?: string;
}

export interface ManifestColumn {
  readonly name: string;
  readonly type: string;
  readonly isNullable: boolean;
  readonly about: string;
}

/** Spans that a manifest lists of one market at most. */
const LISTED_MAX = 10_000;

/** The ledger's word on one market, as the manifest has it. */
export function completenessOf(pieces: readonly Piece[]): Pick<MarketPart, 'coverage' | 'gaps'> {
  const covered = pieces.filter(({ state }) => state === 'covered');
  const missing = missingOf(pieces);
  return {
    coverage: {
      count: covered.length,
      list: covered.slice(0, LISTED_MAX).map(({ span }) => isoSpan(span)),
    },
    gaps: {
      count: missing.length,
      list: missing.slice(0, LISTED_MAX).map(({ span, state, reason, note }) => ({
        ...isoSpan(span),
        state,
        reason,
        ...(note === null ? {} : { note }),
      })),
    },
  };
}

/** A span of a market that is to be complete. */
type WantedSpan = Pick<SeriesGaps, 'kind' | 'market' | 'stream' | 'span'>;

/** Requested spans, with the pieces that the ledger has of them. */
export type Known<Wanted> = Wanted & { readonly known: readonly Piece[] };

/**
 * The ledger of spans that are to be written.
 *
 * @throws ExportGapsError unless all is there, or gaps are allowed
 */
export async function readCompleteness<Wanted extends WantedSpan>(
  reader: ArchiveReader,
  wanted: readonly Wanted[],
  allowGaps: boolean,
): Promise<Known<Wanted>[]> {
  const all: Known<Wanted>[] = [];
  const gaps: SeriesGaps[] = [];
  for (const one of wanted) {
    const { kind, market, span, stream } = one;
    const known = isEmptySpan(span) ? [] : await reader.pieces(stream, span);
    all.push({ ...one, known });
    const missing = missingOf(known);
    if (missing.length > 0) gaps.push({ kind, market, stream, span, missing });
  }
  if (gaps.length > 0 && !allowGaps) throw new ExportGapsError(gaps);
  return all;
}

/** Days that a manifest names of one market at most. */
const DAYS_LISTED_MAX = 1000;

/** Span of whole days. */
const wholeDays = ({ fromMs, toMs }: Span): Span => ({
  fromMs: floorToMs(fromMs, DAY_MS),
  toMs: ceilToMs(toMs, DAY_MS),
});

/**
 * Reads the conditions of all days that some parts reach into, one entry for each part.
 *
 * @param nowMs exchange time
 * @throws StoreError
 */
export async function readConditions(
  reader: ArchiveReader,
  parts: readonly Pick<WantedSpan, 'stream' | 'span'>[],
  { kind, variantS }: { readonly kind: SeriesKind; readonly variantS: number },
  nowMs: number,
): Promise<DaysPart[]> {
  const spans = parts.map(({ span }) => (isEmptySpan(span) ? undefined : wholeDays(span)));
  const whole = hullOf(spans.filter((span) => span !== undefined));
  const marketIds = parts.map(({ stream }) => stream.marketId);
  const choice = { marketIds, kind: streamsOf(tableOfKind(kind))[0], variant: variantS };
  const pieces = isEmptySpan(whole) ? [] : await reader.streamPieces(choice, whole, nowMs);
  const own = new Map<number, StreamPiece[]>();
  for (const one of pieces) obtain(own, one.streamId, () => []).push(one);
  return parts.map(({ stream }, at) => {
    const span = spans[at];
    const days = span && conditionsOf(own.get(stream.streamId) ?? [], span, nowMs);
    return daysPart(days ?? []);
  });
}

function conditionsOf(pieces: readonly StreamPiece[], { fromMs, toMs }: Span, nowMs: number) {
  const count = (toMs - fromMs) / DAY_MS;
  const { sums, mismatches } = sumPieces(pieces, fromMs, DAY_MS, count);
  return sums.flatMap((sum, at) => {
    const dayMs = fromMs + at * DAY_MS;
    const condition = conditionOf(sum, mismatches[at] ?? 0, dayMs + DAY_MS <= nowMs);
    return condition === null ? [] : [{ day: isoMs(dayMs).slice(0, 10), condition }];
  });
}

function daysPart(days: DaysPart['others']['list']): DaysPart {
  const countOf = (condition: Condition) =>
    days.filter((one) => one.condition === condition).length;
  const others = days.filter(({ condition }) => condition !== 'available');
  return {
    available: countOf('available'),
    degraded: countOf('degraded'),
    pending: countOf('pending'),
    missing: countOf('missing'),
    others: { count: others.length, list: others.slice(0, DAYS_LISTED_MAX) },
  };
}

/** Note in a text whose rows are not all from the database. */
export const COLD_NOTE =
  'Decimals of rows that were in cold files are without zeros at their ends; the values are the same.';

/** Returns true if an observation that equals the one before is not stored again. */
export const isStoredOnChange = (kind: string) => kind === 'tickers' || kind === 'depth';

/** Notes about a series beside its columns. */
export function notesOf(kind: SeriesKind): string[] {
  const unchanged =
    'An observation that equals the one before is not stored again: a row holds until the next one, as far as coverage goes.';
  if (isStoredOnChange(kind)) return [unchanged];
  if (kind === 'candles') return ['A candle that is absent inside coverage did not exist.'];
  return [];
}
