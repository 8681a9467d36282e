import { extname } from 'node:path';
import { exportSeries } from '../../archive/export/export.js';
import { FORMATS, type Format, type Manifest } from '../../archive/export/manifest.js';
import { Output } from '../../archive/export/output.js';
import { openReading } from '../../archive/reading.js';
import { systemClock } from '../../kernel/clock.js';
import { type CommonOptions, command, nothing, VERSION } from '../command.js';
import { emptyReason, exporting, SpanProgressBar } from '../export/outcome.js';
import { EXPORT_OPTIONS, type ExportSelection, exportParts } from '../export/selection.js';
import { partsAfter, readEarlier, withLate } from '../export/since.js';
import { UsageError } from '../failure.js';
import { coldOf } from '../opening/database.js';
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

/**
 * Writes series of the archive into a file, or to standard output, with a manifest. Works beside a
 * running daemon.
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
Both take their place only when they are whole. A time range with gaps is refused with exit code 8, unless
--allow-gaps is given; the manifest lists them. The refusal offers one without gaps, as --from and --to.

With --since-last, what was stored since the last export to FILE.csv is written to FILE.1.csv, then FILE.2.csv
and so on; rows that came late are in it.

csv      RFC 4180 with a heading; begins of formulas in texts are made harmless
ndjson   an object a line, decimals in quotes
parquet  zstd, exact decimals, times in UTC`,
  needs: nothing,
  run: exportFile,
});

async function exportFile(common: CommonOptions, options: ExportSelection) {
  const format = options.format ?? formatOf(options.out);
  const earlier = options.sinceLast ? await readEarlier(options) : undefined;
  const path = options.out === '-' ? undefined : (earlier?.nextPath ?? options.out);
  if (path === undefined && format === 'parquet' && process.stdout.isTTY) {
    throw new UsageError('--format', format, 'a terminal cannot show it; name a file with --out');
  }
  return await exporting('nothing was written')(common, async (look) => {
    const { session, store, nowMs, signal } = look;
    const streams = await store.inspection.streams();
    const chosen = await exportParts(options, store, streams, nowMs);
    const { variantS } = chosen;
    const archive = await store.archive();
    const own = { ...chosen, kind: options.kind, archive };
    const spans = earlier === undefined ? chosen.parts : partsAfter(earlier, own);
    const output = await Output.open({
      ...{ path, manifestPath: options.manifest, sink: { write: writeOut } },
      isForced: options.force,
    });
    const progress = new SpanProgressBar(spans);
    try {
      const reader = await openReading(store, { cold: coldOf(session.config), signal });
      const end = async () => {
        progress.end();
        await reader.close();
      };
      const reading = async () => {
        if (earlier === undefined) return { parts: spans };
        const { name: continues } = earlier;
        return {
          parts: await withLate(earlier, { ...own, parts: spans }, store, reader),
          continues,
        };
      };
      const write = async () =>
        await exportSeries(
          {
            ...{ kind: options.kind, variantS, format, archive, version: VERSION },
            ...(await reading()),
            allowGaps: options.allowGaps,
            nowMs,
          },
          {
            ...{ reader, output, clock: systemClock, signal },
            onProgress: ({ market, rows, doneMs }) => progress.of(market, rows, doneMs),
            onPhase: (phase) => progress.say(`${phase} …`),
          },
        );
      const manifest = await write().finally(end);
      const { kind, markets } = manifest;
      const why = markets.flatMap((one) => (one.rows > 0 ? [] : [emptyReason(kind, one, nowMs)]));
      const notes = spans.flatMap((one) => one.notes);
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
  // The same holds after --clamp.
  const edge = (of: 'from' | 'to') => [...markets.map((one) => one[of])].sort();
  const range = `${edge('from')[0]} to ${edge('to').at(-1)}`;
  process.stderr.write(
    output.manifestPath === undefined
      ? jsonLine(manifest)
      : textOf([
          `${countOf(rows, 'row')} of ${kind} from ${range} in ${printable(output.name)} (${whole(bytes)} bytes, sha256 ${sha256})`,
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
