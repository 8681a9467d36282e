import { createInterface } from 'node:readline/promises';
import { Option } from 'commander';
import { type OrderRequest, UnknownOutcomeError } from '../../client/index.js';
import {
  type EndpointName,
  endpointNames,
  endpoints,
  type ParamsOf,
} from '../../contract/endpoints.js';
import { decimalSign, multiplyDecimals } from '../../kernel/decimal.js';
import { isAborted, messageOf, TapekeepError } from '../../kernel/errors.js';
import {
  type ApiOptions,
  EXCHANGE_OPTIONS,
  fixTimes,
  openApi,
  openApiSession,
  relativeTimeArgument,
} from '../api/access.js';
import { explained, nameCall } from '../api/advice.js';
import { hasRows, printRejected, printResult, UnreadableRowsError } from '../api/rows.js';
import { argument, command, type Declared, flag, group, nothing } from '../command.js';
import { commandEnding } from '../ending.js';
import { EXIT_CODES, type ExitCode } from '../failure.js';
import type { ExchangeAccess } from '../opening/exchange.js';
import { kebabCase } from '../options.js';
import { watch } from './api-watch.js';

/** Time parameters are marked in the table. */
const UNIX_TIME = /\bUNIX (?:time|seconds)\b/;

/** How values are called in help, where not as a number. */
const VALUE_NAMES: Readonly<Record<string, string>> = {
  ...{ market: 'name', interval: 'seconds', price: 'decimal', amount: 'decimal' },
};

const ORDER_HELP = `
Shows the order and asks for confirmation; without a terminal --yes is required. An order is sent once.
Exit code 5: order status unknown.`;

const RESULT_AS_JSON = flag('--json', 'print one JSON document');
const SIGNED_FORM = flag('--post', 'use the signed form');

/** One command for each row of the endpoint table. */
function endpointCommand(name: EndpointName): [string, [string, Declared]] {
  const { summary, access } = endpoints[name];
  const params = optionsOf(name);
  const hasMarket = params.some((one) => one.attributeName() === 'market');
  const about = access === 'private' ? `${summary} (signed)` : summary;
  const declared = command({
    args: hasMarket ? { argument: argument<string | undefined>('the same as --market') } : {},
    options: {
      ...Object.fromEntries(params.map((one) => [one.attributeName(), { options: [one] }])),
      ...{ ...EXCHANGE_OPTIONS, json: RESULT_AS_JSON },
      ...(access === 'public' ? { post: SIGNED_FORM } : {}),
      ...(name === 'orderNew' ? { yes: flag('--yes', 'place it without confirmation') } : {}),
    },
    ...(name === 'orderNew' && { help: ORDER_HELP }),
    needs: nothing,
    async run(common, values: Readonly<Record<string, unknown>>) {
      const named = hasMarket ? { ...values, market: marketOf(values) } : values;
      // What is not given is left to the contract.
      const given = Object.fromEntries(
        params
          .map((one) => [one.attributeName(), named[one.attributeName()]] as const)
          .filter(([, value]) => value !== undefined),
      );
      const { url, dialect, json, post, yes } = values as CallOptions;
      return await call(name, given, { ...common, url, dialect, json, post, yes });
    },
  });
  return [`${kebabCase(name)} [options]${hasMarket ? ' [market]' : ''}`, [about, declared]];
}

export default group({
  description: "Calls the exchange's API: one command for each endpoint, and watch.",
  help: `
The exchange is that of the settings (exchange.url, realtime.url), or of --url and --realtime-url. Signed calls
take the key from TAPEKEEP_ACCOUNT_KEY and TAPEKEEP_ACCOUNT_SECRET, or from the files of
TAPEKEEP_ACCOUNT_KEY_FILE and TAPEKEEP_ACCOUNT_SECRET_FILE.

  tapekeep api markets --url http://127.0.0.1:8080
  tapekeep api markets --url http://127.0.0.1:8080 --dialect whitebit
  tapekeep api kline BTC_USDT --start -1h --end now --json
  tapekeep api watch BTC_USDT --period 60 --for 10s
  tapekeep api order-new BTC_USDT --side buy --price 60000 --amount 0.001`,
  hint: '(tapekeep api --help lists the endpoints)',
  commands: {
    ...Object.fromEntries(endpointNames.map(endpointCommand)),
    'watch [options] <market>': [
      "Follows a market's state over the real-time interface, one line an event",
      watch,
    ],
  },
});

/** @throws TapekeepError `usage` unless exactly one market is named */
function marketOf({ argument, market }: Readonly<Record<string, unknown>>): string {
  const [named, chosen] = [argument, market] as (string | undefined)[];
  const either = named ?? chosen;
  if (either === undefined) throw new TapekeepError('usage', 'name a market, such as BTC_USDT');
  if (chosen === undefined || chosen === either) return either;
  throw new TapekeepError(
    'usage',
    `two markets are named, ${either} and --market ${chosen}; name one`,
  );
}

interface CallOptions extends ApiOptions {
  readonly json?: boolean | undefined;
  /** Uses the signed form of a public endpoint. */
  readonly post?: boolean | undefined;
  /** Places an order without asking. */
  readonly yes?: boolean | undefined;
}

/**
 * Calls one endpoint once and prints what it answers.
 *
 * @throws UnreadableRowsError when the answer has rows and none of them fits the contract
 * @param given parameters as the command line has them; their times may be relative to now
 */
async function call<N extends EndpointName>(
  name: N,
  given: Readonly<Record<string, unknown>>,
  options: CallOptions,
): Promise<ExitCode> {
  const order = name === 'orderNew' ? checkOrder(given as ParamsOf<'orderNew'>) : undefined;
  const { json = false, post: isSigned = false } = options;
  const session = openApiSession(options);
  const { account, exchange } = session.config;
  await using access = openApi(session, name, isSigned);
  try {
    if (order !== undefined) {
      if (options.yes !== true && !(await isConfirmed(order, exchange.url ?? ''))) {
        process.stderr.write('Nothing was placed.\n');
        return EXIT_CODES.failure;
      }
      const placed = await placeOrder(access, order);
      printResult('orderNew', placed.data, json);
      return EXIT_CODES.ok;
    }
    const params = (await fixTimes(given, access)) as ParamsOf<N>;
    const reply = await access.client.call(name, params, { form: isSigned ? 'post' : 'get' });
    if (reply.rejected.length > 0 && !hasRows(name, reply.data)) {
      const secrets = [account.key, account.secret].filter((text) => text !== null);
      throw new UnreadableRowsError(name, reply.rejected, secrets);
    }
    printResult(name, reply.data, json);
    printRejected(reply.rejected);
  } catch (error) {
    throw await explained(error, { name, params: given }, access.client);
  }
  return EXIT_CODES.ok;
}

/** Description of a parameter's schema. */
interface ParamSchema {
  readonly description?: string | undefined;
  readonly options?: readonly unknown[];
  safeParse(value: unknown): { readonly success: boolean; readonly data?: unknown };
}

/** The parameters of an endpoint as options, in the order of the table. */
function optionsOf(name: EndpointName): readonly Option[] {
  const shape = endpoints[name].params.shape as unknown as Readonly<Record<string, ParamSchema>>;
  return Object.entries(shape).map(([param, schema]) => {
    const isTime = UNIX_TIME.test(schema.description ?? '');
    const choices = schema.options?.map(String);
    const filled = schema.safeParse(undefined);
    const also = isTime ? ' (or such as 2026-01-31T12:00:00Z, now, -5m)' : '';
    const standard = filled.success ? ` (default: ${String(filled.data)})` : '';
    const value = isTime ? 'time' : (choices?.join('|') ?? VALUE_NAMES[param] ?? 'number');
    const about = (schema.description ?? param) + also + standard;
    const option = new Option(`--${kebabCase(param)} <${value}>`, about);
    if (choices !== undefined) option.choices(choices);
    if (isTime) option.argParser(relativeTimeArgument);
    // The market may come as an argument instead.
    return option.makeOptionMandatory(!filled.success && param !== 'market');
  });
}

/**
 * Places one limit order. It is sent once, whatever happens.
 *
 * @throws TapekeepError with code `order_outcome_unknown` when no answer shows whether it exists
 */
async function placeOrder({ client }: ExchangeAccess, order: OrderRequest) {
  using ending = commandEnding.hold();
  try {
    return await client.placeOrder(order, { signal: ending.signal });
  } catch (error) {
    throw error instanceof UnknownOutcomeError ? describeUnknown(error) : error;
  }
}

/** Shows an order to a person, and asks. */
async function isConfirmed(order: OrderRequest, exchange: string): Promise<boolean> {
  if (process.stdin.isTTY !== true || process.stderr.isTTY !== true) {
    throw new TapekeepError(
      'usage',
      'an order is placed only after a person has confirmed it on a terminal; without one, add --yes',
    );
  }
  process.stderr.write(describeOrder(order, exchange));
  return await confirm('Place it? [y/N] ', process.stdin, process.stderr);
}

/**
 * Checks an order before anybody is asked to confirm it.
 *
 * @throws TapekeepError `usage` naming the field
 */
export function checkOrder(given: OrderRequest): OrderRequest {
  const checked = endpoints.orderNew.params.safeParse(given);
  if (!checked.success) {
    const named = checked.error.issues.map(
      ({ path, message }) => `--${path.join('.')}: ${message}`,
    );
    throw new TapekeepError('usage', `the order cannot be placed: ${named.join('; ')}`);
  }
  const { price, amount } = checked.data;
  for (const [name, text] of Object.entries({ price, amount })) {
    if (decimalSign(text) <= 0) {
      throw new TapekeepError('usage', `the order cannot be placed: --${name}: must be above zero`);
    }
  }
  return checked.data;
}

/** What a person confirms: the order with its exact total. */
export function describeOrder(
  { market, side, price, amount }: OrderRequest,
  exchange: string,
): string {
  const [stock = '', money = ''] = market.split('_');
  return [
    `A new order at ${exchange}:`,
    `  market  ${market}`,
    `  side    ${side}`,
    `  price   ${price} ${money}`.trimEnd(),
    `  amount  ${amount} ${stock}`.trimEnd(),
    `  total   ${multiplyDecimals(price, amount)} ${money}`.trimEnd(),
    '',
  ].join('\n');
}

/** Asks a question; only `y` and `yes` count as consent, the end of the input does not. */
export async function confirm(
  question: string,
  input: NodeJS.ReadableStream,
  output: NodeJS.WritableStream,
): Promise<boolean> {
  const lines = createInterface({ input, output });
  const given = new AbortController();
  lines.once('close', () => given.abort());
  try {
    const answer = await lines.question(question, { signal: given.signal });
    return /^\s*y(es)?\s*$/i.test(answer);
  } catch (error) {
    if (isAborted(error)) return false;
    throw error;
  } finally {
    lines.close();
  }
}

/** The same error in the words of the command line, with its cause and what to look at. */
export function describeUnknown(error: UnknownOutcomeError): TapekeepError {
  const { market } = error.order;
  // Without what is advised after other calls: that is to try again.
  const cause = nameCall(messageOf(error.cause), { name: 'orderNew', params: { ...error.order } });
  const text = [
    `the outcome of the order is UNKNOWN: ${cause}`,
    'It was sent once and is not sent again. It may rest in the book or have been executed:',
    `look at "tapekeep api orders ${market}" and "tapekeep api balances" before you place it again.`,
  ].join('\n');
  return new TapekeepError(error.code, text, { action: error.action, cause: error });
}
