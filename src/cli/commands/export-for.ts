import type { Latency } from '../../archive/interchange/feed.js';
import {
  type InterchangeManifest,
  exportFor as writeFilesFor,
} from '../../archive/interchange/interchange.js';
import type { InterchangePart } from '../../archive/interchange/request.js';
import { openReading } from '../../archive/reading.js';
import { systemClock } from '../../kernel/clock.js';
import type { KnownStream } from '../../store/index.js';
import { type CommonOptions, VERSION } from '../command.js';
import { emptyReason, exporting, SpanProgressBar } from '../export/outcome.js';
import { type InterchangeSelection, interchangeParts } from '../export/selection.js';
import { UsageError } from '../failure.js';
import { coldDirOf } from '../opening/database.js';
import { countOf, printable, whole } from '../output.js';

const AS_RECEIVED: Latency = { kind: 'received' };
const FOLDERS = {
  freqtrade: 'user_data/data/<exchange>',
  backtrader: 'data',
  vectorbt: 'data',
  hftbacktest: 'data',
} as const;

/**
 * Writes files that another program reads by itself, into its folder. Works beside a running daemon.
 *
 * @throws UsageError, OutputError and InterchangeError before anything is written; DiskFullError
 */
export async function exportFor(common: CommonOptions, options: InterchangeSelection) {
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
    const fromMs = new Map(selected.parts.map(({ market, span }) => [market.name, span.fromMs]));
    const progress = new SpanProgressBar(selected.parts);
    const archive = await store.archive();
    const reading = await openReading(store, { coldDir: coldDirOf(session.config), signal });
    let files = 0;
    try {
      await writeFilesFor(
        {
          ...{ tool, ...selected, dir, archive, version: VERSION },
          ...{ latency: latency?.value ?? AS_RECEIVED, isAnyLatency: latency !== undefined },
          ...{ allowGaps, isForced: force },
        },
        {
          ...{ reader: reading, clock: systemClock, signal },
          onProgress: ({ market, rows, atMs }) =>
            progress.of(market, rows, atMs - (fromMs.get(market) ?? atMs)),
          onPhase: (phase) => progress.say(`${phase} …`),
          onFile: (manifest, path) => {
            progress.end();
            files += 1;
            look.left = leaves(files);
            const isEmpty = manifest.rows === 0;
            const part = selected.parts.find(({ market }) => market.name === manifest.market);
            reportExport(manifest, path, [
              ...(isEmpty ? emptySources(manifest, part, streams, nowMs) : []),
              ...(part?.notes ?? []),
            ]);
          },
        },
      );
    } finally {
      progress.end();
      await reading.close();
    }
    if (files === 0) {
      process.stderr.write(
        `nothing to write for ${tool} in that time; there is no file ("tapekeep status" shows what the archive holds)\n`,
      );
    }
  });
}

/** A line for each file, and what a person should know of it. */
function reportExport(
  { rows, bytes, content, sources, counts }: InterchangeManifest,
  path: string,
  remarks: readonly string[],
): void {
  const gaps = sources.reduce((sum, one) => sum + one.gaps.count, 0);
  const filled = counts.quietSlotsFilled ?? 0;
  const facts = [
    ...(filled === 0 ? [] : [`${whole(filled)} of slots without trades`]),
    ...(gaps === 0 ? [] : [`${countOf(gaps, 'gap')} in it, see its manifest`]),
  ];
  const summary = [
    `${whole(rows)} ${rows === 1 ? content.slice(0, -1) : content} in ${printable(path)}`,
    `${whole(bytes)} bytes`,
    ...facts,
  ];
  process.stderr.write(`${[summary.join(', '), ...remarks].join('\n')}\n`);
}

/** Why there was nothing to read. */
function emptySources(
  { market, from, to, sources }: InterchangeManifest,
  part: InterchangePart | undefined,
  streams: readonly KnownStream[],
  nowMs: number,
): string[] {
  return sources.map(({ kind, coverage }) => {
    const streamId = part?.sources.find((one) => one.kind === kind)?.stream.streamId;
    return emptyReason({ what: kind, market, from, to, coverage, streamId }, streams, nowMs);
  });
}
