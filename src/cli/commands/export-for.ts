import type { Latency } from '../../archive/interchange/feed-file.js';
import { exportFor } from '../../archive/interchange/interchange.js';
import type { InterchangeManifest } from '../../archive/interchange/manifest.js';
import { openReading } from '../../archive/reading.js';
import { systemClock } from '../../kernel/clock.js';
import { MINUTE_MS } from '../../kernel/durations.js';
import { totalLengthMs } from '../../kernel/span.js';
import type { KnownStream } from '../../store/index.js';
import type { ExitCode } from '../exit-codes.js';
import { emptyReason } from '../export/empty-export.js';
import { untilStopped } from '../export/export-ending.js';
import {
  type InterchangeSelection,
  interchangeParts,
  type SelectedParts,
} from '../export/interchange-selection.js';
import { UsageError } from '../failure.js';
import { coldDirOf } from '../opening/database.js';
import { type Look, lookAt } from '../opening/looking.js';
import { type CommonOptions, openSession } from '../opening/session.js';
import { printable } from '../output/printable.js';
import { Progress } from '../output/progress.js';
import { VERSION } from '../version.js';

export interface ExportForOptions extends CommonOptions, InterchangeSelection {
  readonly dir?: string;
  readonly allowGaps?: boolean;
  readonly force?: boolean;
}

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
export async function exportForCommand(options: ExportForOptions): Promise<ExitCode> {
  const { dir } = options;
  if (dir === undefined) {
    const example = FOLDERS[options.for];
    throw new UsageError('--dir', 'none', `name the folder of ${options.for}, such as ${example}`);
  }
  const session = openSession({ logLevel: 'warn', ...options });
  let files = 0;
  const left = () => `${files} ${files === 1 ? 'file is' : 'files are'} written, each whole`;
  return await untilStopped(left, async (signal) => {
    await lookAt(
      session,
      async ({ store, streams, nowMs }) => {
        const selected = await interchangeParts(options, store, streams, nowMs);
        const around = { dir, coldDir: coldDirOf(session.config), signal };
        await run({ store, streams, nowMs }, options, selected, around, () => {
          files += 1;
        });
      },
      'by itself',
    );
  });
}

async function run(
  { store, streams, nowMs }: Look,
  { for: tool, latency, allowGaps, force }: ExportForOptions,
  selected: SelectedParts,
  { dir, coldDir, signal }: { dir: string; coldDir: string; signal: AbortSignal },
  onFile: () => void,
): Promise<void> {
  const { parts } = selected;
  const totalMs = parts.reduce((sum, { span }) => sum + totalLengthMs([span]), 0);
  const progress = new Progress(
    ...([process.stderr, systemClock, 'minutes of', Math.ceil(totalMs / MINUTE_MS)] as const),
  );
  const fromMs = new Map(parts.map(({ market, span }) => [market.name, span.fromMs]));
  const doneMs = new Map<string, number>();
  let shown = 0;
  const archive = await store.archive();
  const emptyOf = (manifest: InterchangeManifest) =>
    manifest.rows > 0 ? [] : emptySources(manifest, selected, streams, nowMs);
  const reading = await openReading(store, { coldDir, signal });
  try {
    const manifests = await exportFor(
      {
        ...{ tool, ...selected, dir, archive, version: VERSION },
        ...{ latency: latency ?? AS_RECEIVED, isAnyLatency: latency !== undefined },
        ...{ allowGaps: allowGaps === true, isForced: force === true },
      },
      {
        ...{ reading, clock: systemClock, signal },
        onProgress: ({ market, rows, atMs }) => {
          const before = doneMs.get(market) ?? 0;
          doneMs.set(market, Math.max(before, atMs - (fromMs.get(market) ?? atMs)));
          const minutes = Math.floor([...doneMs.values()].reduce((a, b) => a + b, 0) / MINUTE_MS);
          const detail = `${printable(market)}: ${rows.toLocaleString('en-US')} rows`;
          progress.advance(minutes - shown, detail);
          shown = minutes;
        },
        onPhase: (phase) => progress.say(`${phase} …`),
        onFile: (manifest, path) => {
          progress.end();
          onFile();
          tell(manifest, path, emptyOf(manifest));
        },
      },
    );
    if (manifests.length === 0) {
      process.stderr.write(
        `nothing to write for ${tool} in that time; there is no file ("tapekeep status" shows what the archive holds)\n`,
      );
    }
  } finally {
    progress.end();
    await reading.close();
  }
}

/** A line for each file, and what a person should know of it. */
function tell(
  { rows, bytes, content, sources, counts }: InterchangeManifest,
  path: string,
  empty: readonly string[],
): void {
  const gaps = sources.reduce((sum, one) => sum + one.gaps.count, 0);
  const filled = counts.quietSlotsFilled ?? 0;
  const facts = [
    ...(filled === 0 ? [] : [`${filled.toLocaleString('en-US')} of slots without trades`]),
    ...(gaps === 0 ? [] : [`${gaps} ${gaps === 1 ? 'gap' : 'gaps'} in it, see its manifest`]),
  ];
  const told = [
    `${rows.toLocaleString('en-US')} ${rows === 1 ? content.slice(0, -1) : content} in ${printable(path)}`,
    `${bytes.toLocaleString('en-US')} bytes`,
    ...facts,
  ];
  process.stderr.write(`${[told.join(', '), ...empty].join('\n')}\n`);
}

/** Why there was nothing to read. */
function emptySources(
  { market, from, to, sources }: InterchangeManifest,
  { parts }: SelectedParts,
  streams: readonly KnownStream[],
  nowMs: number,
): string[] {
  const part = parts.find((one) => one.market.name === market);
  return sources.map(({ kind, coverage }) => {
    const streamId = part?.sources.find((one) => one.kind === kind)?.stream.streamId;
    return emptyReason({ what: kind, market, from, to, coverage, streamId }, streams, nowMs);
  });
}
