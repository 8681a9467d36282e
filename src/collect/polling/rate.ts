/** How fast old observations fade, seconds. */
const FADING_S = 300;
/** What is assumed before anything was seen: one trade in this time. */
const PRIOR_S = 30;

/**
 * How many trades a second a market has, from what its polls brought. The estimate follows changes
 * within minutes, and is never zero, so that a silent market is not forgotten.
 */
export class TradeRate {
  #rows = 0;
  #seconds = 0;

  /** @param rows new trades that a poll brought, `seconds` after the one before */
  observe(rows: number, seconds: number): void {
    const fading = Math.exp(-seconds / FADING_S);
    this.#rows = this.#rows * fading + rows;
    this.#seconds = this.#seconds * fading + seconds;
  }

  get perS(): number {
    return (this.#rows + 1) / (this.#seconds + PRIOR_S);
  }
}
