import { dialectOf } from '../contract/dialects.js';
import { DEFAULT_VARIANTS, type ServerVariants } from '../contract/variants.js';
import { limitConnections, listeningPlace } from '../kernel/connections.js';
import { takeTurns } from '../kernel/request-turns.js';
import { REALTIME_PATH, type ServerContext } from './context.js';
import { buildHttpServer } from './http/http.js';
import { RealtimeServer } from './realtime/realtime.js';

/** Connections at once, without those of the real-time interface, which counts its own. */
const MAX_CONNECTIONS = 2_000;

export interface ExchangeServerOptions extends Omit<ServerContext, 'variants' | 'words'> {
  /** Address to listen on; the default is reachable from this machine only. */
  readonly host?: string;
  /** 0 takes any free port. */
  readonly port?: number;
  /** Departures from {@link DEFAULT_VARIANTS}. */
  readonly variants?: Partial<ServerVariants>;
}

export interface ExchangeServer {
  /** Base URL of the HTTP interface, without a slash at its end. */
  readonly url: string;
  readonly realtimeUrl: string;
  readonly port: number;
  /** Closes listener, connections and timers. May be called more than once. */
  stop(): Promise<void>;
}

/**
 * Serves the contract over HTTP and WebSocket for a {@link Backend}.
 *
 * @throws Node's listen errors, such as EADDRINUSE.
 */
export async function startExchangeServer(options: ExchangeServerOptions): Promise<ExchangeServer> {
  const { host = '127.0.0.1', port: wantedPort = 0, variants: departures, ...shared } = options;
  const variants = { ...DEFAULT_VARIANTS, ...departures };
  const context = { ...shared, variants, words: dialectOf(variants.dialect).realtime };
  const http = buildHttpServer(context);
  const realtime = new RealtimeServer(context);
  const uncount = limitConnections(http.server, MAX_CONNECTIONS);
  const release = takeTurns(http.server);
  http.server.on('upgrade', (request, socket, head) => {
    uncount(socket);
    release(socket);
    realtime.upgrade(request, socket, head);
  });
  await http.listen({ host, port: wantedPort });
  const { port, authority } = listeningPlace(http.server, host);
  return {
    url: `http://${authority}`,
    realtimeUrl: `ws://${authority}${REALTIME_PATH}`,
    port,
    async stop() {
      realtime.stop();
      await http.close();
    },
  };
}
