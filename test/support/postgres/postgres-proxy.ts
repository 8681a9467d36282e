import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/**
 * A wire between a store and its server that fails on command. Modes: *open*; *cut after COMMIT*
 * (the next COMMIT reaches the server, its answer is lost); *dead* (nothing passes, nothing ends).
 */
export class PostgresProxy {
  #mode: 'open' | 'cutAfterCommit' | 'dead' = 'open';
  /** Faults that really happened. */
  fired = 0;
  /**
   * Sees everything that goes to the server, before it does; false keeps it back. `hold` lets nothing
   * more of its connection pass, and returns what sends it on after all.
   */
  onSent: (data: Buffer, hold: () => () => void) => boolean = () => true;
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer((near) => this.#link(near));
  #target: URL | undefined;
  #refusal: Buffer | undefined;

  constructor(target: string) {
    this.#target = new URL(target);
  }

  /** Starts listening; returns the connection string that leads through here. */
  async start(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    const address = this.#server.address();
    const url = new URL(this.#target ?? 'postgres://127.0.0.1');
    url.port = String(typeof address === 'object' ? address?.port : '');
    return url.href;
  }

  /** Leads somewhere else from now on; undefined refuses every connection. */
  retarget(target: string | undefined): void {
    this.#target = target === undefined ? undefined : new URL(target);
    this.#refusal = undefined;
  }

  cutAfterNextCommit(): void {
    this.#mode = 'cutAfterCommit';
  }

  /** Connections that exist stay open and say nothing more; new ones work. */
  goDead(): void {
    this.#mode = 'dead';
    this.fired += this.#sockets.size;
    for (const socket of this.#sockets) socket.pause().removeAllListeners('data');
    this.#mode = 'open';
  }

  /**
   * Answers as a server that is starting (57P03), until it is given another target.
   */
  beStarting(): void {
    this.#target = undefined;
    this.#refusal = refusalOf('57P03', 'the database system is starting up');
  }

  /** Ends both sides of every connection, as a server that is stopped. */
  endAll(): void {
    this.fired += this.#sockets.size;
    for (const socket of this.#sockets) socket.end();
  }

  /** Safe to call twice. */
  async stop(): Promise<void> {
    if (!this.#server.listening) return;
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #link(near: Socket): void {
    if (this.#target === undefined) {
      near.on('error', () => undefined);
      const refusal = this.#refusal;
      if (refusal === undefined) near.destroy();
      else near.once('data', () => near.end(refusal));
      return;
    }
    const far = connect(Number(this.#target.port), this.#target.hostname);
    for (const socket of [near, far]) {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    near.on('data', (data: Buffer) => {
      const hold = () => {
        near.pause();
        return () => void far.write(data);
      };
      if (!this.onSent(data, hold)) return;
      far.write(data);
    });
    far.on('data', (data: Buffer) => {
      // The server's word that a COMMIT is done, whatever else was sent in the message that asked for it.
      if (this.#mode !== 'cutAfterCommit' || !data.includes('COMMIT\0')) {
        near.write(data);
        return;
      }
      this.#mode = 'open';
      this.fired += 1;
      near.destroy();
    });
  }
}

/** What a server says before it closes the connection: an ErrorResponse of the protocol. */
function refusalOf(sqlstate: string, message: string): Buffer {
  const fields = `SFATAL\0VFATAL\0C${sqlstate}\0M${message}\0\0`;
  const head = Buffer.alloc(5);
  head.write('E');
  head.writeInt32BE(4 + Buffer.byteLength(fields), 1);
  return Buffer.concat([head, Buffer.from(fields)]);
}
