import { once } from 'node:events';
import { systemClock } from '../../../src/kernel/clock.js';
import { startExchangeServer } from '../../../src/server/exchange-server.js';
import { PoissonExchange } from './poisson-exchange.js';
import type { PoissonOrder, PoissonReport } from './poisson-server.js';

/** A {@link PoissonExchange} behind the real server, in a process of its own. Ends with its parent. */

process.once('disconnect', () => process.exit());
const [order] = (await once(process, 'message')) as [PoissonOrder];
const backend = new PoissonExchange({ clock: systemClock, ...order });
const requests: Record<string, number> = {};
const { url, realtimeUrl } = await startExchangeServer({
  backend,
  clock: systemClock,
  variants: { rateLimit: false },
  telemetry: {
    served: ({ endpoint }) => {
      requests[endpoint] = (requests[endpoint] ?? 0) + 1;
    },
    realtimeOpened() {},
    realtimeClosed() {},
    handlerFailed() {},
  },
});
const tell = (report: PoissonReport) => process.send?.(report);
tell({ url, realtimeUrl, trades: [], requests: {} });
process.on('message', () => {
  const trades = backend.issued().map(({ trade: { id, timeUs } }) => [id, timeUs] as const);
  tell({ url, realtimeUrl, trades, requests });
});
