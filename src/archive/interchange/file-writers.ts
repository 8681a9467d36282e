import { ceilToMs, floorToMs, type Span } from '../../kernel/span.js';
import type { SpanCompleteness } from '../../store/index.js';
import type { Output } from '../export/output.js';
import type { Reading } from '../reading.js';
import { BAR_LINES, barLines, writeAll } from './bar-lines.js';
import { type Candle, exchangeCandles } from './candles.js';
import { computeCandles } from './computed-candles.js';
import { CoveredWalk } from './covered-walk.js';
import { InterchangeError } from './errors.js';
import { FeedFile } from './feed-file.js';
import { depthEvents, tradeEvents } from './feed-rows.js';
import { writeFreqtradeCandles, writeFreqtradeTrades } from './freqtrade.js';
import type { Written } from './manifest.js';
import { withQuietSlots } from './quiet-slots.js';
import type { InterchangePart, InterchangeRequest } from './request.js';
import { type TradeLine, tradesOf } from './text-rows.js';
import { zipOne } from './zip.js';

/** What one file is made of. */
export interface FileWork {
  readonly request: InterchangeRequest;
  /** Its span is the file's own. */
  readonly part: InterchangePart;
  /** Of each source. */
  readonly known: readonly SpanCompleteness[];
  readonly reading: Reading;
  readonly output: Output;
  readonly madeAt: Date;
  readonly signal: AbortSignal;
  readonly onProgress: (rows: number, atMs: number) => void;
  readonly onPhase: (phase: string) => void;
}

/** Of how many rows in a thousand the times may be useless before it is refused. */
const FAR_SHARE = 0.01;

type Counts = Record<string, number>;

const slice = (
  { part }: FileWork,
  kind: 'trades' | 'klines' | 'depth',
  variantS = 0,
  span?: Span,
) => ({
  ...{ kind, marketId: part.market.marketId, variantS, span: span ?? part.span },
});

async function* counted<Row>(
  batches: AsyncIterable<readonly Row[]>,
  { onProgress, signal }: FileWork,
  counts: Counts,
  atMs: (row: Row) => number,
): AsyncGenerator<readonly Row[]> {
  for await (const batch of batches) {
    signal.throwIfAborted();
    const last = batch.at(-1);
    counts.rows = (counts.rows ?? 0) + batch.length;
    if (last !== undefined) onProgress(counts.rows, atMs(last));
    yield batch;
  }
}

function add(counts: Counts, name: string): () => void {
  return () => {
    counts[name] = (counts[name] ?? 0) + 1;
  };
}

/** @param isWhole whether slots without trades are wanted too */
function candles(
  work: FileWork,
  counts: Counts,
  isWhole: boolean,
): AsyncIterable<readonly Candle[]> {
  const { reading, part, known, request } = work;
  const intervalMs = request.intervalS * 1000;
  const covered = () => new CoveredWalk(known[0]?.covered ?? []);
  const onPartial = add(counts, 'partialSlotsLeftOut');
  // Candles that begin in the span and end outside of it are the exchange's, and whole.
  const { fromMs, toMs } = part.span;
  const grid = { fromMs: ceilToMs(fromMs, intervalMs), toMs: floorToMs(toMs, intervalMs) };
  const some =
    part.sources[0]?.kind === 'klines'
      ? exchangeCandles(reading.rows(slice(work, 'klines', request.intervalS), 'csv'))
      : computeCandles(tradesOf(reading.rows(slice(work, 'trades', 0, grid), 'csv')), {
          ...{ intervalMs, covered: covered(), onPartial },
        });
  const all = isWhole
    ? withQuietSlots(some, {
        ...{ span: part.span, intervalMs, covered: covered() },
        onFilled: add(counts, 'quietSlotsFilled'),
        onLeftOut: add(counts, 'quietSlotsLeftOut'),
      })
    : some;
  return counted(all, work, counts, ({ openMs }) => openMs);
}

function trades(work: FileWork, counts: Counts): AsyncIterable<readonly TradeLine[]> {
  const all = tradesOf(work.reading.rows(slice(work, 'trades'), 'csv'));
  const seconds = add(counts, 'timesToTheSecond');
  async function* looked() {
    for await (const batch of all) {
      for (const { isExact } of batch) if (!isExact) seconds();
      yield batch;
    }
  }
  return counted(looked(), work, counts, ({ secondUs }) => secondUs / 1000);
}

function written({ rows = 0, ...counts }: Counts): Written {
  return { rows, counts };
}

type FileWriter = (work: FileWork) => Promise<Written>;

const writerTo =
  ({ output }: FileWork) =>
  (bytes: Uint8Array) =>
    output.write(bytes);

export const writeFeather: FileWriter = async (work) => {
  const counts: Counts = {};
  const write = writerTo(work);
  if (work.request.content === 'trades') await writeFreqtradeTrades(trades(work, counts), write);
  else await writeFreqtradeCandles(candles(work, counts, false), write);
  return written(counts);
};

export const writeBars =
  (form: 'backtrader' | 'vectorbt'): FileWriter =>
  async (work) => {
    const counts: Counts = {};
    await writeAll(barLines(candles(work, counts, true), BAR_LINES[form]), writerTo(work));
    return written(counts);
  };

export const writeFeed: FileWriter = async (work) => {
  const { reading, output, signal, request, onPhase } = work;
  const counts: Counts = {};
  const feed = await FeedFile.open((name) => output.scratch(name), signal);
  try {
    const { span } = work.part;
    // Of the same moment the trade comes first: the book that follows has lost its amount already.
    const steps = [
      tradeEvents(trades(work, counts)),
      depthEvents(reading.rows(slice(work, 'depth'), 'json')),
    ];
    let seen = 0;
    for (const events of steps) {
      for await (const batch of events) {
        signal.throwIfAborted();
        await feed.add(batch);
        seen += batch.length;
        const at = batch.at(-1);
        if (at !== undefined) work.onProgress(seen, Math.min(at.exchUs / 1000, span.toMs));
      }
    }
    onPhase('sorting events');
    const { rows, facts } = await feed.seal(request.latency, ({ events, farOff }) => {
      if (request.latency.kind === 'fixed' || request.isAnyLatency) return;
      if (farOff > events * FAR_SHARE) throw farAway(farOff, events);
    });
    onPhase('writing events');
    await writeAll(zipOne('data.npy', feed.content(rows), work.madeAt), writerTo(work));
    const shift = Math.max(0, -facts.leastLatencyUs);
    return {
      rows,
      counts: {
        ...{ trades: counts.rows ?? 0, timesToTheSecond: counts.timesToTheSecond ?? 0 },
        ...{ events: facts.events, eventsPutApart: rows - facts.events },
        ...(request.latency.kind === 'fixed'
          ? { latencyUs: request.latency.latencyUs }
          : { localTimesShiftedUs: shift, receivedFarOff: facts.farOff }),
      },
    };
  } finally {
    await feed.close();
  }
};

function farAway(farOff: number, events: number): InterchangeError {
  const share = `${Math.round((100 * farOff) / events)} %`;
  return new InterchangeError(
    `${share} of the events were received more than a minute off the time at which they happened, as those that were fetched later are: a backtest would see them as late as that. --latency 100ms lets each be seen 100 ms after it happened; --latency received takes the times as they are`,
  );
}
