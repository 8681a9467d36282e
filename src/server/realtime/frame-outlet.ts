import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { Clock } from '../../kernel/clock.js';

/** Bytes that may wait for a reader who does not read; beyond it the connection is cut. */
const MAX_BUFFERED_BYTES = 1024 * 1024;
/** A client that reads at full speed is sent no more while this much waits for it. */
const ROOMY_BYTES = 256 * 1024;
/** Time to read what waits then; a slower client is cut, so that others need not wait. */
const CATCH_UP_MS = 5_000;

/** What a connection sends goes through here: together, and never more than its reader takes. */
export class FrameOutlet {
  readonly #clock: Clock;
  readonly #socket: WebSocket;
  /** What carries the frames. */
  readonly #stream: Duplex;
  readonly #cut: () => void;
  #isGathering = false;
  /** Bytes that waited for the reader when this tick's first frame came. */
  #waitedBytes = 0;
  #catchingUp: Promise<void> | undefined;

  /** @param cut ends the connection of a reader that is too slow */
  constructor(
    clock: Clock,
    { socket, stream }: { readonly socket: WebSocket; readonly stream: Duplex },
    cut: () => void,
  ) {
    this.#clock = clock;
    this.#socket = socket;
    this.#stream = stream;
    this.#cut = cut;
  }

  get #isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN;
  }

  write(data: string | Uint8Array): void {
    if (!this.#isOpen) return;
    this.#gather();
    // Frames of this very tick have not been offered to the reader yet, however large they are.
    if (this.#waitedBytes > MAX_BUFFERED_BYTES) {
      this.#cut();
      return;
    }
    this.#socket.send(data, { binary: false });
  }

  /** Resolves when the reader has caught up, or is gone; undefined while it keeps up. */
  room(): Promise<void> | undefined {
    if (!this.#isOpen || this.#socket.bufferedAmount <= ROOMY_BYTES) return undefined;
    this.#catchingUp ??= new Promise((resolve) => {
      const cancel = this.#clock.after(CATCH_UP_MS, this.#cut, { background: true });
      const caughtUp = () => {
        cancel();
        this.#catchingUp = undefined;
        resolve();
      };
      this.#socket.once('close', caughtUp);
      // A frame of the protocol's own is written after everything before it, and reported then.
      this.#socket.pong('', false, () => {
        this.#socket.off('close', caughtUp);
        caughtUp();
      });
    });
    return this.#catchingUp;
  }

  /** Frames of one tick go out together: a system call costs more than a frame. */
  #gather(): void {
    if (this.#isGathering) return;
    this.#isGathering = true;
    this.#waitedBytes = this.#socket.bufferedAmount;
    this.#stream.cork();
    process.nextTick(() => {
      this.#isGathering = false;
      this.#stream.uncork();
    });
  }
}
