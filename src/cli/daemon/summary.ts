import { type Clock, sleep } from '../../kernel/clock.js';
import { shownDuration } from '../../kernel/durations.js';
import { isAborted } from '../../kernel/errors.js';
import type { RunCountsSnapshot, StreamCounts } from '../../observe/run-counts.js';
import { type Column, countOf, figure, formatTable, whole } from '../output.js';

/** Where the summary is drawn: stdout, or a stand-in. */
interface SummaryOutput {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number | undefined;
}

export interface SummaryOptions {
  readonly output: SummaryOutput;
  readonly clock: Clock;
  readonly snapshot: () => RunCountsSnapshot;
  /** The exchange's time now, UNIX milliseconds: lags are measured against it. */
  readonly exchangeNowMs: () => number;
  /** Lines on the first walk through history. */
  readonly firstHistory?: () => readonly string[];
}

/** A terminal is drawn again this often; anything else gets a line this often. */
const DRAW_PERIOD_MS = 1000;
const LINE_PERIOD_MS = 10_000;
const DEFAULT_WIDTH = 80;

function columnsAt(nowMs: number): readonly Column<StreamCounts>[] {
  const lag = (ms: number | null) => (ms === null ? '–' : shownDuration(nowMs - ms));
  return [
    { title: 'stream', text: (row) => row.stream },
    figure('markets', (row) => (row.markets === null ? 'all' : whole(row.markets))),
    figure('stored', (row) => whole(row.stored + row.updated)),
    figure('lag', (row) => lag(row.newestMs)),
    figure('slowest', (row) => lag(row.slowestMs)),
    figure('open gaps', (row) => whole(row.openGaps)),
    figure('unfillable', (row) => whole(row.lostGaps)),
    { ...figure('duplicate', (row) => whole(row.duplicate + row.unchanged)), rank: 3 },
    { ...figure('refused', (row) => whole(row.conflict + row.rejected)), rank: 1 },
    { ...figure('lost rows', (row) => whole(row.lost)), rank: 2 },
  ];
}

/** What was counted up to an instant, in milliseconds. */
interface Counted {
  readonly atMs: number;
  readonly rows: number;
  readonly requests: number;
}

const NOTHING_COUNTED: Counted = { atMs: 0, rows: 0, requests: 0 };

function countedAt(atMs: number, { streams, requests }: RunCountsSnapshot): Counted {
  const rows = streams.reduce((sum, stream) => sum + stream.stored + stream.updated, 0);
  return { atMs, rows, requests };
}

/** What came in a second between two instants. */
function ratesOf(before: Counted, now: Counted) {
  const seconds = Math.max((now.atMs - before.atMs) / 1000, 0.001);
  return {
    rowsPerS: (now.rows - before.rows) / seconds,
    requestsPerS: (now.requests - before.requests) / seconds,
  };
}

type Rates = ReturnType<typeof ratesOf>;

function footLine(snapshot: RunCountsSnapshot, rates: Rates): string {
  return [
    `${rates.rowsPerS.toFixed(1)} rows/s`,
    `${rates.requestsPerS.toFixed(1)} requests/s`,
    `${whole(snapshot.failedRequests)} of ${whole(snapshot.requests)} requests failed`,
    countOf(snapshot.openSockets, 'socket'),
  ].join(', ');
}

function oneLine(snapshot: RunCountsSnapshot, nowMs: number, rates: Rates): string {
  const streams = snapshot.streams.map((stream) => {
    const lag = stream.newestMs === null ? '' : ` (lag ${shownDuration(nowMs - stream.newestMs)})`;
    return `${stream.stream} ${whole(stream.stored + stream.updated)}${lag}`;
  });
  const sum = (thing: string, of: (stream: StreamCounts) => number) =>
    countOf(
      snapshot.streams.reduce((all, stream) => all + of(stream), 0),
      thing,
    );
  const gaps = `${sum('open gap', (one) => one.openGaps)}, ${sum('unfillable one', (one) => one.lostGaps)}`;
  return [...streams, gaps, footLine(snapshot, rates)].join(', ');
}

/** The table of totals that closes a run. */
function finalSummary(snapshot: RunCountsSnapshot, nowMs: number, ranMs: number): string {
  // What is not stored by now never is by this run.
  const streams = snapshot.streams.map((one) => ({ ...one, lost: one.lost + one.inFlight }));
  return [
    `Collected for ${shownDuration(ranMs)}.`,
    ...formatTable(columnsAt(nowMs), streams, Number.POSITIVE_INFINITY),
    footLine(snapshot, ratesOf(NOTHING_COUNTED, countedAt(ranMs, snapshot))),
    '',
  ].join('\n');
}

/**
 * The live summary. On a terminal it redraws a small table in place every second; elsewhere it
 * writes a line every ten seconds.
 *
 * States: *idle* → {@link LiveSummary.start} → *drawing* → {@link LiveSummary.stop} → *ended*, with
 * the last table replaced by the final one. The cursor is not hidden: an end at once could not show it again. Log lines for the same terminal go
 * through {@link LiveSummary.write}, which puts them above the table.
 */
export class LiveSummary {
  readonly #options: SummaryOptions;
  readonly #isTerminal: boolean;
  readonly #startedMs: number;
  readonly #stopping = new AbortController();
  #loop: Promise<void> | undefined;
  #drawnLines = 0;
  #rates: Rates = { rowsPerS: 0, requestsPerS: 0 };
  #before: Counted;

  constructor(options: SummaryOptions) {
    this.#options = options;
    this.#isTerminal = options.output.isTTY === true;
    this.#startedMs = options.clock.monotonicMs();
    this.#before = { ...NOTHING_COUNTED, atMs: this.#startedMs };
  }

  /** Starts drawing. Idempotent. */
  start(): void {
    if (this.#loop !== undefined || this.#stopping.signal.aborted) return;
    this.#loop = this.#run();
  }

  /** Stops drawing and writes the final table. Safe to call twice. */
  async stop(): Promise<void> {
    if (this.#stopping.signal.aborted) return this.#loop;
    this.#stopping.abort();
    await this.#loop;
    const { output, clock, snapshot, exchangeNowMs } = this.#options;
    const ranMs = clock.monotonicMs() - this.#startedMs;
    this.#erase();
    output.write(finalSummary(snapshot(), exchangeNowMs(), ranMs));
  }

  /** Ends without a word: nothing can be written any more. */
  abandon(): void {
    this.#drawnLines = 0;
    this.#stopping.abort();
  }

  /** Writes whole lines above the table. */
  write(text: string): void {
    this.#erase();
    this.#options.output.write(text);
    if (this.#loop !== undefined && !this.#stopping.signal.aborted) this.#draw();
  }

  async #run(): Promise<void> {
    const { output, snapshot, exchangeNowMs } = this.#options;
    const periodMs = this.#isTerminal ? DRAW_PERIOD_MS : LINE_PERIOD_MS;
    try {
      for (;;) {
        await sleep(this.#options.clock, periodMs, this.#stopping.signal);
        const now = countedAt(this.#options.clock.monotonicMs(), snapshot());
        this.#rates = ratesOf(this.#before, now);
        this.#before = now;
        this.#erase();
        if (this.#isTerminal) this.#draw();
        else output.write(`${oneLine(snapshot(), exchangeNowMs(), this.#rates)}\n`);
      }
    } catch (error) {
      if (!isAborted(error)) throw error;
    }
  }

  #draw(): void {
    if (!this.#isTerminal) return;
    const snapshot = this.#options.snapshot();
    // A line that wraps would take two rows and spoil the way back up.
    const width = (this.#options.output.columns ?? DEFAULT_WIDTH) - 1;
    const lines = [
      ...formatTable(columnsAt(this.#options.exchangeNowMs()), snapshot.streams, width),
      ...(this.#options.firstHistory?.() ?? []),
      footLine(snapshot, this.#rates),
    ].map((line) => [...line].slice(0, width).join(''));
    this.#options.output.write(`${lines.join('\n')}\n`);
    this.#drawnLines = lines.length;
  }

  /** Takes the drawn table away: up to its first line, then clears to the end of the screen. */
  #erase(): void {
    if (this.#drawnLines === 0) return;
    // First to the line's start: the terminal may have echoed a ^C.
    this.#options.output.write(`\r\x1b[${this.#drawnLines}A\x1b[0J`);
    this.#drawnLines = 0;
  }
}
