import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import { BAD_REQUEST_PAGE, notFoundBody } from '../contract/error-shapes.js';
import { REALTIME_FRAME_MAX_BYTES } from '../contract/limits.js';
import { RealtimeConnection } from './connection.js';
import type { ServerContext } from './http.js';
import { pathOf } from './query.js';

/** Connections served at once; more are refused with 503. */
const MAX_CONNECTIONS = 2000;

function refuse(socket: Duplex, statusLine: string, body: string | object): void {
  socket.once('finish', () => socket.destroy());
  const isPage = typeof body === 'string';
  endWith(
    socket,
    statusLine,
    isPage ? 'text/html' : 'application/json',
    isPage ? body : JSON.stringify(body),
  );
}

function endWith(socket: Duplex, statusLine: string, type: string, body: string): void {
  socket.end(
    [
      `HTTP/1.1 ${statusLine}`,
      `Content-Type: ${type}; charset=utf-8`,
      `Content-Length: ${Buffer.byteLength(body)}`,
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  );
}

/** The real-time interface of one server (contract, Real-time methods; field notes, Real-time). */
export class RealtimeServer {
  readonly #context: ServerContext;
  readonly #connections = new Set<RealtimeConnection>();
  readonly #server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: REALTIME_FRAME_MAX_BYTES,
    perMessageDeflate: false,
    // Text is decoded strictly by the connection, which then does what its variant says.
    skipUTF8Validation: true,
  });
  #isStopped = false;

  constructor(context: ServerContext) {
    this.#context = context;
    // As on every HTTP reply: a client must not mix two exchanges' data.
    this.#server.on('headers', (headers) => {
      headers.push(`x-tapekeep-exchange: ${context.backend.identity}`);
    });
    // The library would answer a faulty handshake with statuses and texts of its own.
    this.#server.on('wsClientError', (_error, socket) => {
      refuse(socket, '400 Bad Request', BAD_REQUEST_PAGE);
    });
  }

  /** Takes over a connection that asks to become a WebSocket at `path`. */
  upgrade(path: string, request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // Without a listener a reset during the handshake would be an uncaught error.
    socket.on('error', () => socket.destroy());
    if (this.#isStopped) {
      socket.destroy();
    } else if (pathOf(request.url ?? '') !== path) {
      const atMs = this.#context.backend.nowMs();
      refuse(socket, '404 Not Found', notFoundBody(pathOf(request.url ?? ''), atMs));
    } else if (request.headers.upgrade?.toLowerCase() !== 'websocket') {
      refuse(socket, '400 Bad Request', BAD_REQUEST_PAGE);
    } else if (this.#connections.size >= MAX_CONNECTIONS) {
      refuse(socket, '503 Service Unavailable', '');
    } else {
      this.#server.handleUpgrade(request, socket, head, (webSocket) => {
        const connection = new RealtimeConnection(this.#context, webSocket, (reason) => {
          this.#connections.delete(connection);
          this.#context.telemetry.realtimeClosed({ open: this.#connections.size, reason });
        });
        this.#connections.add(connection);
        this.#context.telemetry.realtimeOpened({ open: this.#connections.size });
      });
    }
  }

  /** Cuts all connections; further ones are refused. May be called more than once. */
  stop(): void {
    this.#isStopped = true;
    for (const connection of this.#connections) connection.terminate('server stopped');
    this.#server.close();
  }
}
