import { isoSpan } from '../../kernel/timestamp.js';
import { missingOf, type Piece } from '../../model/explain.js';
import type { SeriesKind } from '../../model/kinds.js';
import type { ArchiveIdentity } from '../../store/index.js';
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
    const known = await reader.pieces(stream, span);
    all.push({ ...one, known });
    const missing = missingOf(known);
    if (missing.length > 0) gaps.push({ kind, market, stream, span, missing });
  }
  if (gaps.length > 0 && !allowGaps) throw new ExportGapsError(gaps);
  return all;
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
