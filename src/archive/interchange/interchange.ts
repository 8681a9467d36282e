import { dirname, join } from 'node:path';
import type { Clock } from '../../kernel/clock.js';
import { DAY_S } from '../../kernel/durations.js';
import { codeOf } from '../../kernel/errors.js';
import { isThere, makeFolder } from '../../kernel/folders.js';
import { isoSpan } from '../../kernel/timestamp.js';
import { asDiskFull, InterchangeError, OutputError } from '../errors.js';
import {
  completenessOf,
  type FileManifest,
  type Known,
  type MarketPart,
  readCompleteness,
} from '../export/manifest.js';
import { Output } from '../export/output.js';
import type { ArchiveReader } from '../reading.js';
import { type FileWork, type Written, writeBars, writeFeather, writeFeed } from './file-writers.js';
import {
  CONTENTS,
  type Content,
  type InterchangePart,
  type InterchangeRequest,
  pairName,
  type Source,
  type Tool,
  timeframeOf,
} from './request.js';

/** What a file for another tool is, beside it. */
export interface InterchangeManifest extends FileManifest {
  readonly for: Tool;
  readonly content: Content;
  readonly market: string;
  /** A step of prices and of amounts, as the exchange lists the market. */
  readonly tickSize: string;
  readonly lotSize: string;
  readonly from: string;
  readonly to: string;
  /** Of candles: their length, and whether they come from the exchange or from trades. */
  readonly intervalS?: number;
  readonly candlesFrom?: 'exchange' | 'trades';
  /** What was counted on the way; what counts zero is left out. */
  readonly counts: Readonly<Record<string, number>>;
  readonly sources: readonly (Pick<MarketPart, 'coverage' | 'gaps'> & {
    readonly kind: Source['kind'];
  })[];
}

/** `0.01` for two digits. */
const step = (digits: number) =>
  digits > 0 ? `0.${'1'.padStart(digits, '0')}` : '1'.padEnd(1 - digits, '0');

export interface InterchangeSurroundings {
  /** Stays open. */
  readonly reader: ArchiveReader;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** How far the reading has come. */
  readonly onProgress: (event: {
    readonly market: string;
    readonly rows: number;
    /** The instant that was come to; events of the book are read after all trades. */
    readonly atMs: number;
  }) => void;
  /** What is done now that has no measure. */
  readonly onPhase: (phase: string) => void;
  /** A file is in its place with its manifest. */
  readonly onFile: (manifest: InterchangeManifest, path: string) => void;
}

/** A file that is to be written. */
interface FilePlan {
  /** Relative to the tool's folder. */
  readonly path: string;
  readonly part: InterchangePart;
  readonly write: (work: FileWork) => Promise<Written>;
}

/** Spans that are known of a source; filling quiet slots needs them all. */
const KNOWN_MAX = 500_000;

/**
 * Writes files that other programs read by themselves, each with a manifest beside it. Rows, coverage
 * and gaps of all files are those of one instant. A file takes its place whole; those that were
 * finished before a failure stay.
 *
 * @returns the manifests of the files
 * @throws ExportGapsError, OutputError, InterchangeError before anything is written; DiskFullError, or
 * the signal's reason
 */
export async function exportFor(
  request: InterchangeRequest,
  around: InterchangeSurroundings,
): Promise<readonly InterchangeManifest[]> {
  refuseLength(request);
  const plans = request.parts.map((part) => planOf(request, part));
  await refuseTaken(request, plans);
  const wanted = request.parts.flatMap(({ market, span, sources }) =>
    sources.map(({ kind, stream }) => ({
      ...{ kind, stream, span, market: market.name },
      label: sources.length === 1 ? '' : `${kind}: `,
    })),
  );
  if (!request.allowGaps) await readCompleteness(around.reader, wanted, false);
  const manifests: InterchangeManifest[] = [];
  for (const plan of plans) {
    manifests.push(await writeFile(request, plan, around));
  }
  return manifests;
}

/** How the files of each program end, and what writes them. */
const FILES: Readonly<Record<Tool, readonly [ending: string, write: FilePlan['write']]>> = {
  freqtrade: ['feather', writeFeather],
  backtrader: ['csv', writeBars('backtrader')],
  vectorbt: ['csv', writeBars('vectorbt')],
  hftbacktest: ['npz', writeFeed],
};

function planOf({ tool, content, intervalS }: InterchangeRequest, part: InterchangePart): FilePlan {
  const [ending, write] = FILES[tool];
  const what = { candles: `-${timeframeOf(intervalS)}`, trades: '-trades', events: '' }[content];
  return { part, path: `${pairName(part.market)}${what}.${ending}`, write };
}

/** Where slots of other lengths begin is the exchange's choice. @throws InterchangeError */
function refuseLength({ content, intervalS, parts }: InterchangeRequest): void {
  const isComputed =
    content === 'candles' && parts.some(({ sources: [one] }) => one?.kind === 'trades');
  if (!isComputed || (intervalS >= 1 && DAY_S % intervalS === 0)) return;
  throw new InterchangeError(
    `candles of ${intervalS} s cannot be computed from trades: name a length that divides a day (--interval)`,
  );
}

/** Nothing is begun when some of it could not be finished. @throws OutputError */
async function refuseTaken(
  { dir, isForced }: InterchangeRequest,
  plans: readonly FilePlan[],
): Promise<void> {
  const seen = new Map<string, string>();
  for (const { path, part } of plans) {
    const name = part.market.name;
    const other = seen.get(path);
    if (other !== undefined && other !== name) {
      throw new OutputError(path, `both ${other} and ${name} would be written there`);
    }
    seen.set(path, name);
    if (!isForced && (await isTaken(join(dir, path)))) {
      throw new OutputError(join(dir, path), 'it is there already; --force replaces it');
    }
  }
}

/** Whether its folder can be is seen when it is made. */
async function isTaken(path: string): Promise<boolean> {
  return await isThere(path).catch((error: unknown) => {
    throw new OutputError(path, `it cannot be looked at (${codeOf(error)})`, error);
  });
}

async function writeFile(
  request: InterchangeRequest,
  { path, part, write }: FilePlan,
  around: InterchangeSurroundings,
): Promise<InterchangeManifest> {
  const { reader, clock, signal } = around;
  signal.throwIfAborted();
  const sources: Known<Source>[] = [];
  for (const one of part.sources) {
    const known = await reader.completeness(one.stream, part.span, KNOWN_MAX);
    sources.push({ ...one, known });
  }
  const target = join(request.dir, path);
  const output = await openOutput(target, request.isForced);
  try {
    const madeAt = new Date(clock.wallMs());
    const { name } = part.market;
    const written = await write({
      ...{ request, part, sources, reader, output, madeAt, signal, onPhase: around.onPhase },
      onProgress: (rows, atMs) => around.onProgress({ market: name, rows, atMs }),
    });
    signal.throwIfAborted();
    const { tool, content, intervalS, archive, version } = request;
    const { market, span } = part;
    const candlesFrom = sources[0]?.kind === 'candles' ? 'exchange' : 'trades';
    const manifest: InterchangeManifest = {
      ...{ tapekeep: version, madeAt: madeAt.toISOString(), archive, for: tool, content },
      ...{ market: name, tickSize: step(market.moneyPrec), lotSize: step(market.stockPrec) },
      ...isoSpan(span),
      ...(content === 'candles' ? { intervalS, candlesFrom } : {}),
      ...{ file: output.fileName, ...output.sums(), rows: written.rows },
      isComplete: sources.every(({ known }) => known.missingCount === 0),
      counts: Object.fromEntries(Object.entries(written.counts).filter(([, count]) => count !== 0)),
      notes: [...(CONTENTS[tool][content] ?? []), ...part.notes],
      sources: sources.map(({ kind, known }) => ({ kind, ...completenessOf(known) })),
    };
    await output.commit(manifest);
    around.onFile(manifest, target);
    return manifest;
  } catch (error) {
    throw asDiskFull(error, target);
  } finally {
    await output.discard();
  }
}

async function openOutput(path: string, isForced: boolean): Promise<Output> {
  try {
    await makeFolder(dirname(path));
  } catch (error) {
    if (asDiskFull(error, path) !== error) throw asDiskFull(error, path);
    throw new OutputError(path, `its folder cannot be made (${codeOf(error)})`, error);
  }
  return await Output.open({
    ...{ path, manifestPath: undefined, isForced },
    sink: { write: () => Promise.reject(new Error('it is a file')) },
  });
}
