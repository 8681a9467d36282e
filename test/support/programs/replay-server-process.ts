import { join } from 'node:path';
import type { ReplayServerOrder, ReplayServerReport } from './replay-server-child.js';
import { ServerProcess } from './server-process.js';

export type ReplayServer = ServerProcess<ReplayServerReport>;

/** A served replay (or a bare loop) in a process of its own, whose memory and time can be asked for. */
export function startReplayServer(order: ReplayServerOrder): Promise<ReplayServer> {
  return ServerProcess.start(join(import.meta.dirname, 'replay-server-child.ts'), order);
}
