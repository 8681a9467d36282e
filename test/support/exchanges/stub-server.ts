import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import {
  type AddressInfo,
  createServer as createTcpServer,
  type Server,
  type Socket,
} from 'node:net';
import type { TestContext } from 'node:test';
import { type WebSocket, WebSocketServer } from 'ws';
import { Watch } from './watch.js';

/** One request as the stub saw it. */
export interface SeenRequest {
  readonly method: string;
  /** Path with query. */
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

export interface HttpStub {
  readonly baseUrl: string;
  readonly seen: SeenRequest[];
  /** Resolves when `count` requests have come in all. */
  requests(count: number): Promise<void>;
}

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** An HTTP server whose answers a test writes itself. It closes with the test. */
export async function startHttpStub(
  t: TestContext,
  answer: (request: SeenRequest, response: ServerResponse, index: number) => void,
): Promise<HttpStub> {
  const seen: SeenRequest[] = [];
  const watch = new Watch();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      const shown = { method, url, headers, body: Buffer.concat(chunks).toString('utf8') };
      seen.push(shown);
      watch.wake();
      answer(shown, response, seen.length - 1);
    });
  });
  const port = await listen(server);
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    baseUrl: `http://127.0.0.1:${port}`,
    seen,
    requests: (count) => watch.until(() => seen.length >= count),
  };
}

export interface TcpStub {
  readonly port: number;
  readonly sockets: Socket[];
  /** Resolves when the first bytes of a connection have come. */
  asked(): Promise<void>;
  /** Resolves when the port is closed, so that connecting fails. */
  close(): Promise<void>;
}

/** A TCP server that hands over each connection when its first bytes have come. */
export async function startTcpStub(
  t: TestContext,
  serve: (socket: Socket, index: number) => void,
): Promise<TcpStub> {
  const sockets: Socket[] = [];
  const watch = new Watch();
  let isAsked = false;
  const server = createTcpServer((socket) => {
    sockets.push(socket);
    const index = sockets.length - 1;
    socket.on('error', () => {});
    socket.once('data', () => {
      serve(socket, index);
      isAsked = true;
      watch.wake();
    });
  });
  const port = await listen(server);
  const close = async () => {
    for (const socket of sockets) socket.destroy();
    if (server.listening) await once(server.close(), 'close');
  };
  t.after(close);
  return { port, sockets, asked: () => watch.until(() => isAsked), close };
}

/** The bytes of a whole answer of JSON. */
export function rawJson(body: string): string {
  const type = 'content-type: application/json';
  return `HTTP/1.1 200 OK\r\n${type}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
}

/** Answers with JSON. */
export function sendJson(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}

export interface StubConnection {
  readonly socket: WebSocket;
  send(frame: unknown): void;
}

export interface StubCall {
  readonly method: string;
  readonly params: unknown[];
  readonly id: number;
}

export interface RealtimeStub {
  readonly url: string;
  readonly calls: StubCall[];
  connections: number;
  /** Resolves when `count` calls have come in all. */
  received(count: number): Promise<void>;
  /** Resolves when no client is connected. */
  abandoned(): Promise<void>;
}

/**
 * A WebSocket server whose replies a test writes itself; what is no JSON object is passed over. It
 * closes with the test.
 */
export async function startRealtimeStub(
  t: TestContext,
  on: {
    readonly connection?: (connection: StubConnection, index: number) => void;
    readonly call?: (connection: StubConnection, call: StubCall, index: number) => void;
  },
): Promise<RealtimeStub> {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: true });
  await once(server, 'listening');
  const watch = new Watch();
  const stub: RealtimeStub = {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls: [],
    connections: 0,
    received: (count) => watch.until(() => stub.calls.length >= count),
    abandoned: () => watch.until(() => server.clients.size === 0),
  };
  server.on('connection', (socket) => {
    const index = stub.connections;
    stub.connections += 1;
    const connection = {
      socket,
      send: (frame: unknown) => socket.send(JSON.stringify(frame)),
    };
    socket.on('error', () => {});
    // The server forgets a client in a listener of its own, after this one.
    socket.on('close', () => queueMicrotask(() => watch.wake()));
    socket.on('message', (data) => {
      const text = String(data);
      if (!text.endsWith('}')) return;
      const call = JSON.parse(text) as StubCall;
      stub.calls.push(call);
      watch.wake();
      on.call?.(connection, call, index);
    });
    on.connection?.(connection, index);
  });
  t.after(() => {
    for (const client of server.clients) client.terminate();
    server.close();
  });
  return stub;
}
