import type { Clock } from '../../../src/kernel/clock.js';
import type { ServerEvents } from '../../../src/observe/events.js';
import type { Backend } from '../../../src/server/backend.js';
import {
  type ExchangeServer,
  type ExchangeServerOptions,
  startExchangeServer,
} from '../../../src/server/exchange-server.js';

/** Server telemetry that remembers everything. */
export class ServerRecord implements ServerEvents {
  readonly requests: Array<{ endpoint: string; status: number }> = [];
  readonly closings: string[] = [];
  readonly failures: Array<{ endpoint: string; code: string; message: string }> = [];
  open = 0;

  served({ endpoint, status }: { endpoint: string; status: number }): void {
    this.requests.push({ endpoint, status });
  }

  realtimeOpened({ open }: { open: number }): void {
    this.open = open;
  }

  realtimeClosed({ open, reason }: { open: number; reason: string }): void {
    this.open = open;
    this.closings.push(reason);
  }

  handlerFailed(event: { endpoint: string; code: string; message: string }): void {
    this.failures.push(event);
  }
}

/** A backend on a free port, and what its server was asked. */
export interface Served<B> {
  readonly backend: B;
  readonly server: ExchangeServer;
  readonly record: ServerRecord;
}

/** Serves a backend on a free port; both end with the test. */
export async function serve<B extends Backend & { stop(): Promise<void> | void }>(
  t: { after(end: () => Promise<void>): void },
  backend: B,
  clock: Clock,
  options: Partial<ExchangeServerOptions> = {},
): Promise<Served<B>> {
  const record = new ServerRecord();
  const server = await startExchangeServer({ backend, clock, telemetry: record, ...options });
  t.after(async () => {
    await server.stop();
    await backend.stop();
  });
  return { backend, server, record };
}
