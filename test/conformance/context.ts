import type { Credentials, NonceStore } from '../../src/client/index.js';
import { identityOf } from '../../src/client/reply-reader.js';
import { RequestSigner } from '../../src/client/request-signer.js';
import type { EndpointName, ResultOf } from '../../src/contract/endpoints.js';
import type { SignedContent } from '../../src/contract/signing.js';
import type { Clock } from '../../src/kernel/clock.js';
import { messageOf } from '../../src/kernel/errors.js';
import { ClientProbe } from './client-probe.js';
import { readByClient, readReplyOf } from './client-reading.js';
import type { ExchangeProbe, Query } from './exchange-probe.js';
import { type Findings, Skip } from './outcome.js';
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
  /** The typed client on the same exchange. */
  readonly client: ClientProbe;
  readonly market: string;
  /** Undefined when no address was given. */
  readonly realtime: RealtimeOptions | undefined;
  readonly signer: RequestSigner | undefined;
  readonly credentials: Credentials | undefined;
  /** A key that the exchange has and has not activated. */
  readonly inactive: Credentials | undefined;
  /** What a signature covers at this exchange. */
  readonly signedContent: SignedContent;
  /** Whether it names itself a server of this project: what is done to it can do no harm. */
  readonly isSandbox: boolean;
  /** Whether order/new may be asked, and whatever else may change or lock an account. */
  readonly mayChange: boolean;
  readonly signal: AbortSignal | undefined;
}

/** The exchange cannot be judged at all. */
export class UnusableError extends Error {
  constructor(text: string, options?: { cause?: unknown }) {
    super(text, options);
    this.name = 'UnusableError';
  }
}

/** Asks once a run and reads the rows. */
export async function known<N extends EndpointName>(
  { probe }: Context,
  name: N,
  query: Query,
): Promise<ResultOf<N>> {
  return readByClient(name, await probe.get(name, query));
}

/** Asks now and reads the rows. */
export async function fresh<N extends EndpointName>(
  { probe }: Context,
  name: N,
  query: Query,
): Promise<ResultOf<N>> {
  return readByClient(name, await probe.fresh(name, query));
}

export interface PrepareOptions {
  readonly market?: string;
  readonly realtimeUrl?: string;
  readonly credentials?: Credentials;
  readonly inactive?: Credentials;
  readonly allowOrders?: boolean;
  readonly signedContent?: SignedContent;
  readonly clock: Clock;
  readonly realtimeTimeoutMs: number;
  readonly signal?: AbortSignal;
}

/** @throws Skip without keys */
export function requireKeys({ signer, credentials }: Context) {
  if (signer === undefined || credentials === undefined) throw new Skip('no keys were given');
  return { signer, credentials };
}

/** @throws Skip where an account must not be changed */
export function requireChanges(context: Context) {
  const keys = requireKeys(context);
  if (context.mayChange) return keys;
  throw new Skip('not a sandbox, and --allow-orders was not given');
}

/** The nonces of a run: raw requests and the typed client sign with one key. */
function sharedNonces(): NonceStore {
  let last: number | undefined;
  return {
    load: () => Promise.resolve(last),
    save: (nonce) => {
      last = nonce;
      return Promise.resolve();
    },
  };
}

/** The market that was wished for, or the first that was traded today, or the first. */
async function chooseMarket(probe: ExchangeProbe, wish: string | undefined): Promise<string> {
  const { data: markets } = readReplyOf('markets', await probe.get('markets'));
  const names = markets.map(({ name }) => name);
  if (wish !== undefined) {
    if (names.includes(wish)) return wish;
    throw new UnusableError(`no market ${wish}; there are ${names.slice(0, 10).join(', ')}`);
  }
  const { data: tickers } = readReplyOf('tickers', await probe.get('tickers'));
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
    throw new UnusableError(`the exchange cannot be used: ${messageOf(cause)}`, { cause });
  }
  // Only servers of this project name the history that they tell.
  const isSandbox = identityOf((await probe.get('markets')).headers) !== null;
  const nonces = sharedNonces();
  const signedContent = options.signedContent ?? 'payload';
  const signing = { signedContent, nonceStore: nonces };
  return {
    probe,
    client: await ClientProbe.open(probe, clock, signing, credentials),
    market,
    realtime:
      realtimeUrl === undefined
        ? undefined
        : { url: realtimeUrl, clock, timeoutMs: realtimeTimeoutMs },
    signer: credentials && new RequestSigner(credentials, clock, signedContent, nonces),
    credentials,
    inactive: options.inactive,
    signedContent,
    isSandbox,
    mayChange: isSandbox || options.allowOrders === true,
    signal: options.signal,
  };
}
