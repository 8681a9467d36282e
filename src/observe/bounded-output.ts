import type { DaemonEvents, OutputName } from './events.js';
import type { LogDestination } from './logger.js';

/** Standard output or standard error, or a stand-in. */
interface OutputStream {
  readonly isTTY?: boolean;
  readonly columns?: number;
  /** Lines written and not taken yet. */
  readonly writableLength: number;
  write(text: string): boolean;
  once(event: 'drain', listener: () => void): unknown;
}

type OutputEvents = Pick<DaemonEvents, 'outputDropped' | 'outputResumed'>;

/** A thousand lines and more. */
const MAX_WAITING = 256 * 1024;

/**
 * An output whose reader may stop reading, as a pager does that shows its first page. Node keeps what a
 * pipe does not take in memory, without a bound: here what comes beyond a bound is dropped and counted.
 *
 * States: *open* → *dropping*, from the first line that finds no room until all that waits is read →
 * *open* …
 */
export class BoundedOutput implements LogDestination {
  readonly #name: OutputName;
  readonly #stream: OutputStream;
  readonly #maxWaiting: number;
  #events: OutputEvents | undefined;
  #dropped = 0;

  constructor(name: OutputName, stream: OutputStream, maxWaiting = MAX_WAITING) {
    this.#name = name;
    this.#stream = stream;
    this.#maxWaiting = maxWaiting;
  }

  get isTTY(): boolean {
    return this.#stream.isTTY === true;
  }

  get columns(): number | undefined {
    return this.#stream.columns;
  }

  /** Reports drops from here on; the log has to be open for it. */
  reportTo(events: OutputEvents): void {
    this.#events = events;
  }

  /** @param text whole lines */
  write(text: string): void {
    const { writableLength } = this.#stream;
    const hasRoom = writableLength === 0 || writableLength + text.length <= this.#maxWaiting;
    if (hasRoom && this.#dropped === 0) {
      this.#stream.write(text);
      return;
    }
    if (this.#dropped === 0) this.#stream.once('drain', () => this.#resume());
    const lines = text.split('\n').length - 1;
    this.#dropped += lines;
    this.#events?.outputDropped({ output: this.#name, lines });
  }

  #resume(): void {
    const lines = this.#dropped;
    this.#dropped = 0;
    this.#events?.outputResumed({ output: this.#name, lines });
  }
}
