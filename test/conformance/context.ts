import type { Credentials } from '../../src/client/index.js';
import { RequestSigner } from '../../src/client/request-signer.js';
import { type EndpointName, endpoints, type ResultOf } from '../../src/contract/endpoints.js';
import { readBody } from '../../src/contract/error-shapes.js';
import type { Clock } from '../../src/kernel/clock.js';
import { messageOf } from '../../src/kernel/errors.js';
import type { Answer, ExchangeProbe, Query } from './exchange-probe.js';
import type { Findings } from './outcome.js';
import type { RealtimeOptions } from './realtime-probe.js';

/** One rule of the contract, and how it is looked at. */
export interface Case {
  /** Stable name, dots between its parts. */
  readonly id: string;
  /** The rule in one line. */
  readonly title: string;
  run(context: Context, findings: Findings): Promise<void>;
}

/** What the cases of one run share. */
export interface Context {
  readonly probe: ExchangeProbe;
  readonly market: string;
  /** Undefined when no address was given. */
  readonly realtime: RealtimeOptions | undefined;
  readonly signer: RequestSigner | undefined;
  readonly signal: AbortSignal | undefined;
}

/** The exchange can not be judged at all. */
export class UnusableError extends Error {
  constructor(text: string, options?: { cause?: unknown }) {
    super(text, options);
    this.name = 'UnusableError';
  }
}

/** The rows that an answer carries. Whatever does not fit the contract is an error. */
export function readResult<N extends EndpointName>(name: N, answer: Answer): ResultOf<N> {
  const { envelope, result } = endpoints[name];
  const reading = readBody(answer.json, envelope);
  if (answer.status !== 200 || reading.kind !== 'success') {
    throw new Error(`${answer.target} is refused: ${answer.status} ${answer.text.slice(0, 120)}`);
  }
  const { data, rejected } = result.parse(reading.payload);
  const [first] = rejected;
  if (first !== undefined) {
    throw new Error(`${answer.target}: row ${first.at} is unreadable: ${first.reason}`);
  }
  return data as ResultOf<N>;
}

/** Asks once a run and reads the rows. */
export async function known<N extends EndpointName>(
  { probe }: Context,
  name: N,
  query: Query,
): Promise<ResultOf<N>> {
  return readResult(name, await probe.get(name, query));
}

/** Asks now and reads the rows. */
export async function fresh<N extends EndpointName>(
  { probe }: Context,
  name: N,
  query: Query,
): Promise<ResultOf<N>> {
  return readResult(name, await probe.fresh(name, query));
}

export interface PrepareOptions {
  readonly market?: string;
  readonly realtimeUrl?: string;
  readonly credentials?: Credentials;
  readonly clock: Clock;
  readonly realtimeTimeoutMs: number;
  readonly signal?: AbortSignal;
}

/** The market that was wished for, or the first that was traded today, or the first. */
async function chooseMarket(probe: ExchangeProbe, wish: string | undefined): Promise<string> {
  const markets = readResult('markets', await probe.get('markets'));
  const names = markets.map(({ name }) => name);
  if (wish !== undefined) {
    if (names.includes(wish)) return wish;
    throw new UnusableError(`no market ${wish}; there are ${names.slice(0, 10).join(', ')}`);
  }
  const tickers = readResult('tickers', await probe.get('tickers'));
  const traded = names.find((name) => /[1-9]/.test(tickers[name]?.ticker.vol ?? ''));
  const chosen = traded ?? names[0];
  if (chosen === undefined) throw new UnusableError('the exchange lists no markets');
  return chosen;
}

/** @throws UnusableError when there is no market to look at */
export async function prepare(options: PrepareOptions, probe: ExchangeProbe): Promise<Context> {
  const { credentials, clock, realtimeUrl, realtimeTimeoutMs } = options;
  let market: string;
  try {
    market = await chooseMarket(probe, options.market);
  } catch (cause) {
    if (cause instanceof UnusableError) throw cause;
    throw new UnusableError(`the exchange can not be used: ${messageOf(cause)}`, { cause });
  }
  return {
    probe,
    market,
    realtime:
      realtimeUrl === undefined
        ? undefined
        : { url: realtimeUrl, clock, timeoutMs: realtimeTimeoutMs },
    signer: credentials && new RequestSigner(credentials, clock),
    signal: options.signal,
  };
}
