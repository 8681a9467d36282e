import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { LoopShare } from './loop-share.js';

/** Bytes of one connection that the server has not parsed yet. */
interface Waiting {
  readonly socket: Socket;
  readonly peer: string;
  /** Listens for bytes in place of `parse`. */
  readonly take: (bytes: Buffer) => void;
  /** Node's own listener, which parses. */
  readonly parse: (bytes: Buffer) => void;
  /** Node's own listener for the end of what the peer sends; it ends the connection. */
  readonly end: () => void;
  /** Listens in place of `end`. */
  readonly takeEnd: () => void;
  hasEnded: boolean;
  /** At most what the system hands over at once (64 KiB). */
  bytes: Buffer;
  /** Requests that are parsed and not answered yet. */
  unanswered: number;
  /** The newest request. */
  request: IncomingMessage | undefined;
}

/** Lets a connection go that another protocol has taken over. */
type Release = (socket: Duplex) => void;

/**
 * Makes the requests of a server take turns, so that no peer can stop the process by what it sends at once.
 *
 * A connection's next request is parsed when the one before is answered and its response has left; until then
 * its bytes wait, and the socket is not read. Memory is therefore bounded for each connection: the bytes of
 * one read, one request, one response. Turns go round among the peers and, of one peer, among its connections: a
 * client that sends one request waits for one request of each other connection at most. The event
 * loop runs between two turns.
 *
 * @param share bounds how much of the event loop parsing and handling take; without it all that is free
 * @returns releases a connection that another protocol has taken over
 */
export function takeTurns(server: Server, share?: LoopShare): Release {
  const connections = new Map<Duplex, Waiting>();
  const line = new Line();
  let isScheduled = false;

  const turnsGoOn = () => {
    if (isScheduled || line.isEmpty) return;
    isScheduled = true;
    setImmediate(nextTurn);
  };
  const nextTurn = () => {
    isScheduled = false;
    if (share !== undefined && !share.isFree) {
      isScheduled = true;
      share.whenFree(nextTurn);
      return;
    }
    const one = line.next();
    if (one === undefined) return;
    if (canGoOn(one)) {
      if (share === undefined) parseNext(one);
      else share.spend(() => parseNext(one));
      if (canGoOn(one)) line.join(one);
      endIfDone(one);
    }
    turnsGoOn();
  };
  /** Parses the next piece of what has come; the loop is not held up when nobody else waits. */
  const askForTurn = (one: Waiting, isAtOnce: boolean) => {
    endIfDone(one);
    if (!canGoOn(one)) return;
    line.join(one);
    if (isAtOnce && !isScheduled) nextTurn();
    else turnsGoOn();
  };
  const release: Release = (socket) => {
    const one = connections.get(socket);
    if (one === undefined) return;
    const rest = one.bytes;
    forget(one);
    if (rest.length > 0) one.socket.unshift(rest);
    if (one.hasEnded) one.socket.destroy();
  };
  const forget = (one: Waiting) => {
    connections.delete(one.socket);
    line.leave(one);
    // Node's parser serves other connections from now on.
    one.bytes = NOTHING;
    one.socket.off('data', one.take);
    one.socket.off('end', one.takeEnd);
    Reflect.deleteProperty(one.socket, 'resume');
  };

  // With TLS the requests come on the socket of its own event.
  server.on(server instanceof TlsServer ? 'secureConnection' : 'connection', (socket: Socket) => {
    const [parse] = socket.listeners('data') as [(bytes: Buffer) => void];
    const [end] = socket.listeners('end').slice(-1) as [() => void];
    const takeEnd = () => {
      one.hasEnded = one.bytes.length > 0;
      if (!one.hasEnded) end.call(socket);
    };
    const peer = socket.remoteAddress ?? '';
    const take = (bytes: Buffer) => {
      one.bytes = one.bytes.length === 0 ? bytes : Buffer.concat([one.bytes, bytes]);
      socket.pause();
      askForTurn(one, true);
    };
    const state = { bytes: NOTHING, unanswered: 0, request: undefined, hasEnded: false };
    const one: Waiting = { socket, peer, take, parse, takeEnd, end, ...state };
    connections.set(socket, one);
    socket.off('data', parse);
    socket.on('data', take);
    socket.off('end', end);
    socket.on('end', takeEnd);
    // Node reads on by itself when a request's body is wanted, or a response has left.
    const resume = socket.resume.bind(socket);
    socket.resume = () => (one.bytes.length === 0 ? resume() : socket);
    socket.once('close', () => forget(one));
  });
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const one = connections.get(request.socket);
    if (one === undefined) return;
    one.unanswered += 1;
    one.request = request;
    response.once('close', () => {
      one.unanswered -= 1;
      askForTurn(one, false);
    });
  });
  return release;
}

const NOTHING = Buffer.alloc(0);

/** A request whose body is still to come cannot be answered before. */
function canGoOn({ bytes, socket, unanswered, request }: Waiting): boolean {
  if (bytes.length === 0 || socket.destroyed) return false;
  return unanswered === 0 || request?.complete === false;
}

/** A peer that has sent all it wants still reads what it asked for before. */
function endIfDone(one: Waiting): void {
  if (!one.hasEnded || one.bytes.length > 0 || one.socket.destroyed) return;
  if (one.unanswered > 0 && one.request?.complete === true) return;
  one.hasEnded = false;
  one.end.call(one.socket);
}

/** Node's listener may end with another protocol that has taken the connection over. */
function parseNext(one: Waiting): void {
  const end = endOfHead(one.bytes);
  const piece = one.bytes.subarray(0, end);
  one.bytes = one.bytes.subarray(end);
  one.parse.call(one.socket, piece);
  if (one.bytes.length === 0 && one.socket.listeners('data').includes(one.take))
    one.socket.resume();
}

const LF = 10;
const CR = 13;

/** Finds the end of the first head among these bytes, or all of them end: no two heads end in one piece. */
function endOfHead(bytes: Buffer): number {
  for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) {
    const next = bytes[at + 1] === CR ? at + 2 : at + 1;
    if (bytes[next] === LF) return next + 1;
  }
  return bytes.length;
}

/** Connections that wait for their turn: peers go round, and so do the connections of each. */
class Line {
  readonly #peers = new Map<string, Set<Waiting>>();

  get isEmpty(): boolean {
    return this.#peers.size === 0;
  }

  join(one: Waiting): void {
    const others = this.#peers.get(one.peer);
    if (others === undefined) this.#peers.set(one.peer, new Set([one]));
    else others.add(one);
  }

  leave(one: Waiting): void {
    const others = this.#peers.get(one.peer);
    if (others?.delete(one) === true && others.size === 0) this.#peers.delete(one.peer);
  }

  next(): Waiting | undefined {
    for (const [peer, [first]] of this.#peers) {
      if (first === undefined) continue;
      this.leave(first);
      const others = this.#peers.get(peer);
      this.#peers.delete(peer);
      if (others !== undefined) this.#peers.set(peer, others);
      return first;
    }
    return undefined;
  }
}
