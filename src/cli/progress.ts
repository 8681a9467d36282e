import { systemClock } from '../kernel/clock.js';
import { roughDuration } from './output.js';

const BAR_WIDTH = 30;
/** A terminal is drawn again this often at most; anything else gets a line this often. */
const DRAW_PERIOD_MS = 100;
const LINE_PERIOD_MS = 10_000;
const CLEAR_LINE = '\r\x1b[2K';

/**
 * Progress of a long piece of work: a bar in place on a terminal, a line now and then
 * elsewhere, nothing for work that ends soon. It goes to stderr, so that stdout holds results only.
 */
export class Progress {
  #shownMs: number;
  #drawn = '';

  /** @param shownMs when the last line was shown, monotonic; default: now */
  constructor(shownMs = systemClock.monotonicMs()) {
    this.#shownMs = shownMs;
  }

  /** Draws if it is time to. @param share of the work that is done, 0 to 1 */
  show(share: number, text: string): void {
    const isTerminal = process.stderr.isTTY === true;
    const nowMs = systemClock.monotonicMs();
    if (nowMs - this.#shownMs < (isTerminal ? DRAW_PERIOD_MS : LINE_PERIOD_MS)) return;
    this.#shownMs = nowMs;
    const line = `${percent(share)}, ${text}`;
    const filled = Math.floor(Math.min(1, share) * BAR_WIDTH);
    if (isTerminal) this.#draw(`${'█'.repeat(filled)}${'░'.repeat(BAR_WIDTH - filled)} ${line}`);
    else process.stderr.write(`${line}\n`);
  }

  /** Shows on a terminal the current step without a measure. */
  say(text: string): void {
    if (process.stderr.isTTY === true) this.#draw(text);
  }

  /** Writes a line of something else, above the bar where there is one. */
  write(line: string): void {
    process.stderr.write(this.#drawn === '' ? line : `${CLEAR_LINE}${line}${this.#drawn}`);
  }

  /** Takes the bar away. Safe to call twice. */
  end(): void {
    if (this.#drawn !== '') process.stderr.write(CLEAR_LINE);
    this.#drawn = '';
  }

  #draw(text: string): void {
    this.#drawn = text;
    process.stderr.write(`${CLEAR_LINE}${text}`);
  }
}

/** Progress in things that are counted. */
export class CountProgress extends Progress {
  readonly #unit: string;
  readonly #total: number;
  #done = 0;

  /** @param unit what is counted, in plural */
  constructor(unit: string, total: number) {
    super();
    this.#unit = unit;
    this.#total = total;
  }

  advance(count: number, detail: string): void {
    this.#done += count;
    const [done, total] = [this.#done, this.#total].map((one) => one.toLocaleString('en-US'));
    const share = this.#total === 0 ? 1 : this.#done / this.#total;
    this.show(share, `${done} of ${total} ${this.#unit} ${detail}`);
  }
}

/** How far all tasks together have come. Time is counted once for each stream. */
export interface FillTotals {
  readonly lengthMs: number;
  readonly coveredMs: number;
  readonly unfillableMs: number;
  readonly waitingMs: number;
  /** Trades and candles under coverage of the streams at work, whenever they came. */
  readonly rows: number;
}

/** Window from which pace and time left are derived. */
const WINDOW_MS = 30_000;

interface Sample {
  readonly atMs: number;
  readonly share: number;
  readonly rows: number;
}

/** Progress of filling, with its pace and the time left. */
export class FillProgress extends Progress {
  /** The newest last; of the window, and one before it. */
  #samples: Sample[] = [];
  #firstRows: number | undefined;

  constructor() {
    super(Number.NEGATIVE_INFINITY);
  }

  /** Rows that were added since the first look. */
  rowsSince({ rows }: FillTotals): number {
    this.#firstRows ??= rows;
    return Math.max(0, rows - this.#firstRows);
  }

  look(totals: FillTotals): void {
    const { coveredMs, lengthMs, unfillableMs, waitingMs } = totals;
    const atMs = systemClock.monotonicMs();
    const share = lengthMs === 0 ? 1 : coveredMs / lengthMs;
    const rows = this.rowsSince(totals);
    this.#samples.push({ atMs, share, rows });
    while ((this.#samples[1]?.atMs ?? atMs) < atMs - WINDOW_MS) this.#samples.shift();
    const parts = [`${rows.toLocaleString('en-US')} rows`];
    const [first = { atMs, share, rows }] = this.#samples;
    const tookMs = atMs - first.atMs;
    if (tookMs >= 1000) {
      const rowsPerS = ((rows - first.rows) / tookMs) * 1000;
      parts.push(`${Math.round(rowsPerS).toLocaleString('en-US')} rows/s`);
      const gained = share - first.share;
      const openShare = 1 - share - (unfillableMs + waitingMs) / Math.max(1, lengthMs);
      const leftMs = (openShare / gained) * tookMs;
      if (gained > 0 && leftMs > 0) parts.push(`about ${roughDuration(leftMs)} left`);
    }
    this.show(share, parts.join(', '));
  }
}

/** Never rounds up to 100: that is kept for what is complete. */
export function percent(share: number, digits = 1): string {
  const parts = 10 ** (digits + 2);
  return share >= 1 ? '100%' : `${((Math.floor(share * parts) / parts) * 100).toFixed(digits)}%`;
}
