import { extname } from 'node:path';
import { type ExportPart, exportSeries } from '../../archive/export/export.js';
import type { Format, Manifest } from '../../archive/export/manifest.js';
import { Output } from '../../archive/export/output.js';
import { openReading } from '../../archive/reading.js';
import { systemClock } from '../../kernel/clock.js';
import { MINUTE_MS } from '../../kernel/durations.js';
import { totalLengthMs } from '../../kernel/span.js';
import type { KnownStream, Store } from '../../store/index.js';
import type { ExitCode } from '../exit-codes.js';
import { emptyReason } from '../export/empty-export.js';
import { untilStopped } from '../export/export-ending.js';
import { type ExportSelection, exportParts } from '../export/export-selection.js';
import { UsageError } from '../failure.js';
import { coldDirOf } from '../opening/database.js';
import { lookAt } from '../opening/looking.js';
import { type CommonOptions, openSession } from '../opening/session.js';
import { jsonLine, printable } from '../output/printable.js';
import { Progress } from '../output/progress.js';
import { writeOut } from '../output/write-out.js';
import { VERSION } from '../version.js';

export interface ExportOptions extends CommonOptions, ExportSelection {
  readonly format?: Format;
  /** A path; `-` is standard output. */
  readonly out: string;
  readonly manifest?: string;
  readonly allowGaps?: boolean;
  readonly force?: boolean;
}

const BY_ENDING: Readonly<Record<string, Format>> = {
  '.csv': 'csv',
  '.ndjson': 'ndjson',
  '.jsonl': 'ndjson',
  '.parquet': 'parquet',
  '.arrow': 'arrow',
};

/**
 * Writes series of the archive into a file, or to standard output, with a manifest. Works beside a
 * running daemon.
 *
 * @throws UsageError for an unknown market, interval or span; OutputError; DiskFullError
 */
export async function exportCommand(options: ExportOptions): Promise<ExitCode> {
  const format = options.format ?? BY_ENDING[extname(options.out).toLowerCase()] ?? 'csv';
  const path = options.out === '-' ? undefined : options.out;
  const isBinary = format === 'parquet' || format === 'arrow';
  if (path === undefined && isBinary && process.stdout.isTTY) {
    throw new UsageError('--format', format, 'a terminal can not show it; name a file with --out');
  }
  const session = openSession({ logLevel: 'warn', ...options });
  return await untilStopped('nothing was written', async (signal) => {
    await lookAt(
      session,
      async ({ store, streams, nowMs }) => {
        const { variantS, parts } = await exportParts(options, store, streams, nowMs);
        const output = await Output.open({
          ...{ path, manifestPath: options.manifest, sink: { write: writeOut } },
          isForced: options.force === true,
        });
        try {
          const manifest = await run(
            store,
            { ...options, format, variantS, parts, coldDir: coldDirOf(session.config) },
            output,
            signal,
          );
          tell(manifest, output, emptyLines(manifest, parts, streams, nowMs));
        } finally {
          await output.discard();
        }
      },
      'by itself',
    );
  });
}

interface Work extends ExportOptions {
  readonly format: Format;
  readonly variantS: number;
  readonly parts: readonly ExportPart[];
  readonly coldDir: string;
}

async function run(
  store: Store,
  { kind, variantS, parts, format, allowGaps, coldDir }: Work,
  output: Output,
  signal: AbortSignal,
): Promise<Manifest> {
  const totalMs = parts.reduce((sum, { span }) => sum + totalLengthMs([span]), 0);
  const progress = new Progress(
    ...([process.stderr, systemClock, 'minutes of', Math.ceil(totalMs / MINUTE_MS)] as const),
  );
  const done = new Map<string, number>();
  let shown = 0;
  const archive = await store.archive();
  const reading = await openReading(store, { coldDir, signal });
  try {
    return await exportSeries(
      {
        ...{ kind, variantS, parts, format, archive, version: VERSION },
        allowGaps: allowGaps === true,
      },
      {
        ...{ reading, output, clock: systemClock, signal },
        onProgress: ({ market, rows, doneMs }) => {
          done.set(market, doneMs);
          const minutes = Math.floor([...done.values()].reduce((a, b) => a + b, 0) / MINUTE_MS);
          const detail = `${printable(market)}: ${rows.toLocaleString('en-US')} rows`;
          progress.advance(minutes - shown, detail);
          shown = minutes;
        },
        onPhase: (phase) => progress.say(`${phase} …`),
      },
    );
  } finally {
    progress.end();
    await reading.close();
  }
}

/**
 * What was written, beside the data: those may be on standard output, and then the manifest is all that is
 * told, for programs to read.
 */
function tell(manifest: Manifest, output: Output, empty: readonly string[]): void {
  if (output.manifestPath === undefined) {
    process.stderr.write(jsonLine(manifest));
    return;
  }
  const { rows, bytes, sha256, kind, markets } = manifest;
  const gaps = markets.reduce((sum, one) => sum + one.gaps.count, 0);
  const lines = [
    `${rows.toLocaleString('en-US')} ${rows === 1 ? 'row' : 'rows'} of ${kind} in ${printable(output.name)} (${bytes.toLocaleString('en-US')} bytes, sha256 ${sha256})`,
    ...empty,
    `manifest in ${printable(output.manifestPath)}`,
    ...(gaps === 0
      ? []
      : [`${gaps} ${gaps === 1 ? 'gap' : 'gaps'} in it; the manifest lists them`]),
  ];
  process.stderr.write(`${lines.join('\n')}\n`);
}

/** Markets whose reasons are told; the manifest has the coverage of all. */
const EXPLAINED_MAX = 5;

/** Why there is nothing of markets of which there is nothing. */
function emptyLines(
  { kind, markets }: Manifest,
  parts: readonly ExportPart[],
  streams: readonly KnownStream[],
  nowMs: number,
): string[] {
  const empty = markets.flatMap((one, at) =>
    one.rows > 0 ? [] : [{ ...one, what: kind, streamId: parts[at]?.stream.streamId }],
  );
  const lines = empty.slice(0, EXPLAINED_MAX).map((one) => emptyReason(one, streams, nowMs));
  const rest = empty.length - lines.length;
  return rest === 0 ? lines : [...lines, `… and none of ${rest} other markets`];
}
