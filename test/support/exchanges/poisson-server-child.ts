import { systemClock } from '../../../src/kernel/clock.js';
import { startExchangeServer } from '../../../src/server/exchange-server.js';
import { hearing, noTelemetry } from '../no-telemetry.js';
import { serveParent } from '../programs/server-process.js';
import { PoissonExchange } from './poisson-exchange.js';
import type { PoissonOrder, PoissonReport } from './poisson-server.js';

/** A {@link PoissonExchange} behind the real server, in a process of its own. */

await serveParent<PoissonOrder, PoissonReport>(async (order) => {
  const backend = new PoissonExchange({ clock: systemClock, ...order });
  const requests: Record<string, number> = {};
  const { url, realtimeUrl } = await startExchangeServer({
    ...{ backend, clock: systemClock, variants: { rateLimit: false } },
    telemetry: hearing(noTelemetry.server, {
      served: ({ endpoint }) => {
        requests[endpoint] = (requests[endpoint] ?? 0) + 1;
      },
    }),
  });
  return () => {
    const trades = backend.issued().map(({ trade: { id, timeUs } }) => [id, timeUs] as const);
    return { url, realtimeUrl, trades, requests };
  };
});
