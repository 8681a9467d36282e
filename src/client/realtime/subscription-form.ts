import {
  LIST_PERIOD_S,
  REALTIME_ERRORS,
  type RealtimeWords,
  type ServerFrame,
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
  /** Its words. */
  readonly words: RealtimeWords;
  #listSinceMs: number | undefined;

  /** @param words how it speaks, as its dialect says; default the contract's words */
  constructor(clock: Clock, words: RealtimeWords = {}) {
    this.#clock = clock;
    this.words = words;
  }

  /** Whether a list of markets is what it understands, as far as is known. */
  get isList(): boolean {
    if (this.words.isList === true) return true;
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

/** Whether the result of a subscribe says that it was one. */
function isSuccess(result: unknown): boolean {
  return (result as { status?: unknown } | null)?.status === 'success';
}

/** What an answer to `state.subscribe` means for the connection. */
export type SubscriptionStep = 'follow' | 'ask again' | 'period_not_offered' | 'subscribe_refused';

/** The subscription of one connection, in whichever form the exchange takes. */
export class SubscriptionRequest {
  readonly #form: SubscriptionForm;
  readonly #market: string;
  readonly #periodS: number;
  #usesList: boolean;

  constructor(form: SubscriptionForm, market: string, periodS: number) {
    this.#form = form;
    this.#market = market;
    this.#periodS = periodS;
    this.#usesList = form.isList;
  }

  get params(): readonly unknown[] {
    return this.#usesList ? [this.#market] : [this.#market, this.#periodS];
  }

  /** An invalid argument may be the form itself. Another refusal is one whatever the form. */
  answered({ error, result }: Extract<ServerFrame, { kind: 'response' }>): SubscriptionStep {
    const isDone = error === null && isSuccess(result);
    if (this.#usesList) {
      if (isDone) this.#form.tookList();
      else this.#form.refusedList();
    }
    if (isDone) {
      const isOffered = !this.#usesList || this.#periodS === LIST_PERIOD_S;
      return isOffered ? 'follow' : 'period_not_offered';
    }
    const isForm = !this.#usesList && error?.code === REALTIME_ERRORS.invalidArgument.code;
    this.#usesList ||= isForm;
    return isForm ? 'ask again' : 'subscribe_refused';
  }
}
