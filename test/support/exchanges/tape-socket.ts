import type { TestContext } from 'node:test';
import { type RawData, WebSocket } from 'ws';

/** A bare WebSocket client for tests: frames are read one by one, in order. */
export class TapeSocket {
  readonly socket: WebSocket;
  readonly #frames: unknown[] = [];
  readonly #readers: Array<() => void> = [];
  readonly #closed: Promise<number>;
  #nextId = 0;

  private constructor(socket: WebSocket) {
    this.socket = socket;
    this.#closed = new Promise((resolve) => socket.once('close', resolve));
    socket.on('message', (data: RawData) => {
      this.#frames.push(JSON.parse(data.toString()));
      this.#readers.shift()?.();
    });
    socket.on('error', () => {});
  }

  static async open(t: TestContext, url: string): Promise<TapeSocket> {
    const socket = new WebSocket(url);
    const client = new TapeSocket(socket);
    t.after(() => socket.terminate());
    await new Promise<void>((resolve, reject) => {
      socket.once('open', resolve);
      socket.once('error', reject);
    });
    return client;
  }

  /** The next frame, in order of arrival. */
  async next(): Promise<Record<string, unknown>> {
    while (this.#frames.length === 0) {
      await new Promise<void>((resolve) => this.#readers.push(resolve));
    }
    return this.#frames.shift() as Record<string, unknown>;
  }

  /** Sends a request and returns the next frame, which must be its answer. */
  async ask(method: string, params: unknown): Promise<Record<string, unknown>> {
    this.#nextId += 1;
    this.socket.send(JSON.stringify({ method, params, id: this.#nextId }));
    return this.next();
  }

  /** Sends a request and returns all that came before its answer. */
  async untilAnswered(method: string): Promise<Record<string, unknown>[]> {
    this.#nextId += 1;
    const id = this.#nextId;
    this.socket.send(JSON.stringify({ method, params: [], id }));
    const before: Record<string, unknown>[] = [];
    for (;;) {
      const frame = await this.next();
      if (frame.id === id) return before;
      before.push(frame);
    }
  }

  /** Frames that arrived and were not read. Everything sent before an answer counts as arrived. */
  get unread(): number {
    return this.#frames.length;
  }

  /** The code with which the connection ended. */
  closed(): Promise<number> {
    return this.#closed;
  }
}
