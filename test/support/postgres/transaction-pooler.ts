import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import pg from 'pg';

/**
 * A pooler as PgBouncer in transaction mode: many clients share some sessions of the server, and each has one from its
 * first message until the server says that no transaction is open. It lets everybody in.
 */

/** Which of the idle sessions comes next: the one that was used last, or the one that has waited longest. */
export type Pick = 'newest' | 'oldest';

/** Messages that have arrived whole; the rest stays. */
class Messages {
  #held = Buffer.alloc(0);

  /** @param hasType false for the first message of a client, which has none */
  *take(data: Buffer, hasType: () => boolean): Generator<Buffer> {
    this.#held = Buffer.concat([this.#held, data]);
    for (;;) {
      const head = hasType() ? 1 : 0;
      if (this.#held.length < head + 4) return;
      const length = head + this.#held.readInt32BE(head);
      if (this.#held.length < length) return;
      const message = this.#held.subarray(0, length);
      this.#held = this.#held.subarray(length);
      yield message;
    }
  }
}

/** A session of the server: the driver logs in, then its socket is ours. */
interface Session {
  readonly socket: Socket;
  client: Client | undefined;
}

interface Client {
  readonly socket: Socket;
  /** Messages that wait for a session. */
  readonly waiting: Buffer[];
  session: Session | undefined;
}

const message = (type: string, body: Buffer): Buffer => {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(4 + body.length, 1);
  return Buffer.concat([head, body]);
};
/** Login is over; a number and a key that are no session's; ready, in no transaction. */
const WELCOME = Buffer.concat([
  message('R', Buffer.alloc(4)),
  message('K', Buffer.alloc(8, 7)),
  message('Z', Buffer.from('I')),
]);
const SSL_REQUEST = 80_877_103;

export class TransactionPooler {
  readonly #idle: Session[] = [];
  readonly #all: Session[] = [];
  readonly #queue: Client[] = [];
  readonly #clients = new Set<Socket>();
  readonly #server = createServer((socket) => this.#welcome(socket));
  readonly #pick: Pick;

  private constructor(pick: Pick) {
    this.#pick = pick;
  }

  /** @param size sessions of the server, all of them open and idle from the start */
  static async start(
    target: string,
    size: number,
    pick: Pick,
  ): Promise<[TransactionPooler, string]> {
    const pooler = new TransactionPooler(pick);
    for (let made = 0; made < size; made += 1) await pooler.#open(target);
    pooler.#server.listen(0, '127.0.0.1');
    await once(pooler.#server, 'listening');
    const url = new URL(target);
    const address = pooler.#server.address();
    url.port = String(typeof address === 'object' ? address?.port : '');
    return [pooler, url.href];
  }

  async stop(): Promise<void> {
    for (const { socket } of this.#all) socket.destroy();
    for (const socket of this.#clients) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #open(target: string): Promise<void> {
    const driver = new pg.Client(target);
    driver.on('error', () => undefined);
    await driver.connect();
    const { stream: socket } = (driver as unknown as { connection: { stream: Socket } }).connection;
    socket.removeAllListeners('data');
    const session: Session = { socket, client: undefined };
    const messages = new Messages();
    socket.on('data', (data: Buffer) => {
      for (const one of messages.take(data, () => true)) {
        session.client?.socket.write(one);
        if (one.toString('latin1', 0, 1) === 'Z' && one.toString('latin1', 5, 6) === 'I') {
          this.#release(session);
        }
      }
    });
    this.#all.push(session);
    this.#idle.push(session);
  }

  #welcome(socket: Socket): void {
    const client: Client = { socket, waiting: [], session: undefined };
    this.#clients.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => this.#clients.delete(socket));
    let isIn = false;
    const messages = new Messages();
    socket.on('data', (data: Buffer) => {
      for (const one of messages.take(data, () => isIn)) {
        if (!isIn) {
          isIn = one.readInt32BE(4) !== SSL_REQUEST;
          socket.write(isIn ? WELCOME : 'N');
        } else if (one.toString('latin1', 0, 1) !== 'X') {
          client.waiting.push(one);
          this.#serve(client);
        }
      }
    });
  }

  #serve(client: Client): void {
    if (client.session === undefined) {
      const session = this.#pick === 'newest' ? this.#idle.pop() : this.#idle.shift();
      if (session === undefined) {
        if (!this.#queue.includes(client)) this.#queue.push(client);
        return;
      }
      session.client = client;
      client.session = session;
    }
    for (const one of client.waiting.splice(0)) client.session.socket.write(one);
  }

  #release(session: Session): void {
    if (session.client !== undefined) session.client.session = undefined;
    session.client = undefined;
    this.#idle.push(session);
    const next = this.#queue.shift();
    if (next !== undefined) this.#serve(next);
  }
}
