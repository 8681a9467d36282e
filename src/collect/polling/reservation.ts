import { AbortedError } from '../../kernel/errors.js';
import type { ExchangePort, RequestTurn } from '../ports.js';

/** A turn that is waited for, and may be given up before it comes. */
export class Reservation {
  readonly turn: Promise<RequestTurn>;
  readonly #controller = new AbortController();

  constructor(exchange: Pick<ExchangePort, 'reserve'>, priority: number, signal: AbortSignal) {
    const giveUp = () => this.giveUp();
    signal.addEventListener('abort', giveUp, { once: true });
    if (signal.aborted) giveUp();
    this.turn = exchange
      .reserve(priority, this.#controller.signal)
      .finally(() => signal.removeEventListener('abort', giveUp));
  }

  giveUp(): void {
    this.#controller.abort(new AbortedError());
  }
}
