import { systemClock } from '../kernel/clock.js';
import { shownDuration } from '../kernel/durations.js';
import { whole } from './output.js';

const BAR_WIDTH = 30;
/** Bytes; sizes of disks are in these. */
export const MEGABYTE = 1_000_000;
/** A terminal is drawn again this often at most; anything else gets a line this often. */
const DRAW_PERIOD_MS = 100;
const LINE_PERIOD_MS = 10_000;
const CLEAR_LINE = '\r\x1b[2K';

/**
 * Progress of a long piece of work: a bar in place on a terminal, a line now and then
 * elsewhere, nothing for work that ends soon. It goes to stderr, so that stdout holds results only.
 */
export class Progress implements Disposable {
  readonly #unit: string;
  readonly #total: number;
  readonly #pace = new Pace();
  #done = 0;
  #shownMs: number;
  #drawn = '';

  /**
   * @param unit what is counted, in plural; left out where only shares are shown
   * @param shownMs when the last line was shown, monotonic
   */
  constructor(unit = '', total = 0, shownMs = systemClock.monotonicMs()) {
    this.#unit = unit;
    this.#total = total;
    this.#shownMs = shownMs;
  }

  /** Draws how much more is done. */
  advance(count: number, detail: string): void {
    this.at(this.#done + count, detail);
  }

  /** Draws how much is done of the total. @param counted what the pace is of; default: the same */
  at(done: number, detail: string, counted: Counted = [done, this.#unit]): void {
    this.#done = done;
    const [of, total] = [done, this.#total].map(whole);
    const share = this.#total === 0 ? 1 : done / this.#total;
    this.show(share, `${of} of ${total} ${this.#unit} ${detail}`, counted);
  }

  /**
   * Draws if it is time to.
   *
   * @param share of the work that is done, 0 to 1
   * @param counted what the pace is of; left out: none is shown
   * @param openShare of the work that is still to be done
   */
  show(share: number, text: string, counted?: Counted, openShare = 1 - share): void {
    // It looks on while nothing is drawn.
    const pace = counted === undefined ? [] : this.#pace.look(share, counted, openShare);
    const isTerminal = process.stderr.isTTY === true;
    const nowMs = systemClock.monotonicMs();
    if (nowMs - this.#shownMs < (isTerminal ? DRAW_PERIOD_MS : LINE_PERIOD_MS)) return;
    this.#shownMs = nowMs;
    const line = [percent(share), text, ...pace].join(', ');
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

  [Symbol.dispose](): void {
    this.end();
  }

  #draw(text: string): void {
    this.#drawn = text;
    process.stderr.write(`${CLEAR_LINE}${text}`);
  }
}

/** How many of what, in plural. */
type Counted = readonly [count: number, unit: string];

/** Window from which pace and time left are derived. */
const WINDOW_MS = 30_000;
const SAMPLE_MS = 200;

/** Pace of a piece of work over the last half minute, and the time that is left at this pace. */
class Pace {
  /** The newest last; of the window, and one before it. */
  #samples: { readonly atMs: number; readonly share: number; readonly count: number }[] = [];

  /** @returns `3,458 rows/s` and `about 2.6s left`, as far as they are known */
  look(share: number, [count, unit]: Counted, openShare: number): string[] {
    const now = { atMs: systemClock.monotonicMs(), share, count };
    if (now.atMs - (this.#samples.at(-1)?.atMs ?? -SAMPLE_MS) >= SAMPLE_MS) this.#samples.push(now);
    while ((this.#samples[1]?.atMs ?? now.atMs) < now.atMs - WINDOW_MS) this.#samples.shift();
    const [first = now] = this.#samples;
    const tookMs = now.atMs - first.atMs;
    if (tookMs < 1000) return [];
    const perS = ((count - first.count) / tookMs) * 1000;
    const parts = [`${whole(Math.round(perS))} ${unit}/s`];
    const gained = share - first.share;
    const leftMs = (openShare / gained) * tookMs;
    if (gained > 0 && leftMs > 0) parts.push(`about ${shownDuration(leftMs)} left`);
    return parts;
  }
}

/** How much of a span is covered; its lengths come as floating point of microseconds. */
export function coveredShare(of: { readonly coveredMs: number; readonly lengthMs: number }) {
  return percent(Math.min(1, (of.coveredMs + 0.5) / of.lengthMs));
}

/** Never rounds up to 100: that is kept for what is complete. */
export function percent(share: number, digits = 1): string {
  const parts = 10 ** (digits + 2);
  return share >= 1 ? '100%' : `${((Math.floor(share * parts) / parts) * 100).toFixed(digits)}%`;
}
