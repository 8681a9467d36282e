import {
  type FrameOf,
  LIST_PERIOD_S,
  REALTIME_ERRORS,
  type RealtimeWords,
} from '../../contract/realtime.js';
import type { Clock } from '../../kernel/clock.js';

/** After this long the contract's form is tried again: an exchange may have learnt it. */
const BELIEVED_MS = 3_600_000;

/**
 * How one exchange wants `state.subscribe` to be asked: as the contract says, with a market and a
 * period, or with a list of markets (field notes, Real-time), which has no place for a period.
 *
 * All feeds of an exchange share one, so that each process finds it out once.
 */
export class SubscriptionForm {
  readonly #clock: Clock;
  readonly #words: RealtimeWords;
  #listSinceMs: number | undefined;

  constructor(clock: Clock, words: RealtimeWords) {
    this.#clock = clock;
    this.#words = words;
  }

  /** Returns true if a list of markets is what it understands, as far as is known. */
  get isList(): boolean {
    if (this.#words.isList === true) return true;
    const sinceMs = this.#listSinceMs;
    return sinceMs !== undefined && this.#clock.monotonicMs() - sinceMs < BELIEVED_MS;
  }

  /** It refused the contract's form and took a list. */
  tookList(): void {
    this.#listSinceMs = this.#clock.monotonicMs();
  }

  /** It refused a list, too. */
  refusedList(): void {
    this.#listSinceMs = undefined;
  }
}

/** Returns true if the result of a subscribe says that it was one. */
export function isSuccess(result: unknown): boolean {
  return (result as { status?: unknown } | null)?.status === 'success';
}

/** Meaning of a response to `state.subscribe` for the connection. */
export type SubscriptionStep = 'follow' | 'ask again' | 'period_not_offered' | 'subscribe_refused';

/** Refusals that say nothing of what was asked. */
const OUT_OF_SERVICE: readonly number[] = [
  REALTIME_ERRORS.internal.code,
  REALTIME_ERRORS.unavailable.code,
  REALTIME_ERRORS.timeout.code,
];
/** Refused lists in a row after which the exchange refuses all. */
const REFUSED_MAX = 12;

/** Returns true if an answer refuses what was asked, and would do so again. */
export function isOfWhatWasAsked(error: { readonly code: number } | null | undefined): boolean {
  return error !== null && error !== undefined && !OUT_OF_SERVICE.includes(error.code);
}

/**
 * A list of names that is subscribed as one. Some servers refuse a whole list for one name that they do
 * not know: it is halved until the name is found and left out.
 */
export class NamesToSubscribe {
  /** Accepted by the last list that was. */
  #accepted: readonly string[] = [];
  /** Neither accepted nor refused. */
  #open: readonly string[];
  /** How many of those the list that is asked next has. */
  #tried: number;
  #refusedInARow = 0;
  readonly #refused: string[] = [];

  constructor(names: readonly string[]) {
    this.#open = names;
    this.#tried = names.length;
  }

  /** The list to ask for. */
  get asked(): readonly string[] {
    return [...this.#accepted, ...this.#open.slice(0, this.#tried)];
  }

  /** Names that were refused by themselves. */
  get refused(): readonly string[] {
    return this.#refused;
  }

  /** The list was accepted. @returns whether others are left to ask for */
  took(): boolean {
    this.#refusedInARow = 0;
    this.#accepted = this.asked;
    this.#open = this.#open.slice(this.#tried);
    this.#tried = Math.min(this.#open.length, 2 * this.#tried);
    return this.#open.length > 0;
  }

  /** The list was refused. @returns whether another one is worth asking for */
  narrow(): boolean {
    this.#refusedInARow += 1;
    if (this.#tried > 1) this.#tried = Math.ceil(this.#tried / 2);
    else {
      this.#refused.push(...this.#open.slice(0, this.#tried));
      this.#open = this.#open.slice(this.#tried);
      this.#tried = Math.min(this.#tried, this.#open.length);
    }
    // Accepted markets are subscribed once more: it may have gone with the list that was refused.
    return this.asked.length > 0 && this.#refusedInARow < REFUSED_MAX;
  }
}

/** The subscription of one connection, in whichever form the exchange takes. */
export class SubscriptionRequest {
  readonly #form: SubscriptionForm;
  readonly #periodS: number;
  readonly #names: NamesToSubscribe;
  #usesList: boolean;

  /** @param markets several only where lists are taken */
  constructor(form: SubscriptionForm, markets: readonly string[], periodS: number) {
    this.#form = form;
    this.#names = new NamesToSubscribe(markets);
    this.#periodS = periodS;
    this.#usesList = form.isList;
  }

  get params(): readonly unknown[] {
    const { asked } = this.#names;
    return this.#usesList ? asked : [asked[0], this.#periodS];
  }

  /** Names that were refused by themselves. */
  get refused(): readonly string[] {
    return this.#names.refused;
  }

  /** An invalid argument may be the form itself, or a name. Another refusal is one whatever was asked. */
  answered({ error, result }: FrameOf<'response'>): SubscriptionStep {
    if (error === null && isSuccess(result)) return this.#took();
    const isForm = !this.#usesList && error?.code === REALTIME_ERRORS.invalidArgument.code;
    if (isForm) {
      this.#usesList = true;
      return 'ask again';
    }
    return this.#usesList && isOfWhatWasAsked(error) ? this.#narrow() : 'subscribe_refused';
  }

  #took(): SubscriptionStep {
    if (!this.#usesList) return 'follow';
    this.#form.tookList();
    if (this.#names.took()) return 'ask again';
    return this.#periodS === LIST_PERIOD_S ? 'follow' : 'period_not_offered';
  }

  #narrow(): SubscriptionStep {
    const isWorth = this.#names.narrow();
    if (this.#names.asked.length === 0) this.#form.refusedList();
    return isWorth ? 'ask again' : 'subscribe_refused';
  }
}
