import { type ExchangeApi, safeExcerpt } from '../../client/index.js';
import type { EndpointName } from '../../contract/endpoints.js';
import { REPLAY_TIME } from '../../contract/replay-time.js';
import { messageOf, TapekeepError } from '../../kernel/errors.js';
import { likelyCause } from './likely-cause.js';
import { kebabCase } from './options.js';

const MARKETS = 'Check the market and the values: "tapekeep api markets" lists what there is.';
const AGAIN = 'It may pass: try again a little later.';

/** What to do about a failed call, where its message does not say so itself. */
const ADVICE: Readonly<Record<string, string>> = {
  invalid_input: MARKETS,
  field_errors: MARKETS,
  market_unavailable: MARKETS,
  not_found: MARKETS,
  operation_blocked: 'The exchange does not take this now; another pair or a later moment may do.',
  network: 'Check the address of the exchange, and whether it runs.',
  timeout: `${AGAIN} The setting exchange.timeout says how long is waited.`,
  server_error: AGAIN,
  service_unavailable: AGAIN,
  rate_limited: AGAIN,
  unexpected_page: 'Check that the address is the API of the exchange, not its web site.',
  malformed_reply: 'Check that the address is the API of an exchange of this family.',
};

/** Of a replay: waiting changes nothing while its time is paused, or goes on by steps. */
const STEER =
  'Asking again helps when that time has gone on: "tapekeep replay ctl" reads and steers it (step, seek, resume).';

/** What was called, as the command line names it. */
export interface Called {
  readonly name: EndpointName;
  readonly params: Readonly<Record<string, unknown>>;
}

/** Errors under which the exchange may mean the market or a value, and does not say which. */
const VAGUE: ReadonlySet<string> = new Set([
  'invalid_input',
  'field_errors',
  'market_unavailable',
  'not_found',
  'service_unavailable',
]);

const textOf = (value: unknown) => (typeof value === 'string' ? value : undefined);

/** `depth NO_SUCH` where the client says `depth`. */
function nameCall(message: string, { name, params }: Called): string {
  const market = textOf(params.market);
  const words = [kebabCase(name), ...(market === undefined ? [] : [safeExcerpt(market)])];
  return message.startsWith(name) ? words.join(' ') + message.slice(name.length) : message;
}

/** The same error in the words of the command line, with a sentence on what to do. */
export function withAdvice(error: unknown, called?: Called, cause?: string): unknown {
  if (!(error instanceof TapekeepError)) return error;
  const said = messageOf(error);
  const named = called === undefined ? said : nameCall(said, called);
  const known = said.includes(REPLAY_TIME) ? STEER : ADVICE[error.code];
  const advice = cause === undefined ? known : `Likely because ${cause}.`;
  if (advice === undefined && named === said) return error;
  const text = advice === undefined ? named : `${named}\n${advice}`;
  return new TapekeepError(error.code, error.action, text, { cause: error });
}

/**
 * The same, after a look at the exchange's list of markets where the exchange was vague: that is one
 * question more, and whatever goes wrong with it changes nothing.
 */
export async function explained(
  error: unknown,
  called: Called,
  client: Pick<ExchangeApi, 'markets'>,
): Promise<unknown> {
  const market = textOf(called.params.market);
  const isVague = error instanceof TapekeepError && VAGUE.has(error.code);
  if (!isVague || market === undefined) return withAdvice(error, called);
  const [price, amount] = [textOf(called.params.price), textOf(called.params.amount)];
  const asked = {
    market,
    ...(price === undefined ? {} : { price }),
    ...(amount === undefined ? {} : { amount }),
  };
  const cause = await client.markets().then(
    ({ data }) => likelyCause(asked, data),
    () => undefined,
  );
  return withAdvice(error, called, cause);
}
