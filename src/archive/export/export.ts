import type { Clock } from '../../kernel/clock.js';
import type { Span } from '../../kernel/span.js';
import { FORM_NAMES } from '../../model/columns.js';
import { type SeriesKind, seriesColumns, seriesOrder } from '../../model/kinds.js';
import type { ArchiveIdentity, RowForm, SpanCompleteness } from '../../store/index.js';
import type { Reading } from '../reading.js';
import { ExportGapsError } from './errors.js';
import {
  COLD_NOTE,
  csvField,
  type Format,
  MARKET_COLUMN,
  notesOf,
  spreadsheetField,
} from './formats.js';
import { keyOfLine, LineRewriter, momentOfLine } from './lines.js';
import {
  completenessOf,
  LISTED_MAX,
  type Manifest,
  type ManifestColumn,
  type MarketPart,
  type SeriesGaps,
} from './manifest.js';
import type { Output } from './output.js';
import { type Stage, writeTyped } from './typed.js';

/** What is exported of one market. */
export interface ExportPart {
  readonly market: string;
  readonly marketId: number;
  /** The stream that covers it; that of all markets for tickers. */
  readonly stream: { readonly streamId: number; readonly marketId: number };
  readonly span: Span;
}

export interface ExportRequest {
  readonly kind: SeriesKind;
  /** Interval of klines or period of states in seconds; 0 for the other kinds. */
  readonly variantS: number;
  /** One after the other into one file. */
  readonly parts: readonly ExportPart[];
  readonly format: Format;
  /** Writes what there is, and lists in the manifest what is missing. */
  readonly allowGaps: boolean;
  readonly archive: ArchiveIdentity | null;
  readonly version: string;
}

export interface ExportSurroundings {
  /** Closed here as soon as everything was read. */
  readonly reading: Reading;
  readonly output: Output;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** How far the reading has come. */
  readonly onProgress: (event: {
    readonly market: string;
    readonly rows: number;
    /** Of the part's span. */
    readonly doneMs: number;
  }) => void;
  /** What is done now that has no measure. */
  readonly onPhase: (phase: string) => void;
}

/** How the rows of a market are read, and what stands before each. */
interface LineForm {
  readonly form: RowForm;
  readonly isJson: boolean;
  readonly isCrLf: boolean;
  readonly prefix: (market: string) => string;
}

const LINE_FORMS: Readonly<Record<'csv' | 'ndjson' | 'staged', LineForm>> = {
  csv: {
    ...{ form: 'csv', isJson: false, isCrLf: true },
    prefix: (market) => `${spreadsheetField(market)},`,
  },
  ndjson: {
    ...{ form: 'json', isJson: true, isCrLf: false },
    prefix: (market) => `{"market":${JSON.stringify(market)},`,
  },
  staged: {
    ...{ form: 'lean', isJson: false, isCrLf: false },
    prefix: (market) => `${csvField(market)},`,
  },
};

/**
 * Writes series of markets into one file: the markets in their order, the rows of each by time and
 * id, those of cold files as well. Rows, coverage and gaps are those of one moment. Memory does not grow with the rows; Parquet and
 * Arrow are made of text that waits on the disk until all of it was seen, because their decimals need
 * to know the longest.
 *
 * @returns the manifest, which is in its place with the file
 * @throws ExportGapsError, DiskFullError, or the signal's reason; nothing is then left behind
 */
export async function exportSeries(
  request: ExportRequest,
  around: ExportSurroundings,
): Promise<Manifest> {
  const { kind, format, parts } = request;
  const { output, reading } = around;
  const known = await readCompleteness(request, reading);
  const isText = format === 'csv' || format === 'ndjson';
  let written: MarketPart[];
  let columns: readonly ManifestColumn[];
  if (isText) {
    const all = [MARKET_COLUMN, ...seriesColumns(kind, false)];
    columns = all.map((one) => ({ ...one, type: FORM_NAMES[one.type][format] }));
    if (format === 'csv') {
      await output.write(Buffer.from(`${all.map(({ name }) => name).join(',')}\r\n`));
    }
    const write = (bytes: Uint8Array) => output.write(bytes);
    written = await writeLines(request, known, LINE_FORMS[format], around, write);
    await reading.close();
  } else {
    const fill: Stage['fill'] = async (write) => {
      const result = await writeLines(request, known, LINE_FORMS.staged, around, write);
      await reading.close();
      return result;
    };
    const all = [MARKET_COLUMN, ...seriesColumns(kind, true)];
    const about = { tapekeep: request.version, kind, order: orderOf(kind) };
    const { output: target, signal, onPhase } = around;
    const typed = await writeTyped({ columns: all, fill, format, about }, target, {
      ...{ signal, onPhase },
    });
    written = typed.parts;
    columns = typed.columns;
  }
  around.signal.throwIfAborted();
  const manifest: Manifest = {
    tapekeep: request.version,
    madeAt: new Date(around.clock.wallMs()).toISOString(),
    archive: request.archive,
    kind,
    ...(request.variantS === 0 ? {} : { variantS: request.variantS }),
    ...{ file: output.fileName, format, ...output.sums() },
    rows: written.reduce((sum, { rows }) => sum + rows, 0),
    isComplete: parts.every((_, index) => known[index]?.missingCount === 0),
    order: orderOf(kind),
    columns: columns.map(({ name, type, isNullable, about }) => ({
      name,
      type,
      isNullable,
      about,
    })),
    notes: [
      ...notesOf(kind, !isText),
      ...(isText && isPartlyCold(request, reading) ? [COLD_NOTE] : []),
    ],
    markets: written,
  };
  await output.commit(`${JSON.stringify(manifest, null, 2)}\n`);
  return manifest;
}

/** Whether some of the rows come from files, which keep numbers and not their texts. */
function isPartlyCold({ kind, parts }: ExportRequest, reading: Reading): boolean {
  return parts.some(({ span }) => reading.parts(kind, span).some(({ state }) => state === 'cold'));
}

function orderOf(kind: SeriesKind): string[] {
  return [MARKET_COLUMN.name, ...seriesOrder(kind)];
}

/** @throws ExportGapsError unless all is there, or gaps are allowed */
async function readCompleteness(
  { kind, parts, allowGaps }: ExportRequest,
  reading: Reading,
): Promise<SpanCompleteness[]> {
  const known: SpanCompleteness[] = [];
  const gaps: SeriesGaps[] = [];
  for (const { market, stream, span } of parts) {
    const one = await reading.completeness(stream, span, LISTED_MAX);
    known.push(one);
    const { missing, missingCount, missingMs } = one;
    if (missingCount > 0) gaps.push({ kind, market, span, missing, missingCount, missingMs });
  }
  if (gaps.length > 0 && !allowGaps) throw new ExportGapsError(gaps);
  return known;
}

async function writeLines(
  { kind, variantS, parts }: ExportRequest,
  known: readonly SpanCompleteness[],
  { form, isJson, isCrLf, prefix }: LineForm,
  { reading, onProgress }: ExportSurroundings,
  write: (bytes: Uint8Array) => Promise<void>,
): Promise<MarketPart[]> {
  const hasId = seriesOrder(kind).length > 1;
  const written: MarketPart[] = [];
  for (const [index, { market, marketId, span }] of parts.entries()) {
    const lines = new LineRewriter(prefix(market), { lead: isJson ? '{' : '', isCrLf });
    for await (const piece of reading.rows({ kind, marketId, variantS, span }, form)) {
      const rewritten = lines.push(piece);
      if (rewritten.length > 0) await write(rewritten);
      const { rows, last } = lines;
      if (last !== null) onProgress({ market, rows, doneMs: momentOfLine(last) - span.fromMs });
    }
    const { rows, first, last } = lines;
    onProgress({ market, rows, doneMs: span.toMs - span.fromMs });
    const key = (line: string | null) => (line === null ? null : keyOfLine(line, isJson, hasId));
    const one = known[index];
    if (one === undefined) continue;
    written.push({
      ...{ market, from: iso(span.fromMs), to: iso(span.toMs), rows },
      ...{ first: key(first), last: key(last), ...completenessOf(one) },
    });
  }
  return written;
}

const iso = (ms: number) => new Date(ms).toISOString();
