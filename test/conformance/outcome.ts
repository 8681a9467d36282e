/** What a case found. */
export type Verdict = 'pass' | 'fail' | 'differs' | 'skipped';

/**
 * Departures from the contract that servers of the family are known for (field notes). A server
 * that shows one is usable; whoever speaks to it must expect it.
 */
export const VARIATIONS = {
  errorShapes: "the family's error bodies",
  pageCap: 'pages end below the limit that was asked for',
  idMode: 'since and lastId are trade ids',
  bidsAscending: 'bids come lowest first',
  filledCandles: 'minutes without trades have candles',
  previousCloseOpens: 'a candle opens at the close before it',
  numbersAsText: 'numbers are carried as text, or in exponent form',
  moreFields: 'objects have further fields',
  roundedTotals: 'totals are rounded to their last place',
  familyUpdate: "state.update in the family's shape",
  silence: 'what can not be answered stays unanswered',
  pingRefused: 'server.ping is not known',
} as const;
export type Variation = keyof typeof VARIATIONS;

/** Thrown by a case that can not be judged here, with the reason. */
export class Skip extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = 'Skip';
  }
}

/** Remarks kept per case and kind; a page of a thousand bad rows needs no thousand lines. */
const MAX_REMARKS = 5;

/** What one case finds, gathered while it runs. */
export class Findings {
  readonly #failures: string[] = [];
  readonly #differences = new Map<Variation, string>();

  /** The contract is broken. */
  fail(text: string): void {
    if (this.#failures.length < MAX_REMARKS) this.#failures.push(text);
  }

  /** Fails unless `isRight`. @returns `isRight` */
  check(isRight: boolean, text: string): boolean {
    if (!isRight) this.fail(text);
    return isRight;
  }

  /** A known variation was seen; the first sight of each is kept. */
  differs(variation: Variation, text = VARIATIONS[variation] as string): void {
    if (!this.#differences.has(variation)) this.#differences.set(variation, text);
  }

  get verdict(): Verdict {
    if (this.#failures.length > 0) return 'fail';
    return this.#differences.size > 0 ? 'differs' : 'pass';
  }

  get variations(): Variation[] {
    return [...this.#differences.keys()];
  }

  get remarks(): string[] {
    const differences = [...this.#differences].map(([name, text]) => `${name}: ${text}`);
    return [...this.#failures, ...differences];
  }
}
