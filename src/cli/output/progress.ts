import type { Clock } from '../../kernel/clock.js';

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
 * Tells how far a long piece of work has come: a bar in place on a terminal, a line now and then
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

  /** Tells on a terminal what is done now that has no measure. */
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
