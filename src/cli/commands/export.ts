import { extname } from 'node:path';
import type { Command } from 'commander';
import { exportSeries } from '../../archive/export/export.js';
import { FORMATS, type Format, type Manifest } from '../../archive/export/manifest.js';
import { Output } from '../../archive/export/output.js';
import { exportFor, type InterchangeManifest } from '../../archive/interchange/interchange.js';
import type { Tool } from '../../archive/interchange/request.js';
import { openReading } from '../../archive/reading.js';
import { systemClock } from '../../kernel/clock.js';
import { type CommonOptions, command, nothing, VERSION } from '../command.js';
import { emptyReason, exporting, SpanProgressBar } from '../export/outcome.js';
import {
  EXPORT_OPTIONS,
  type ExportSelection,
  exportParts,
  type InterchangeSelection,
  interchangeParts,
} from '../export/selection.js';
import { UsageError } from '../failure.js';
import { coldDirOf } from '../opening/database.js';
import type { Typed } from '../options.js';
import { countOf, jsonLine, type Lines, printable, textOf, whole, writeOut } from '../output.js';

/** What files end with, and the form that says so. */
const ENDINGS: Readonly<Record<string, Format>> = {
  ...(Object.fromEntries(FORMATS.map((one) => [`.${one}`, one])) as Record<string, Format>),
  '.jsonl': 'ndjson',
};

/**
 * The form of a file, by what its name ends with; CSV for a name without an ending, such as a pipe.
 *
 * @throws UsageError for an ending of something else: a program would take the file for that
 */
function formatOf(path: string): Format {
  const ending = extname(path).toLowerCase();
  if (ending === '') return 'csv';
  const format = Object.hasOwn(ENDINGS, ending) ? ENDINGS[ending] : undefined;
  if (format !== undefined) return format;
  const known = Object.keys(ENDINGS).join(', ');
  throw new UsageError(
    '--out',
    path,
    `${ending} is the ending of no format here: let the name end with ${known}, or say by --format what is written`,
  );
}

/** Options that only one of the two ways to export has. */
const FOR_OPTIONS = ['dir', 'candles', 'latency'] as const;
const FILE_OPTIONS = ['out', 'format', 'manifest', 'period'] as const;

/**
 * Writes series of the archive into a file, or to standard output, with a manifest; or the files of
 * another program. Works beside a running daemon.
 */
export default command({
  options: EXPORT_OPTIONS,
  help: `
  tapekeep export --kind trades --market BTC_USDT --from 2026-01-01 --to 2026-02-01 --out btc.parquet
  tapekeep export --kind candles --interval 1m --market BTC_USDT --from 30d --clamp --out candles.csv
  tapekeep export --kind depth --market BTC_USDT --from 2h --clamp --format ndjson | gzip > depth.ndjson.gz

Without --from and --to all that is covered is written, with --clamp what is covered between them. Rows
are in the order of market, time and id. Numbers keep every digit. Beside the file comes
FILE.manifest.json: counts, checksum, coverage, columns.
Both take their place only when they are whole. A span with gaps is refused with exit code 8, unless
--allow-gaps is given; the manifest lists them. The refusal offers a whole span, as --from and --to.

csv      RFC 4180 with a heading; begins of formulas in texts are made harmless
ndjson   an object a line, decimals in quotes
parquet  zstd, exact decimals, times in UTC; the total of a trade where it is not price × amount
arrow    IPC file (a stream on standard output), columns as in Parquet

With --for the files are those of another program, in its folder (--dir), one for each market, each
with its manifest. They take candles of the exchange, or those computed from trades:

  tapekeep export --for freqtrade --market BTC_USDT --interval 1m --dir user_data/data/myexchange
  tapekeep export --for freqtrade --market BTC_USDT --kind trades --dir user_data/data/myexchange
  tapekeep export --for backtrader --market BTC_USDT --interval 1m --dir data
  tapekeep export --for vectorbt --market BTC_USDT --interval 15m --candles trades --dir data
  tapekeep export --for hftbacktest --market BTC_USDT --from 1d --clamp --latency 100ms --dir data

freqtrade    PAIR-1m.feather, PAIR-trades.feather; absent candles are its own to fill
backtrader   PAIR-1h.csv as GenericCSVData reads it; slots without trades have the close before
vectorbt     PAIR-1h.csv as pandas reads it; slots without trades have the close before
hftbacktest  PAIR.npz: trades and the book; --latency received takes the times of the collector

freqtrade and hftbacktest keep doubles: there, and nowhere before, decimals are rounded to the nearest.`,
  needs: nothing,
  async run(common, options, given) {
    const { for: tool, kind } = options;
    refuseOthers(given, tool === undefined ? FOR_OPTIONS : FILE_OPTIONS, tool);
    if (tool !== undefined) return await exportFiles(common, { ...options, for: tool });
    if (kind === undefined)
      return given.error("error: required option '--kind <kind>' not specified");
    return await exportFile(common, { ...options, kind });
  },
});

/** @throws UsageError naming the first option that would do nothing */
function refuseOthers(given: Command, names: readonly string[], tool: Tool | undefined): void {
  const one = names.find((name) => given.getOptionValueSource(name) === 'cli');
  if (one === undefined) return;
  const why = tool === undefined ? 'it belongs to --for' : `--for ${tool} has no use for it`;
  const value = given.getOptionValue(one) as string | Typed<unknown>;
  throw new UsageError(`--${one}`, typeof value === 'string' ? value : value.text, why);
}

async function exportFile(common: CommonOptions, options: ExportSelection) {
  const format = options.format ?? formatOf(options.out);
  const path = options.out === '-' ? undefined : options.out;
  const isBinary = format === 'parquet' || format === 'arrow';
  if (path === undefined && isBinary && process.stdout.isTTY) {
    throw new UsageError('--format', format, 'a terminal cannot show it; name a file with --out');
  }
  return await exporting('nothing was written')(common, async (look) => {
    const { session, store, nowMs, signal } = look;
    const streams = await store.inspection.streams();
    const { variantS, parts } = await exportParts(options, store, streams, nowMs);
    const archive = await store.archive();
    const output = await Output.open({
      ...{ path, manifestPath: options.manifest, sink: { write: writeOut } },
      isForced: options.force,
    });
    const progress = new SpanProgressBar(parts);
    try {
      const reader = await openReading(store, { coldDir: coldDirOf(session.config), signal });
      const end = async () => {
        progress.end();
        await reader.close();
      };
      const manifest = await exportSeries(
        {
          ...{ kind: options.kind, variantS, parts, format, archive, version: VERSION },
          allowGaps: options.allowGaps,
        },
        {
          ...{ reader, output, clock: systemClock, signal },
          onProgress: ({ market, rows, doneMs }) => progress.of(market, rows, doneMs),
          onPhase: (phase) => progress.say(`${phase} …`),
        },
      ).finally(end);
      const { kind, markets } = manifest;
      const empty = markets.flatMap((one, at) =>
        one.rows > 0 ? [] : [{ ...one, what: kind, streamId: parts[at]?.stream.streamId }],
      );
      const why = empty.map((one) => emptyReason(one, streams, nowMs));
      const notes = parts.flatMap((one) => one.notes);
      reportFile(manifest, output, [
        firstOf(why, (rest) => `… and none of ${rest} other markets`),
        firstOf(notes, (rest) => `… and ${countOf(rest, 'note')} more in the manifest`),
      ]);
    } finally {
      await output.discard();
    }
  });
}

/**
 * What was written, beside the data: those may be on standard output, and then only the manifest is
 * printed, for programs to read.
 */
function reportFile(manifest: Manifest, output: Output, remarks: Lines): void {
  const { rows, bytes, sha256, kind, markets } = manifest;
  const gaps = markets.reduce((sum, one) => sum + one.gaps.count, 0);
  process.stderr.write(
    output.manifestPath === undefined
      ? jsonLine(manifest)
      : textOf([
          `${countOf(rows, 'row')} of ${kind} in ${printable(output.name)} (${whole(bytes)} bytes, sha256 ${sha256})`,
          remarks,
          `manifest in ${printable(output.manifestPath)}`,
          gaps > 0 && `${countOf(gaps, 'gap')} in it; the manifest lists them`,
        ]),
  );
}

/** Most markets of which something is printed; the manifest has it of all. */
const EXPLAINED_MAX = 5;

function firstOf(lines: readonly string[], more: (rest: number) => string): Lines {
  const rest = lines.length - EXPLAINED_MAX;
  return [lines.slice(0, EXPLAINED_MAX), rest > 0 && more(rest)];
}

const FOLDERS = {
  freqtrade: 'user_data/data/<exchange>',
  backtrader: 'data',
  vectorbt: 'data',
  hftbacktest: 'data',
} as const;

/**
 * Writes files that another program reads by itself, into its folder.
 *
 * @throws UsageError, OutputError and InterchangeError before anything is written; DiskFullError
 */
async function exportFiles(common: CommonOptions, options: InterchangeSelection) {
  const { for: tool, dir, latency, allowGaps, force } = options;
  if (dir === undefined) {
    const advice = `name the folder of ${tool}, such as ${FOLDERS[tool]}`;
    throw new UsageError('--dir', undefined, advice);
  }
  const leaves = (files: number) =>
    `${files} ${files === 1 ? 'file is' : 'files are'} written, each whole`;
  return await exporting(leaves(0))(common, async (look) => {
    const { session, store, nowMs, signal } = look;
    const streams = await store.inspection.streams();
    const selected = await interchangeParts(options, store, streams, nowMs);
    const partOf = (name: string) => selected.parts.find(({ market }) => market.name === name);
    const progress = new SpanProgressBar(selected.parts);
    const archive = await store.archive();
    const reader = await openReading(store, { coldDir: coldDirOf(session.config), signal });
    let files = 0;
    try {
      await exportFor(
        {
          ...{ tool, ...selected, dir, archive, version: VERSION, allowGaps, isForced: force },
          ...{ latency: latency?.value ?? { kind: 'received' } },
          isAnyLatency: latency !== undefined,
        },
        {
          ...{ reader, clock: systemClock, signal },
          onProgress: ({ market, rows, atMs }) =>
            progress.of(market, rows, atMs - (partOf(market)?.span.fromMs ?? atMs)),
          onPhase: (phase) => progress.say(`${phase} …`),
          onFile: (manifest, path) => {
            progress.end();
            files += 1;
            look.left = leaves(files);
            const { rows, sources, market } = manifest;
            const part = partOf(market);
            // Why there was nothing to read.
            const why = sources.map(({ kind, coverage }) => {
              const streamId = part?.sources.find((one) => one.kind === kind)?.stream.streamId;
              const empty = { ...manifest, what: kind, coverage, streamId };
              return emptyReason(empty, streams, nowMs);
            });
            reportFileFor(manifest, path, [rows === 0 && why, part?.notes]);
          },
        },
      );
    } finally {
      progress.end();
      await reader.close();
    }
    if (files === 0) {
      process.stderr.write(
        `nothing to write for ${tool} in that time; there is no file ("tapekeep status" shows what the archive holds)\n`,
      );
    }
  });
}

/** A line for each file, and what a person should know of it. */
function reportFileFor(manifest: InterchangeManifest, path: string, remarks: Lines): void {
  const { rows, bytes, content, sources, counts } = manifest;
  const gaps = sources.reduce((sum, one) => sum + one.gaps.count, 0);
  const filled = counts.quietSlotsFilled ?? 0;
  const facts = [
    `${whole(rows)} ${rows === 1 ? content.slice(0, -1) : content} in ${printable(path)}`,
    `${whole(bytes)} bytes`,
    filled > 0 && `${whole(filled)} of slots without trades`,
    gaps > 0 && `${countOf(gaps, 'gap')} in it, see its manifest`,
  ];
  process.stderr.write(textOf([facts.filter((fact) => fact !== false).join(', '), remarks]));
}
