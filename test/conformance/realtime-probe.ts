import { type RawData, WebSocket } from 'ws';
import type { Clock } from '../../src/kernel/clock.js';
import { Skip } from './outcome.js';

export type Frame = Readonly<Record<string, unknown>>;

export interface RealtimeOptions {
  readonly url: string;
  readonly clock: Clock;
  /** Deadline of connecting and of each awaited frame. */
  readonly timeoutMs: number;
}

const MAX_FRAME_BYTES = 256 * 1024;
const MAX_FRAMES = 1000;

/** One connection whose frames are seen as they come. */
export class RealtimeProbe {
  readonly #options: RealtimeOptions;
  readonly #socket: WebSocket;
  readonly #frames: Frame[] = [];
  #wake: () => void = () => {};
  #lastId = 0;

  private constructor(options: RealtimeOptions) {
    this.#options = options;
    this.#socket = new WebSocket(options.url, {
      maxPayload: MAX_FRAME_BYTES,
      perMessageDeflate: false,
      followRedirects: false,
      handshakeTimeout: options.timeoutMs,
    });
    this.#socket.on('message', (data) => this.#receive(data));
    this.#socket.on('error', () => this.#wake());
    this.#socket.on('close', () => this.#wake());
    this.#socket.on('open', () => this.#wake());
  }

  /** Connects, lets `use` work, and closes in any case. */
  static async use<T>(options: RealtimeOptions, use: (probe: RealtimeProbe) => Promise<T>) {
    const probe = new RealtimeProbe(options);
    try {
      await probe.#until(() => probe.#socket.readyState !== WebSocket.CONNECTING);
      if (!probe.isOpen) throw new Error(`no connection to ${options.url}`);
      return await use(probe);
    } finally {
      probe.#socket.terminate();
    }
  }

  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  /** Frames without an id that came and were not taken. */
  get pushed(): readonly Frame[] {
    return this.#frames.filter(isPushed);
  }

  /** Sends a text as it is. */
  sendText(text: string): void {
    this.#socket.send(text, () => {});
  }

  /** Sends a call and returns its answer; undefined when none came in time. */
  async ask(method: string, params: unknown): Promise<Frame | undefined> {
    this.#lastId += 1;
    const id = this.#lastId;
    this.sendText(JSON.stringify({ method, params, id }));
    return this.#take((frame) => frame.id === id);
  }

  /** The next frame without an id that is wanted. @throws Skip when none comes in time */
  async nextPush(isWanted: (frame: Frame) => boolean = () => true): Promise<Frame> {
    const frame = await this.#take((one) => isPushed(one) && isWanted(one));
    if (frame === undefined) throw new Skip('no update came in time: nothing may have changed');
    return frame;
  }

  async #take(isWanted: (frame: Frame) => boolean): Promise<Frame | undefined> {
    await this.#until(() => !this.isOpen || this.#frames.some(isWanted));
    const index = this.#frames.findIndex(isWanted);
    return index < 0 ? undefined : this.#frames.splice(index, 1)[0];
  }

  /** Waits for something, at most until the deadline. */
  async #until(isDone: () => boolean): Promise<void> {
    let isLate = false;
    const cancel = this.#options.clock.after(this.#options.timeoutMs, () => {
      isLate = true;
      this.#wake();
    });
    while (!isDone() && !isLate) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    cancel();
  }

  #receive(data: RawData): void {
    let frame: unknown;
    try {
      frame = JSON.parse(String(data));
    } catch {
      frame = undefined;
    }
    const isObject = typeof frame === 'object' && frame !== null;
    if (this.#frames.length < MAX_FRAMES) {
      this.#frames.push(isObject ? (frame as Frame) : { unreadable: String(data).slice(0, 80) });
    }
    this.#wake();
  }
}

function isPushed(frame: Frame): boolean {
  return frame.id === null || frame.id === undefined;
}
