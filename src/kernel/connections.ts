import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http';
import { isIP, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** One connection. Those that are answered a request are given up last. */
interface Held {
  readonly socket: Socket;
  readonly peer: string;
  /** Requests that have arrived and are not answered yet. */
  underWay: number;
}

/** Name of a connection, the same of its TLS socket and of the one below it. */
function keyOf(socket: Socket): string | Socket {
  const { remoteAddress, remotePort } = socket;
  return remotePort === undefined ? socket : `${remoteAddress} ${remotePort}`;
}

/**
 * Bounds the connections of a server and lets every new one in, so that connections that are held open
 * keep no client out. Beyond the limit a new one takes the place of another of the address that has most of
 * them: of the one that has waited longest without a whole request, else of the oldest.
 *
 * Does not listen for upgrades: a server without a listener answers such a request as any other, while one
 * with a listener would leave the connection open.
 *
 * @returns stops counting a connection that another protocol has taken over
 */
export function limitConnections(server: Server, max: number): (socket: Duplex) => void {
  /** The one that has waited longest first. */
  const held = new Map<string | Socket, Held>();
  server.on('connection', (socket: Socket) => {
    if (held.size >= max) giveUp(held);
    const key = keyOf(socket);
    const one = { socket, peer: socket.remoteAddress ?? '', underWay: 0 };
    held.set(key, one);
    socket.once('close', () => {
      if (held.get(key) === one) held.delete(key);
    });
  });
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    const key = keyOf(socket);
    const one = held.get(key);
    if (one === undefined) return;
    one.underWay += 1;
    response.once('close', () => {
      one.underWay -= 1;
      if (held.get(key) !== one) return;
      held.delete(key);
      held.set(key, one);
    });
  });
  return (socket) => held.delete(keyOf(socket as Socket));
}

function giveUp(held: Map<string | Socket, Held>): void {
  const counts = new Map<string, number>();
  for (const { peer } of held.values()) counts.set(peer, (counts.get(peer) ?? 0) + 1);
  const most = Math.max(...counts.values());
  const greedy = [...held].filter(([, { peer }]) => counts.get(peer) === most);
  const [key, one] = greedy.find(([, { underWay }]) => underWay === 0) ?? greedy[0] ?? [];
  if (key === undefined || one === undefined) return;
  held.delete(key);
  one.socket.destroy();
}

/** Address of a server: its port, and that with the host as a URL has them. */
export function listeningPlace(server: Server, host: string) {
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return { port, authority: `${isIP(host) === 6 ? `[${host}]` : host}:${port}` };
}

/**
 * Returns true if a Host header is an address, `localhost`, or a name without a dot. A name of the network at
 * large would mean a web page that had its own name resolved to this machine, to read from a browser
 * what is served here; no page gets a name without a dot for its own.
 *
 * @param host with or without a port
 */
export function isLocalHost(host: string): boolean {
  const name = host
    .replace(/:\d{1,5}$/, '')
    .replace(/\.$/, '')
    .toLowerCase();
  const address = /^\[(.*)\]$/.exec(name)?.[1] ?? name;
  if (isIP(address) !== 0) return true;
  return /^[a-z0-9_-]{1,63}(\.localhost)?$/.test(name);
}

/** Returns true if a browser says that a page of another site has made it send a request. */
export function isFromOtherSite(headers: IncomingHttpHeaders): boolean {
  const site = headers['sec-fetch-site'];
  return site !== undefined && site !== 'same-origin' && site !== 'none';
}
