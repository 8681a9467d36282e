import type { CallOptions, RequestTurn } from '../../../src/client/index.js';
import type { ExchangePort, ExchangeReply } from '../../../src/collect/ports.js';
import {
  type EndpointName,
  endpoints,
  type ParamsOf,
  type ResultOf,
} from '../../../src/contract/endpoints.js';
import { KLINE_PAGE_MAX } from '../../../src/contract/limits.js';
import type { Clock } from '../../../src/kernel/clock.js';

type Answers = {
  [Name in EndpointName]?: (params: ParamsOf<Name>, signal?: AbortSignal) => unknown;
};

export interface Asked {
  readonly endpoint: EndpointName;
  readonly params: Readonly<Record<string, unknown>>;
  readonly atMs: number;
}

/**
 * An exchange whose answers are written by the test, as the wire would carry them; they are read
 * with the contract, so that malformed rows are refused as in production. Its time is the clock's.
 */
export class ScriptedExchange implements ExchangePort {
  readonly asked: Asked[] = [];
  candlesMax = KLINE_PAGE_MAX;
  /** Endpoints that its dialect does not have. */
  readonly lacks = new Set<EndpointName>();
  readonly answers: Answers;
  /** The server's Date behind this clock, milliseconds. */
  dateBehindMs = 0;
  /** What is said of an answer besides its rows, in place of what this clock says. */
  told: Partial<Omit<ExchangeReply<unknown>, 'data' | 'rejected'>> = {};
  readonly #clock: Clock;

  constructor(clock: Clock, answers: Answers) {
    this.#clock = clock;
    this.answers = answers;
  }

  countOf(endpoint: EndpointName): number {
    return this.asked.filter((one) => one.endpoint === endpoint).length;
  }

  offers(name: EndpointName): boolean {
    return !this.lacks.has(name);
  }

  /** Every request is admitted at once; a test may put a budget here. */
  async reserve(_name: EndpointName, _priority: number, signal: AbortSignal): Promise<RequestTurn> {
    signal.throwIfAborted();
    return { giveBack: () => undefined };
  }

  async call<N extends EndpointName>(
    name: N,
    params: ParamsOf<N>,
    options?: CallOptions,
  ): Promise<ExchangeReply<ResultOf<N>>> {
    options?.signal?.throwIfAborted();
    const sentAtMs = this.#clock.wallMs();
    this.asked.push({ endpoint: name, params, atMs: sentAtMs });
    const answer = this.answers[name] as Answers[N];
    if (answer === undefined) throw new Error(`no answer is written for ${name}`);
    const payload = await answer(params, options?.signal);
    const { data, rejected } = endpoints[name].result.parse(payload);
    return {
      data: data as ResultOf<N>,
      rejected,
      sentAtMs,
      dateMs: Math.floor((sentAtMs - this.dateBehindMs) / 1000) * 1000,
      answeredAtMs: Math.floor(this.#clock.wallMs()),
      receivedAtMs: this.#clock.wallMs(),
      ...this.told,
    };
  }
}
