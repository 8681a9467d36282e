import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import { IDENTITY_HEADER } from '../../contract/extensions.js';
import { REALTIME_FRAME_MAX_BYTES } from '../../contract/limits.js';
import { type Backend, RefusedError } from '../backend.js';
import { REALTIME_PATH, type ServerContext } from '../context.js';
import {
  BAD_REQUEST,
  bareReplyText,
  type ErrorReply,
  httpDate,
  isUnambiguous,
  notFound,
  refusedReply,
} from '../http/replies.js';
import { pathOf, sessionOf } from '../http/request.js';
import { RealtimeConnection } from './connection.js';

/** Connections served at once; more are refused with 503. */
const MAX_CONNECTIONS = 2000;
const FULL: ErrorReply = { status: 503, body: '' };

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
  /** As the client of each handshake sees it: another session has another time. */
  readonly #opening = new WeakMap<IncomingMessage, Backend>();
  #isStopped = false;

  constructor(context: ServerContext) {
    this.#context = context;
    // As on every HTTP reply: a client must not mix two exchanges' data.
    this.#server.on('headers', (headers, request) => {
      const backend = this.#opening.get(request) ?? context.backend;
      headers.push(`${IDENTITY_HEADER}: ${backend.identity}`, `Date: ${httpDate(backend.nowMs())}`);
    });
    // The library would answer a faulty handshake with statuses and texts of its own.
    this.#server.on('wsClientError', (_error, socket) => {
      this.#refuse(socket, BAD_REQUEST);
    });
  }

  /** Takes over a connection that asks to become a WebSocket. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // Without a listener a reset during the handshake would be an uncaught error.
    socket.on('error', () => socket.destroy());
    const asked = pathOf(request.url ?? '');
    if (this.#isStopped) {
      socket.destroy();
    } else if (asked !== REALTIME_PATH) {
      this.#refuse(socket, notFound(asked, this.#context.backend.nowMs()));
    } else if (request.headers.upgrade?.toLowerCase() !== 'websocket' || !isUnambiguous(request)) {
      this.#refuse(socket, BAD_REQUEST);
    } else if (this.#connections.size >= MAX_CONNECTIONS) {
      this.#refuse(socket, FULL);
    } else {
      const backend = this.#openSession(request, socket);
      if (backend === undefined) return;
      this.#opening.set(request, backend);
      this.#server.handleUpgrade(request, socket, head, (webSocket) => {
        const context = { ...this.#context, backend };
        const connection = new RealtimeConnection(
          context,
          { socket: webSocket, stream: socket },
          (reason) => {
            backend.leave?.();
            this.#connections.delete(connection);
            this.#context.telemetry.realtimeClosed({ open: this.#connections.size, reason });
          },
        );
        this.#connections.add(connection);
        this.#context.telemetry.realtimeOpened({ open: this.#connections.size });
      });
    }
  }

  /** The backend as this client is to see it; undefined when it was refused. */
  #openSession(request: IncomingMessage, socket: Duplex): Backend | undefined {
    const { backend } = this.#context;
    if (backend.sessionFor === undefined) return backend;
    try {
      const session = sessionOf(request.headers, request.url ?? '');
      return backend.sessionFor({ kind: 'connection', session, note: () => undefined });
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      this.#refuse(socket, refusedReply(error));
      return undefined;
    }
  }

  #refuse(socket: Duplex, reply: ErrorReply): void {
    socket.once('finish', () => socket.destroy());
    socket.end(bareReplyText(reply, this.#context.backend));
  }

  /** Cuts all connections; further ones are refused. May be called more than once. */
  stop(): void {
    this.#isStopped = true;
    for (const connection of this.#connections) connection.terminate('server stopped');
    this.#server.close();
  }
}
