/** What a case found. */
export type Verdict = 'pass' | 'fail' | 'differs' | 'skipped';

/** Who broke the contract: the exchange, or the typed client that spoke to it. */
export type Side = 'server' | 'client';

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
  lists: 'state.subscribe takes a list of markets',
  silence: 'what cannot be answered stays unanswered',
  pingRefused: 'server.ping is not known',
} as const;
export type Variation = keyof typeof VARIATIONS;

/** Thrown by a case that cannot be judged here, with the reason. */
export class Skip extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = 'Skip';
  }
}

/** Thrown where a case cannot go on, because one side broke the contract. */
export class SideError extends Error {
  readonly side: Side;

  constructor(side: Side, text: string) {
    super(text);
    this.name = 'SideError';
    this.side = side;
  }
}

/** Remarks kept per case and kind; a page of a thousand bad rows needs no thousand lines. */
const MAX_REMARKS = 5;

/** What one case finds, gathered while it runs. */
export class Findings {
  readonly #failures: string[] = [];
  readonly #sides = new Set<Side>();
  readonly #differences = new Map<Variation, string>();

  /** The contract is broken, by the server unless said otherwise. */
  fail(text: string, side: Side = 'server'): void {
    this.#sides.add(side);
    if (this.#failures.length < MAX_REMARKS) this.#failures.push(`${side}: ${text}`);
  }

  /** Fails unless `isRight`. @returns `isRight` */
  check(isRight: boolean, text: string, side: Side = 'server'): boolean {
    if (!isRight) this.fail(text, side);
    return isRight;
  }

  /** A known variation was seen; the first sight of each is kept. */
  differs(variation: Variation, text = VARIATIONS[variation] as string): void {
    if (!this.#differences.has(variation)) this.#differences.set(variation, text);
  }

  /** Takes over what was found elsewhere. */
  include(other: Findings): void {
    for (const side of other.#sides) this.#sides.add(side);
    this.#failures.push(...other.#failures.slice(0, MAX_REMARKS - this.#failures.length));
    for (const [variation, text] of other.#differences) this.differs(variation, text);
  }

  get verdict(): Verdict {
    if (this.#failures.length > 0) return 'fail';
    return this.#differences.size > 0 ? 'differs' : 'pass';
  }

  /** The sides that failed. */
  get sides(): Side[] {
    return [...this.#sides].sort();
  }

  get variations(): Variation[] {
    return [...this.#differences.keys()];
  }

  get remarks(): string[] {
    const differences = [...this.#differences].map(([name, text]) => `${name}: ${text}`);
    return [...this.#failures, ...differences];
  }
}
