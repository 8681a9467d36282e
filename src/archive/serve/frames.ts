import type { Socket } from 'node:net';
import { type Clock, startDeadline, unlessAborted } from '../../kernel/clock.js';
import { EndpointError, SQLSTATE } from './errors.js';

/** Messages of Postgres' protocol 3, in and out. */

/** A message of the client: its letter, and what follows the length. */
export interface Frame {
  readonly type: string;
  readonly body: Buffer;
}

const HEADER_BYTES = 5;
/** A start-up packet as Postgres bounds it. */
const STARTUP_MAX = 10_000;

function oversized(bytes: number): EndpointError {
  const text = `message of ${bytes} bytes: only postgres_fdw is answered here`;
  return new EndpointError(SQLSTATE.protocol, text, { isFatal: true });
}

const malformed = () =>
  new EndpointError(SQLSTATE.protocol, 'malformed message', { isFatal: true });

/** Reads messages from a socket, ahead of their reader by a bounded number of bytes. */
export class Frames {
  readonly #socket: Socket;
  readonly #maxBytes: number;
  #pending: Buffer = Buffer.alloc(0);
  #isEnded = false;
  #wake: (() => void) | undefined;

  /** @param maxBytes of one message */
  constructor(socket: Socket, maxBytes: number) {
    this.#socket = socket;
    this.#maxBytes = maxBytes;
    socket.on('data', (piece: Buffer) => {
      this.#pending = this.#pending.length === 0 ? piece : Buffer.concat([this.#pending, piece]);
      // The end of a connection is seen only while it is read, so it pauses late.
      if (this.#pending.length > this.#maxBytes + HEADER_BYTES) socket.pause();
      this.#wake?.();
    });
    const end = () => this.stop();
    socket.on('end', end);
    socket.on('close', end);
    socket.on('error', end);
  }

  /** Reads nothing more: whoever waits for a message gets null. */
  stop(): void {
    this.#isEnded = true;
    this.#wake?.();
  }

  /** The packet that a connection begins with: no letter, only a length. Null if it ended before. */
  async startup(): Promise<Buffer | null> {
    const head = await this.#take(4);
    if (head === null) return null;
    const length = head.readInt32BE(0);
    if (length < 8 || length > STARTUP_MAX) throw oversized(length);
    return await this.#take(length - 4);
  }

  /** The next message; null when the connection has ended. @throws EndpointError for garbage */
  async next(): Promise<Frame | null> {
    const head = await this.#take(HEADER_BYTES);
    if (head === null) return null;
    const length = head.readInt32BE(1);
    if (length < 4 || length - 4 > this.#maxBytes) throw oversized(length);
    const body = await this.#take(length - 4);
    return body === null ? null : { type: head.toString('latin1', 0, 1), body };
  }

  async #take(bytes: number): Promise<Buffer | null> {
    while (this.#pending.length < bytes) {
      if (this.#isEnded) return null;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
    }
    const taken = this.#pending.subarray(0, bytes);
    this.#pending = this.#pending.subarray(bytes);
    if (this.#pending.length <= this.#maxBytes) this.#socket.resume();
    return taken;
  }
}

/** Fields of a message, one after the other. @throws EndpointError where it is too short */
export class Fields {
  readonly #body: Buffer;
  #at = 0;

  constructor(body: Buffer) {
    this.#body = body;
  }

  #need(bytes: number): number {
    const at = this.#at;
    if (bytes < 0 || at + bytes > this.#body.length) throw malformed();
    this.#at = at + bytes;
    return at;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#body.length;
  }

  int16(): number {
    return this.#body.readInt16BE(this.#need(2));
  }

  int32(): number {
    return this.#body.readInt32BE(this.#need(4));
  }

  bytes(length: number): Buffer {
    const at = this.#need(length);
    return this.#body.subarray(at, at + length);
  }

  /** A text up to its zero byte. */
  text(): string {
    const end = this.#body.indexOf(0, this.#at);
    if (end < 0) throw malformed();
    const text = this.#body.toString('utf8', this.#at, end);
    this.#at = end + 1;
    return text;
  }

  letter(): string {
    return this.bytes(1).toString('latin1');
  }
}

/** Bytes gathered before they go to the socket. */
const BLOCK_BYTES = 128 * 1024;

/** Builds messages in one growing block. */
export class Writer {
  #block: Buffer = Buffer.allocUnsafe(BLOCK_BYTES);
  #at = 0;
  #start = 0;

  get isFull(): boolean {
    return this.#at >= BLOCK_BYTES / 2;
  }

  /** Makes room for so many bytes. @returns the block and where to write; {@link wrote} ends it */
  room(bytes: number): Buffer {
    if (this.#at + bytes > this.#block.length) {
      const wider = Buffer.allocUnsafe(Math.max(this.#block.length * 2, this.#at + bytes));
      this.#block.copy(wider, 0, 0, this.#at);
      this.#block = wider;
    }
    return this.#block;
  }

  get at(): number {
    return this.#at;
  }

  set at(at: number) {
    this.#at = at;
  }

  begin(type: string): this {
    this.room(HEADER_BYTES);
    this.#block[this.#at] = type.charCodeAt(0);
    this.#start = this.#at + 1;
    this.#at += HEADER_BYTES;
    return this;
  }

  int16(value: number): this {
    this.room(2).writeInt16BE(value, this.#at);
    this.#at += 2;
    return this;
  }

  int32(value: number): this {
    this.room(4).writeInt32BE(value, this.#at);
    this.#at += 4;
    return this;
  }

  bytes(value: Buffer): this {
    value.copy(this.room(value.length), this.#at);
    this.#at += value.length;
    return this;
  }

  /** A text with the zero byte that ends it. */
  text(value: string): this {
    // A zero within would end it early.
    const plain = value.replaceAll('\0', '');
    const length = Buffer.byteLength(plain);
    const block = this.room(length + 1);
    block.write(plain, this.#at);
    block[this.#at + length] = 0;
    this.#at += length + 1;
    return this;
  }

  /** Ends the message begun: writes its length. */
  end(): void {
    this.#block.writeInt32BE(this.#at - this.#start, this.#start);
  }

  /** A message without fields, or with one text. */
  message(type: string, text?: string): void {
    this.begin(type);
    if (text !== undefined) this.text(text);
    this.end();
  }

  /** Takes what is written; the next message begins another block. */
  take(): Buffer {
    const taken = this.#block.subarray(0, this.#at);
    this.#block = Buffer.allocUnsafe(BLOCK_BYTES);
    this.#at = 0;
    return taken;
  }
}

/** Writes messages to a socket. Waits for the reader, and for no longer than is allowed. */
export class Replies extends Writer {
  readonly #socket: Socket;
  readonly #clock: Clock;
  readonly #stallMs: number;

  constructor(socket: Socket, clock: Clock, stallMs: number) {
    super();
    this.#socket = socket;
    this.#clock = clock;
    this.#stallMs = stallMs;
  }

  error(error: EndpointError): void {
    const fields: readonly (readonly [string, string | undefined])[] = [
      ...([
        ['S', error.isFatal ? 'FATAL' : 'ERROR'],
        ['V', error.isFatal ? 'FATAL' : 'ERROR'],
        ['C', error.sqlstate],
        ['M', error.message],
        ['H', error.hint],
      ] as const),
    ];
    this.begin('E');
    for (const [code, text] of fields) {
      if (text !== undefined) this.bytes(Buffer.from(code)).text(text);
    }
    this.bytes(Buffer.from([0])).end();
  }

  /**
   * Hands over what is gathered, and waits until the reader takes it.
   *
   * @throws EndpointError when the reader takes nothing for too long; the signal's reason
   */
  async flush(signal: AbortSignal): Promise<void> {
    if (this.at === 0) return;
    const block = this.take();
    if (this.#socket.destroyed || this.#socket.write(block)) return;
    const late = () => {
      const text = `the reader took no rows for ${Math.round(this.#stallMs / 1000)} s`;
      return new EndpointError(SQLSTATE.cancelled, text, { isFatal: true });
    };
    using deadline = startDeadline(this.#clock, this.#stallMs, late, signal);
    await unlessAborted(deadline.signal, drained(this.#socket));
  }
}

async function drained(socket: Socket): Promise<void> {
  if (socket.destroyed || !socket.writableNeedDrain) return;
  await new Promise<void>((resolve) => {
    const done = () => {
      socket.off('drain', done);
      socket.off('close', done);
      resolve();
    };
    socket.on('drain', done);
    socket.on('close', done);
  });
}
