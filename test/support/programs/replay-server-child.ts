import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';
import { FolderStorage } from '../../../src/archive/cold/storage.js';
import { Past } from '../../../src/archive/past.js';
import { systemClock } from '../../../src/kernel/clock.js';
import { systemRandom } from '../../../src/kernel/random.js';
import { openReplay } from '../../../src/replay/replay-backend.js';
import { startExchangeServer } from '../../../src/server/exchange-server.js';
import { openStore } from '../../../src/store/index.js';
import { noTelemetry } from '../no-telemetry.js';
import { quietStoreEvents } from '../postgres/postgres-server.js';
import { serveParent } from './server-process.js';

/** What a child serves: a replay of an archive, or the lines of a file as frames. */
export type ReplayServerOrder =
  | {
      readonly kind: 'replay';
      readonly databaseUrl: string;
      readonly fromMs: number;
      readonly toMs: number;
    }
  | { readonly kind: 'bare'; readonly path: string };

export interface ReplayServerReport {
  readonly url: string;
  readonly realtimeUrl: string;
  readonly cpuMs: number;
  /** The most memory that it ever had. */
  readonly maxRssMb: number;
}

/** As much as the replay lets wait for a reader. */
const ROOMY_BYTES = 256 * 1024;

function fail(error: unknown): never {
  process.stderr.write(
    `${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
  );
  process.exit(1);
}

async function serveReplay(order: Extract<ReplayServerOrder, { kind: 'replay' }>) {
  const { databaseUrl, fromMs, toMs } = order;
  const telemetry = quietStoreEvents();
  const store = await openStore({
    ...{ databaseUrl, telemetry, clock: systemClock, random: systemRandom },
  });
  const past = new Past(store, { clock: systemClock, cold: new FolderStorage('/nonexistent') });
  const backend = await openReplay({
    ...{ past, clock: systemClock, span: { fromMs, toMs }, markets: [], speed: 'max' },
    ...{ allowsGaps: true, hasDisconnects: false, onFailure: fail },
  });
  const { url, realtimeUrl } = await startExchangeServer({
    ...{ backend, clock: systemClock, telemetry: noTelemetry.server, control: true },
    variants: { rateLimit: false },
  });
  return { url, realtimeUrl };
}

/** A bare loop: every client is sent every line, as fast as it reads. */
async function serveBare(path: string) {
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  const http = createServer();
  const server = new WebSocketServer({ server: http, perMessageDeflate: false });
  const sendAll = async (socket: WebSocket) => {
    for (const line of lines) {
      if (socket.bufferedAmount <= ROOMY_BYTES) socket.send(line);
      else await new Promise<void>((resolve) => socket.send(line, () => resolve()));
    }
  };
  server.on('connection', (socket) => socket.once('message', () => void sendAll(socket)));
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  const { port } = http.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, realtimeUrl: `ws://127.0.0.1:${port}` };
}

await serveParent<ReplayServerOrder, ReplayServerReport>(async (order) => {
  const served = order.kind === 'replay' ? await serveReplay(order) : await serveBare(order.path);
  return () => {
    const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
    return { ...served, cpuMs: (userCPUTime + systemCPUTime) / 1000, maxRssMb: maxRSS / 1024 };
  };
});
