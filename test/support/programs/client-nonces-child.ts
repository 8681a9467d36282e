import { once } from 'node:events';
import { type Credentials, ExchangeClient } from '../../../src/index.js';

/** Message of the parent: server to ask, and how often. */
export interface NonceChildOrder {
  readonly baseUrl: string;
  readonly credentials: Credentials;
  readonly count: number;
}

/** A program of its own that signs with a key as others do, and keeps nonces where it is usual. */
process.once('disconnect', () => process.exit());
const [order] = (await once(process, 'message')) as [NonceChildOrder];
const { count, ...settings } = order;
const exchange = new ExchangeClient({ ...settings, requestsPerS: 1000, burst: 1000 });
const asked = await Promise.allSettled(Array.from({ length: count }, () => exchange.balances()));
await exchange.close();
const failures = asked.flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : []));
process.send?.(failures);
process.disconnect();
