import { type OrderRequest, UnknownOutcomeError } from '../../client/index.js';
import { AbortedError } from '../../kernel/errors.js';
import { type ApiOptions, ApiUsageError, openApi, openApiSession } from '../api/access.js';
import { explained } from '../api/advice.js';
import { checkOrder, confirm, describeOrder, describeUnknown } from '../api/order.js';
import { printResult } from '../api/output.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';
import type { ExchangeAccess } from '../opening/exchange.js';

export interface OrderOptions extends ApiOptions {
  /** Places the order without asking. */
  readonly yes?: boolean;
}

/**
 * Places one limit order, once confirmed. It is sent once, whatever happens.
 *
 * @throws TapekeepError with code `order_outcome_unknown` when no answer tells whether it exists
 */
export async function orderCommand(given: OrderRequest, options: OrderOptions): Promise<ExitCode> {
  const order = checkOrder(given);
  const session = openApiSession(options);
  const access = openApi(session, 'orderNew', true);
  try {
    if (options.yes !== true && !(await isConfirmed(order, session.config.exchange.url ?? ''))) {
      process.stderr.write('Nothing was placed.\n');
      return EXIT_CODES.failure;
    }
    const reply = await place(access, order);
    printResult('orderNew', reply.data, options.json === true);
  } finally {
    await access.close();
  }
  return EXIT_CODES.ok;
}

async function isConfirmed(order: OrderRequest, exchange: string): Promise<boolean> {
  if (process.stdin.isTTY !== true || process.stderr.isTTY !== true) {
    throw new ApiUsageError(
      'an order is placed only after a person has confirmed it on a terminal; without one, add --yes',
    );
  }
  process.stderr.write(describeOrder(order, exchange));
  return await confirm('Place it? [y/N] ', process.stdin, process.stderr);
}

async function place({ client }: ExchangeAccess, order: OrderRequest) {
  const stopping = new AbortController();
  const onSignal = () => {
    if (stopping.signal.aborted) process.exit(EXIT_CODES.forced);
    stopping.abort(new AbortedError('stopped by a signal while the order was under way'));
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  try {
    return await client.placeOrder(order, { signal: stopping.signal });
  } catch (error) {
    if (error instanceof UnknownOutcomeError) throw describeUnknown(error);
    throw await explained(error, { name: 'orderNew', params: { ...order } }, client);
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  }
}
