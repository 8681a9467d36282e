import { type ExchangeApi, safeExcerpt } from '../../client/index.js';
import type { EndpointName } from '../../contract/endpoints.js';
import { isNotRecordedYet } from '../../contract/extensions.js';
import type { Market } from '../../contract/resources.js';
import { compareDecimals } from '../../kernel/decimal.js';
import { codeOf, messageOf, TapekeepError } from '../../kernel/errors.js';
import { kebabCase } from '../options.js';
import { countOf } from '../output.js';

const MARKETS = 'Check the market and the values: "tapekeep api markets" lists what there is.';
const AGAIN = 'It may pass: try again a little later.';

/** What to do about a failed call, where its message does not say so itself. */
const ADVICE: Readonly<Record<string, string>> = {
  invalid_input: MARKETS,
  field_errors: MARKETS,
  market_unavailable: MARKETS,
  not_found: MARKETS,
  operation_blocked: 'The exchange refuses this now; try another pair, or later.',
  network:
    'Check the address of the exchange (exchange.url, TAPEKEEP_EXCHANGE_URL), whether it runs, and that this machine reaches it: a name server, a proxy, a firewall.',
  timeout: `${AGAIN} The setting exchange.timeout says how long is waited.`,
  server_error: AGAIN,
  service_unavailable: AGAIN,
  rate_limited: AGAIN,
  unexpected_page: 'Check that the address is the API of the exchange, not its web site.',
  malformed_reply: 'Check that the address is the API of an exchange of this family.',
};

/** Of a replay: waiting changes nothing while its time is paused, or goes on by steps. */
const STEER =
  'Ask again when the time of the replay has gone on: GET /replay/clock shows it; POST /replay/resume, /replay/step or /replay/seek moves it.';

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
export function nameCall(message: string, { name, params }: Called): string {
  const market = textOf(params.market);
  const words = [kebabCase(name), ...(market === undefined ? [] : [safeExcerpt(market)])];
  return message.startsWith(name) ? words.join(' ') + message.slice(name.length) : message;
}

/**
 * What to do about a failure of the exchange; undefined where its message says so itself.
 *
 * @param called left out: no market and no value was asked about, so that the address is to be checked
 */
export function adviceOn(error: unknown, called?: Called): string | undefined {
  if (isNotRecordedYet(messageOf(error))) return STEER;
  const advice = ADVICE[codeOf(error)];
  return advice === MARKETS && called === undefined ? ADVICE.network : advice;
}

/** The same error in the words of the command line, with a sentence on what to do. */
export function withAdvice(error: unknown, called?: Called, cause?: string): unknown {
  if (!(error instanceof TapekeepError)) return error;
  const message = messageOf(error);
  const named = called === undefined ? message : nameCall(message, called);
  const advice = cause === undefined ? adviceOn(error, called) : `Likely because ${cause}.`;
  if (advice === undefined && named === message) return error;
  const text = advice === undefined ? named : `${named}\n${advice}`;
  return new TapekeepError(error.code, text, { action: error.action, cause: error });
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
  const cause = await client.markets().then(
    ({ data }) => likelyCause({ market, price, amount }, data),
    () => undefined,
  );
  return withAdvice(error, called, cause);
}

/** What was asked for, as far as it says about a market. */
export interface AskedOfMarket {
  readonly market: string;
  readonly price?: string | undefined;
  readonly amount?: string | undefined;
}

/** Markets that are named where one is unknown. */
const NAMED_MARKETS = 10;

/** Places after the point that count: zeros at the end say nothing. */
function placesOf(text: string): number {
  const [, places = ''] = text.split('.');
  return places.replace(/0+$/, '').length;
}

/**
 * Why an exchange that says no more than `invalid input` may have refused, by its own list of
 * markets. Undefined when the list shows nothing wrong.
 */
export function likelyCause(
  { market, price, amount }: AskedOfMarket,
  markets: readonly Market[],
): string | undefined {
  const found = markets.find(({ name }) => name === market);
  if (found === undefined) {
    const names = markets.slice(0, NAMED_MARKETS).map(({ name }) => name);
    const more = markets.length > names.length ? ', …' : '';
    return `${market} is not among its ${countOf(markets.length, 'market')}: ${names.join(', ')}${more}`;
  }
  const { stock, money, stockPrec, moneyPrec, minAmount } = found;
  const tooFine = (name: string, text: string, places: number, currency: string) =>
    `the ${name} ${text} has more decimal places than the ${places} of ${currency} in ${market}`;
  if (price !== undefined && placesOf(price) > moneyPrec) {
    return tooFine('price', price, moneyPrec, money);
  }
  if (amount === undefined) return undefined;
  if (placesOf(amount) > stockPrec) return tooFine('amount', amount, stockPrec, stock);
  if (compareDecimals(amount, minAmount) < 0) {
    return `the amount ${amount} is below ${minAmount} ${stock}, the least in ${market}`;
  }
  return price === undefined
    ? undefined
    : 'funds may be short: "tapekeep api balances" shows what is available';
}
