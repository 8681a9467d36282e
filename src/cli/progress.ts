import type { Clock } from '../kernel/clock.js';
import { roughDuration } from './output.js';

/** Where progress is drawn: stderr, or a stand-in. */
interface ProgressOutput {
  write(text: string): unknown;
  readonly isTTY?: boolean;
}

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
  readonly #output: ProgressOutput;
  readonly #clock: Clock;
  readonly #unit: string;
  readonly #total: number;
  #done = 0;
  #shownMs: number;
  #isDrawn = false;

  /** @param unit what is counted, in plural */
  constructor(output: ProgressOutput, clock: Clock, unit: string, total: number) {
    this.#output = output;
    this.#clock = clock;
    this.#unit = unit;
    this.#total = total;
    this.#shownMs = clock.monotonicMs();
  }

  /** Counts work that is done; draws if it is time to. */
  advance(count: number, detail: string): void {
    this.#done += count;
    const isTerminal = this.#output.isTTY === true;
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#shownMs < (isTerminal ? DRAW_PERIOD_MS : LINE_PERIOD_MS)) return;
    this.#shownMs = nowMs;
    const share = this.#total === 0 ? 1 : Math.min(1, this.#done / this.#total);
    const percent = `${Math.floor(share * 100)}%`.padStart(4);
    const counted = `${this.#done.toLocaleString('en-US')} of ${this.#total.toLocaleString('en-US')}`;
    const text = `${percent} ${counted} ${this.#unit} ${detail}`;
    if (!isTerminal) {
      this.#output.write(`${text.trim()}\n`);
      return;
    }
    const filled = Math.round(share * BAR_WIDTH);
    this.#output.write(
      `${CLEAR_LINE}${'█'.repeat(filled)}${'░'.repeat(BAR_WIDTH - filled)}${text}`,
    );
    this.#isDrawn = true;
  }

  /** Shows on a terminal the current step without a measure. */
  say(text: string): void {
    if (this.#output.isTTY !== true) return;
    this.#output.write(`${CLEAR_LINE}${text}`);
    this.#isDrawn = true;
  }

  /** Takes the bar away. Safe to call twice. */
  end(): void {
    if (this.#isDrawn) this.#output.write(CLEAR_LINE);
    this.#isDrawn = false;
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

/** The part that is covered, 0 to 1. */
export function shareOf({ coveredMs, lengthMs }: FillTotals): number {
  return lengthMs === 0 ? 1 : coveredMs / lengthMs;
}

/** Anything but a terminal gets a line this often at most. */
const FILL_LINE_PERIOD_MS = 5000;
/** Window from which pace and time left are derived. */
const WINDOW_MS = 30_000;

interface Sample {
  readonly atMs: number;
  readonly share: number;
  readonly rows: number;
}

/**
 * Draws how far filling has come: a bar in place on a terminal, a line every few seconds elsewhere.
 * Everything goes to stderr, so that stdout holds results only.
 */
export class ProgressLine {
  readonly #output: ProgressOutput;
  readonly #clock: Clock;
  /** The newest last; of the window, and one before it. */
  #samples: Sample[] = [];
  #firstRows: number | undefined;
  #lineAtMs = Number.NEGATIVE_INFINITY;
  #drawn = '';

  constructor(output: ProgressOutput, clock: Clock) {
    this.#output = output;
    this.#clock = clock;
  }

  /** Rows that were added since the first look. */
  rowsSince({ rows }: FillTotals): number {
    this.#firstRows ??= rows;
    return Math.max(0, rows - this.#firstRows);
  }

  show(totals: FillTotals): void {
    const atMs = this.#clock.monotonicMs();
    this.#samples.push({ atMs, share: shareOf(totals), rows: this.rowsSince(totals) });
    while ((this.#samples[1]?.atMs ?? atMs) < atMs - WINDOW_MS) this.#samples.shift();
    const text = this.#text(totals);
    if (this.#output.isTTY === true) {
      const filled = Math.floor(shareOf(totals) * BAR_WIDTH);
      this.#drawn = `${'█'.repeat(filled)}${'░'.repeat(BAR_WIDTH - filled)} ${text}`;
      this.#output.write(`${CLEAR_LINE}${this.#drawn}`);
    } else if (atMs - this.#lineAtMs >= FILL_LINE_PERIOD_MS) {
      this.#lineAtMs = atMs;
      this.#output.write(`${text}\n`);
    }
  }

  /** Writes a line of something else, above the bar where there is one. */
  write(line: string): void {
    this.#output.write(this.#drawn === '' ? line : `${CLEAR_LINE}${line}${this.#drawn}`);
  }

  /** Takes the bar away. Safe to call twice. */
  end(): void {
    if (this.#drawn !== '') this.#output.write(CLEAR_LINE);
    this.#drawn = '';
  }

  #text(totals: FillTotals): string {
    const [first, last] = [this.#samples[0], this.#samples.at(-1)];
    const parts = [
      percent(shareOf(totals)),
      `${this.rowsSince(totals).toLocaleString('en-US')} rows`,
    ];
    if (first !== undefined && last !== undefined && last.atMs - first.atMs >= 1000) {
      const tookMs = last.atMs - first.atMs;
      const rowsPerS = ((last.rows - first.rows) / tookMs) * 1000;
      parts.push(`${Math.round(rowsPerS).toLocaleString('en-US')} rows/s`);
      const gained = last.share - first.share;
      const settledShare = (totals.unfillableMs + totals.waitingMs) / Math.max(1, totals.lengthMs);
      const leftMs = ((1 - last.share - settledShare) / gained) * tookMs;
      if (gained > 0 && leftMs > 0) parts.push(`about ${roughDuration(leftMs)} left`);
    }
    return parts.join(', ');
  }
}

/** Never rounds up to 100: that is kept for what is complete. */
export function percent(share: number): string {
  return share >= 1 ? '100%' : `${(Math.floor(share * 1000) / 10).toFixed(1)}%`;
}
