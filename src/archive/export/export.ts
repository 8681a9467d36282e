import type { Clock } from '../../kernel/clock.js';
import type { Span } from '../../kernel/span.js';
import { isoMs, isoSpan } from '../../kernel/timestamp.js';
import { FORM_NAMES } from '../../model/columns.js';
import { missingOf } from '../../model/explain.js';
import { MARKET_COLUMN, type SeriesKind, seriesColumns, seriesOrder } from '../../model/kinds.js';
import type { ArchiveIdentity, RowForm, StoredRows, StreamPlace } from '../../store/index.js';
import { asDiskFull } from '../errors.js';
import { fillFile } from '../files.js';
import { csvField, keyOfLine, LineRewriter, spreadsheetField, timeOfLine } from '../lines.js';
import type { StagedRows } from '../parquet/columns.js';
import { writeParquet } from '../parquet/file.js';
import { DuckSession } from '../parquet/session.js';
import type { ArchiveReader } from '../reading.js';
import {
  COLD_NOTE,
  completenessOf,
  type DaysPart,
  type Format,
  type Known,
  type Manifest,
  type ManifestColumn,
  type MarketPart,
  notesOf,
  readCompleteness,
  readConditions,
} from './manifest.js';
import type { Output } from './output.js';

/** Part of an export for one market. */
export interface ExportPart {
  readonly market: string;
  readonly marketId: number;
  /** The stream that covers it. */
  readonly stream: StreamPlace;
  readonly span: Span;
  /** Notes for readers beside its rows. */
  readonly notes: readonly string[];
  /** Rows before the span that are written as well. */
  readonly late?: LateRows;
}

/** Rows that were stored after an earlier export of their time. */
export interface LateRows {
  readonly fromMs: number;
  /** In the order of time, those that overlap together. */
  readonly slices: readonly { readonly span: Span; readonly stored: readonly StoredRows[] }[];
}

export interface ExportRequest {
  readonly kind: SeriesKind;
  /** Interval of candles or period of states in seconds; 0 for the other kinds. */
  readonly variantS: number;
  /** One after the other into one file. */
  readonly parts: readonly ExportPart[];
  readonly format: Format;
  /** Writes what there is, and lists in the manifest what is missing. */
  readonly allowGaps: boolean;
  readonly archive: ArchiveIdentity | null;
  readonly version: string;
  /** Name of the file that this one continues. */
  readonly continues?: string;
  /** Exchange time. */
  readonly nowMs: number;
}

export interface ExportSurroundings {
  /** Closed here as soon as everything was read. */
  readonly reader: ArchiveReader;
  readonly output: Output;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** How far the reading has come. */
  readonly onProgress: (event: {
    readonly market: string;
    readonly rows: number;
    /** Coverage of the part's span. */
    readonly doneMs: number;
  }) => void;
  /** Current step without a measure. */
  readonly onPhase: (phase: string) => void;
}

/** How rows become lines of a file. */
interface LineStyle {
  /** In which they are read. */
  readonly form: RowForm;
  /** Stands before each row of a market. */
  readonly prefix: (market: string) => string;
}

const STYLES = {
  csv: { form: 'csv', prefix: (market) => `${spreadsheetField(market)},` },
  ndjson: { form: 'json', prefix: (market) => `{"market":${JSON.stringify(market)},` },
  staged: { form: 'csv', prefix: (market) => `${csvField(market)},` },
} as const satisfies Readonly<Record<string, LineStyle>>;

/**
 * Writes series of markets into one file: the markets in their order, the rows of each by time and id,
 * hot and cold. Rows, coverage and gaps are those of one instant. Memory does not grow with the rows.
 *
 * @returns the manifest, which is in its place with the file
 * @throws ExportGapsError, DiskFullError, or the signal's reason; nothing is then left behind
 */
export async function exportSeries(
  request: ExportRequest,
  around: ExportSurroundings,
): Promise<Manifest> {
  const { kind, format } = request;
  const { output, reader } = around;
  const wanted = request.parts.map((one) => ({ ...one, kind }));
  const parts = await readCompleteness(reader, wanted, request.allowGaps);
  const days = await readConditions(reader, request.parts, request, request.nowMs);
  const journal = await reader.snapshot.journalNumber();
  const isText = format === 'csv' || format === 'ndjson';
  const { written, columns } = isText
    ? await writeText(request, format, parts, around)
    : await writeTyped(request, parts, around);
  around.signal.throwIfAborted();
  const manifest: Manifest = {
    tapekeep: request.version,
    madeAt: isoMs(around.clock.wallMs()),
    archive: request.archive,
    kind,
    ...(request.variantS === 0 ? {} : { variantS: request.variantS }),
    ...{ file: output.fileName, format, ...output.sums() },
    rows: written.reduce((sum, { rows }) => sum + rows, 0),
    isComplete: parts.every(({ known }) => missingOf(known).length === 0),
    order: orderOf(kind),
    columns: columns.map(({ name, type, isNullable, about }) => ({
      name,
      type,
      isNullable,
      about,
    })),
    notes: [
      ...notesOf(kind),
      ...(isText && isPartlyCold(request, reader) ? [COLD_NOTE] : []),
      ...request.parts.flatMap((one) => one.notes),
    ],
    markets: written.map((part, at) => ({ ...part, days: days[at] as DaysPart })),
    journal,
    ...(request.continues === undefined ? {} : { continues: request.continues }),
  };
  await output.commit(manifest);
  return manifest;
}

/** Rows of a market in the file. */
type WrittenPart = Omit<MarketPart, 'days'>;

/** Content of a file. */
interface Written {
  readonly written: WrittenPart[];
  readonly columns: readonly ManifestColumn[];
}

async function writeText(
  request: ExportRequest,
  format: 'csv' | 'ndjson',
  parts: readonly Known<ExportPart>[],
  around: ExportSurroundings,
): Promise<Written> {
  const write = (bytes: Uint8Array) => around.output.write(bytes);
  const all = [MARKET_COLUMN, ...seriesColumns(request.kind)];
  if (format === 'csv') await write(Buffer.from(`${all.map(({ name }) => name).join(',')}\r\n`));
  const written = await writeLines(request, parts, format, around, write);
  await around.reader.close();
  return { written, columns: all.map((one) => ({ ...one, type: FORM_NAMES[one.type][format] })) };
}

/**
 * Stages the rows as text first, then writes them in types that hold every one of them: how wide their
 * decimals are is known when all were seen.
 */
async function writeTyped(
  request: ExportRequest,
  parts: readonly Known<ExportPart>[],
  around: ExportSurroundings,
): Promise<Written> {
  const { kind, version } = request;
  const { output, signal } = around;
  const rows: StagedRows = {
    path: output.scratch('rows.csv'),
    columns: [MARKET_COLUMN, ...seriesColumns(kind)],
  };
  const staging = fillFile(rows.path, (add) => writeLines(request, parts, 'staged', around, add));
  const written = await staging.catch((error: unknown) => {
    throw asDiskFull(error, output.name);
  });
  await around.reader.close();
  using duck = await DuckSession.open(output.scratch('spill'), {}, signal);
  try {
    around.onPhase('writing Parquet');
    const path = output.scratch('rows.parquet');
    const about = { tapekeep: version, kind, order: orderOf(kind) };
    const columns = await writeParquet(duck, rows, path, { about });
    await output.writeFile(path, signal);
    return { written, columns: columns.map((one) => ({ ...one, type: one.sqlType })) };
  } catch (error) {
    throw asDiskFull(error, output.name);
  }
}

/** Returns true if some of the rows come from files, which keep numbers and not their texts. */
function isPartlyCold({ kind, parts }: ExportRequest, reader: ArchiveReader): boolean {
  return parts.some(({ span }) =>
    reader.segments(kind, span).some(({ state }) => state === 'cold'),
  );
}

function orderOf(kind: SeriesKind): string[] {
  return [MARKET_COLUMN.name, ...seriesOrder(kind)];
}

async function writeLines(
  { kind, variantS }: ExportRequest,
  parts: readonly Known<ExportPart>[],
  style: keyof typeof STYLES,
  { reader, onProgress }: ExportSurroundings,
  write: (bytes: Uint8Array) => Promise<void>,
): Promise<WrittenPart[]> {
  const hasId = seriesOrder(kind).length > 1;
  const { form, prefix } = STYLES[style];
  const isJson = form === 'json';
  const options = { lead: isJson ? '{' : '', isCrLf: style === 'csv' };
  const written: WrittenPart[] = [];
  for (const { market, marketId, span, known, late } of parts) {
    const lines = new LineRewriter(prefix(market), options);
    for (const slice of [...(late?.slices ?? []), { span }]) {
      for await (const piece of reader.rows({ kind, marketId, variantS, ...slice }, form)) {
        const rewritten = lines.push(piece);
        if (rewritten.length > 0) await write(rewritten);
        const { rows, last } = lines;
        const doneMs = last === null ? 0 : Math.max(0, timeOfLine(last) - span.fromMs);
        onProgress({ market, rows, doneMs });
      }
    }
    const { rows, first, last } = lines;
    onProgress({ market, rows, doneMs: span.toMs - span.fromMs });
    const key = (line: string | null) => (line === null ? null : keyOfLine(line, isJson, hasId));
    written.push({
      ...{ market, ...isoSpan(span), rows },
      ...(late === undefined ? {} : { lateFrom: isoMs(late.fromMs) }),
      ...{ first: key(first), last: key(last), ...completenessOf(known) },
    });
  }
  return written;
}
