import { createInterface } from 'node:readline/promises';
import { type OrderRequest, UnknownOutcomeError } from '../../client/index.js';
import { endpoints } from '../../contract/endpoints.js';
import { decimalSign, multiplyDecimals } from '../../kernel/decimal.js';
import { isAborted, messageOf, TapekeepError } from '../../kernel/errors.js';
import { nameCall } from '../api/advice.js';
import { flag } from '../command.js';
import { commandEnding } from '../ending.js';
import type { ExchangeAccess } from '../opening/exchange.js';

export const ORDER_HELP = `
Shows the order and asks before it is sent; --yes leaves the question out, and without a terminal it
is required. An order is sent once. When no answer tells what became of it, the exit code is 5.`;

export const WITHOUT_ASKING = flag('--yes', 'place it without asking');

/**
 * Places one limit order. It is sent once, whatever happens.
 *
 * @throws TapekeepError with code `order_outcome_unknown` when no answer shows whether it exists
 */
export async function placeOrder({ client }: ExchangeAccess, order: OrderRequest) {
  using ending = commandEnding.hold();
  try {
    return await client.placeOrder(order, { signal: ending.signal });
  } catch (error) {
    throw error instanceof UnknownOutcomeError ? describeUnknown(error) : error;
  }
}

/** Shows an order to a person, and asks. */
export async function isConfirmed(order: OrderRequest, exchange: string): Promise<boolean> {
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
    `look at "tapekeep api orders ${market}" and "tapekeep api balances" before you place it anew.`,
  ].join('\n');
  return new TapekeepError(error.code, text, { action: error.action, cause: error });
}
