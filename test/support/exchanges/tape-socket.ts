import type { TestContext } from 'node:test';
import { type RawData, WebSocket } from 'ws';
import { Watch } from './watch.js';

/** Connects; it ends with the test. @param make hears of the socket before anything happens to it */
export async function openSocket<T>(
  t: TestContext,
  url: string,
  make: (socket: WebSocket) => T,
): Promise<T> {
  const socket = new WebSocket(url);
  const made = make(socket);
  t.after(() => socket.terminate());
  await new Promise<void>((resolve, reject) => {
    socket.once('open', resolve);
    socket.once('error', reject);
  });
  return made;
}

/** A bare WebSocket client for tests: frames are read one by one, in order. */
export class TapeSocket {
  readonly socket: WebSocket;
  /** All that came, read or not. */
  readonly frames: Record<string, unknown>[] = [];
  #read = 0;
  readonly #watch = new Watch();
  #end: { readonly code: number; readonly reason: string } | undefined;
  #nextId = 0;

  constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (data: RawData) => {
      this.frames.push(JSON.parse(data.toString()));
      this.#watch.wake();
    });
    socket.on('error', () => {});
    socket.on('close', (code, reason) => {
      this.#end = { code, reason: String(reason) };
      this.#watch.wake();
    });
  }

  static open(t: TestContext, url: string): Promise<TapeSocket> {
    return openSocket(t, url, (socket) => new TapeSocket(socket));
  }

  /** Resolves when `isTrue`, looked at after every frame and at the end. */
  until(isTrue: () => boolean): Promise<void> {
    return this.#watch.until(isTrue);
  }

  /** The next frame, in order of arrival. */
  async next(): Promise<Record<string, unknown>> {
    // Of several who wait for a frame one gets it.
    while (this.unread === 0) await this.until(() => this.unread > 0);
    this.#read += 1;
    return this.frames[this.#read - 1] as Record<string, unknown>;
  }

  #send(method: string, params: unknown): number {
    this.#nextId += 1;
    this.socket.send(JSON.stringify({ method, params, id: this.#nextId }));
    return this.#nextId;
  }

  /** Sends a request and returns the next frame, which must be its answer. */
  async ask(method: string, params: unknown): Promise<Record<string, unknown>> {
    this.#send(method, params);
    return this.next();
  }

  /** Sends a request and returns all that came before its answer. */
  async untilAnswered(method: string, params: unknown = []): Promise<Record<string, unknown>[]> {
    const id = this.#send(method, params);
    const before: Record<string, unknown>[] = [];
    for (;;) {
      const frame = await this.next();
      if (frame.id === id) return before;
      before.push(frame);
    }
  }

  /** Frames that arrived and were not read. Everything sent before an answer counts as arrived. */
  get unread(): number {
    return this.frames.length - this.#read;
  }

  /** How the connection ended; undefined while it has not. */
  get end(): { readonly code: number; readonly reason: string } | undefined {
    return this.#end;
  }

  /** The code with which the connection ended. */
  async closed(): Promise<number> {
    await this.until(() => this.#end !== undefined);
    return this.#end?.code ?? 0;
  }
}
