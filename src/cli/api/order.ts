import { createInterface } from 'node:readline/promises';
import type { OrderRequest, UnknownOutcomeError } from '../../client/index.js';
import { endpoints } from '../../contract/endpoints.js';
import { decimalSign, multiplyDecimals } from '../../kernel/decimal.js';
import { isAborted, messageOf, TapekeepError } from '../../kernel/errors.js';
import { ApiUsageError } from './access.js';
import { withAdvice } from './advice.js';

/**
 * Checks an order before anybody is asked to confirm it.
 *
 * @throws ApiUsageError naming the field
 */
export function checkOrder(given: OrderRequest): OrderRequest {
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
  const text = [
    `the outcome of the order is UNKNOWN: ${messageOf(withAdvice(error.cause, { name: 'orderNew', params: { ...error.order } }))}`,
    'It was sent once and is not sent again. It may rest in the book or have been executed:',
    `look at "tapekeep api orders ${market}" and "tapekeep api balances" before you place it anew.`,
  ].join('\n');
  return new TapekeepError(error.code, error.action, text, { cause: error });
}
