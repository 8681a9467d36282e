/** What honest pages of history need, for each connection that reads one at the same time. */
const PER_CONNECTION_BYTES = 256 * 1024;
/** Of the largest answers that are accepted, so many may be read at the same time. */
const LARGEST_AT_ONCE = 4;

/** Memory for the bodies that all connections are reading at once, bytes. */
export class BodyRoom {
  readonly maxBytes: number;
  #bytes = 0;

  constructor(maxBodyBytes: number, connections: number) {
    this.maxBytes = maxBodyBytes * LARGEST_AT_ONCE + connections * PER_CONNECTION_BYTES;
  }

  /** @returns whether there is room; what was taken is given back in any case */
  take(bytes: number): boolean {
    this.#bytes += bytes;
    return this.#bytes <= this.maxBytes;
  }

  giveBack(bytes: number): void {
    this.#bytes -= bytes;
  }
}
