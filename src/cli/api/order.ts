import { createInterface } from 'node:readline/promises';
import { ExchangeError } from '../../client/index.js';
import { endpoints, type ParamsOf } from '../../contract/endpoints.js';
import { decimalSign, multiplyDecimals } from '../../kernel/decimal.js';
import { codeOf, isAborted, messageOf, TapekeepError } from '../../kernel/errors.js';
import { ApiUsageError } from './access.js';

export type Order = ParamsOf<'orderNew'>;

/**
 * Checks an order before anybody is asked to confirm it.
 *
 * @throws ApiUsageError naming the field
 */
export function checkOrder(given: Order): Order {
  const checked = endpoints.orderNew.params.safeParse(given);
  if (!checked.success) {
    const named = checked.error.issues.map(
      ({ path, message }) => `--${path.join('.')}: ${message}`,
    );
    throw new ApiUsageError(`the order can not be placed: ${named.join('; ')}`);
  }
  const { price, amount } = checked.data;
  for (const [name, text] of Object.entries({ price, amount })) {
    if (decimalSign(text) <= 0) {
      throw new ApiUsageError(`the order can not be placed: --${name}: must be above zero`);
    }
  }
  return checked.data;
}

/** What a person confirms: the order with its exact total. */
export function describeOrder({ market, side, price, amount }: Order, exchange: string): string {
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

/** Nobody can tell whether the order exists; it must not be sent again unseen. */
export class UnknownOutcomeError extends TapekeepError {
  constructor(market: string, cause: unknown) {
    super(
      'order_outcome_unknown',
      'fatal',
      [
        `the outcome of the order is UNKNOWN: ${messageOf(cause)}`,
        'It was sent once and is not sent again. It may rest in the book or have been executed:',
        `look at "tapekeep api orders ${market}" and "tapekeep api balances" before you place it anew.`,
      ].join('\n'),
      { cause },
    );
  }
}

/** Errors with which the exchange says that it did not take the order, or that were never sent. */
const REFUSALS: ReadonlySet<string> = new Set([
  'authentication_failed',
  'field_errors',
  'invalid_input',
  'invalid_parameter',
  'market_unavailable',
  'missing_credentials',
  'not_found',
  'operation_blocked',
  'rate_limited',
  'redirected',
  'request_refused',
]);

/** Failures before a connection stood, so that nothing of the order had left. */
const UNCONNECTED: ReadonlySet<string> = new Set([
  'EAI_AGAIN',
  'ECONNREFUSED',
  'ENOTFOUND',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Whether an order may exist although placing it failed with `error`. */
export function mayExist(error: unknown): boolean {
  // Given up on request: it may have been on its way already.
  if (isAborted(error)) return true;
  if (!(error instanceof ExchangeError) || REFUSALS.has(error.code)) return false;
  const { status, cause } = error;
  if (status === undefined) return error.code !== 'network' || !isUnconnected(cause);
  return status < 400 || status === 408 || status >= 500;
}

function isUnconnected(cause: unknown): boolean {
  const causes: readonly unknown[] = cause instanceof AggregateError ? cause.errors : [cause];
  return causes.length > 0 && causes.every((one) => UNCONNECTED.has(codeOf(one)));
}
