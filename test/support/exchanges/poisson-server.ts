import { join } from 'node:path';
import { ServerProcess } from '../programs/server-process.js';
import type { PoissonMarket } from './poisson-exchange.js';

/** Options of the child process. */
export interface PoissonOrder {
  readonly seed: number;
  readonly markets: readonly PoissonMarket[];
  readonly historyMax: number;
  readonly pastMs: number;
}

export interface PoissonReport {
  readonly url: string;
  readonly realtimeUrl: string;
  /** Id and time in microseconds of every trade that was ever issued. */
  readonly trades: ReadonlyArray<readonly [id: number, timeUs: number]>;
  /** Requests answered so far, by endpoint. */
  readonly requests: Readonly<Record<string, number>>;
}

/** An exchange of random trades in a process of its own; see poisson-server-child.ts. */
export function startPoissonServer(order: PoissonOrder): Promise<ServerProcess<PoissonReport>> {
  return ServerProcess.start(join(import.meta.dirname, 'poisson-server-child.ts'), order);
}
