import { fastify } from 'fastify';
import { openTape } from '../../../src/sandbox/tape/tape-backend.js';
import { startExchangeServer } from '../../../src/server/exchange-server.js';
import { FakeClock } from '../fake-clock.js';
import { noTelemetry } from '../no-telemetry.js';
import { serveParent } from '../programs/server-process.js';
import type { BenchServerOrder, BenchServerReport } from './bench-server.js';
import { testTape } from './tape-exchange.js';

/**
 * A server in a process of its own, so that a benchmark's load does not share its core: either
 * ours, over a recorded tape whose time stands still, or fastify with nothing but ready texts.
 */

/** Long enough for more pages than the texts of one block of trades. */
const HISTORY_S = 7000;

/** @returns the address */
async function serve(order: BenchServerOrder): Promise<string> {
  if (order.kind === 'ours') {
    const clock = new FakeClock();
    const backend = await openTape(await testTape({ startOffsetS: HISTORY_S }), clock);
    const { url } = await startExchangeServer({ backend, clock, telemetry: noTelemetry.server });
    return url;
  }
  const app = fastify({ logger: false });
  for (const { path, headers, body } of order.pages) {
    app.get(path, (_request, reply) => {
      reply.raw.sendDate = false;
      return reply.headers(headers).send(body);
    });
  }
  return app.listen({ host: '127.0.0.1', port: 0 });
}

await serveParent<BenchServerOrder, BenchServerReport>(async (order) => {
  const url = await serve(order);
  return () => {
    const { user, system } = process.cpuUsage();
    return { url, cpuMs: (user + system) / 1000 };
  };
});
