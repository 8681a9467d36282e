import type { Dispatcher } from 'undici';
import type { BodyRoom } from './body-room.js';
import { type ErrorPlace, ReplyTooLargeError } from './errors.js';
import { headerText, type ReplyHeaders } from './reply-headers.js';
import type { RawReply } from './reply-reader.js';

/** What is reported of a request while it is under way. */
export interface RequestWatch {
  /** Its first bytes are about to leave on a connection that stands; before, nothing was sent. */
  onLeaving(): void;
  /** The answer's head is there, also if its body then fails. */
  onHead(status: number, headers: ReplyHeaders): void;
}

/**
 * Takes in the answer to one request, up to a limit.
 *
 * States: *waiting* (for a connection) → *sent* → *answered* (the head is there) → settled: either
 * the whole answer came, or it was given up, or the connection broke. Given up while waiting, it
 * leaves nothing behind that could still be sent.
 */
export class ReplyHandler implements Dispatcher.DispatchHandler {
  /** The whole answer. Rejects with the reason of {@link abort}, or with the connection's error. */
  readonly complete: Promise<RawReply>;
  readonly #place: ErrorPlace;
  readonly #maxBodyBytes: number;
  readonly #room: BodyRoom;
  readonly #watch: RequestWatch;
  /** The body so far, with room behind it: a server may send it byte by byte. */
  #body: Buffer = Buffer.alloc(0);
  #resolve: (reply: RawReply) => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #given: { readonly reason: Error } | undefined;
  #head: { readonly status: number; readonly headers: ReplyHeaders } | undefined;
  #size = 0;

  constructor(place: ErrorPlace, maxBodyBytes: number, room: BodyRoom, watch: RequestWatch) {
    this.#place = place;
    this.#maxBodyBytes = maxBodyBytes;
    this.#room = room;
    this.#watch = watch;
    this.complete = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  /** Status of the answer; undefined as long as none came. */
  get status(): number | undefined {
    return this.#head?.status;
  }

  /** Bytes of the body so far. */
  get size(): number {
    return this.#size;
  }

  /** Gives the body's memory back. To be called once, when the request has ended. */
  release(): void {
    this.#room.giveBack(this.#size);
    this.#size = 0;
    this.#given ??= { reason: new Error('the request has ended') };
  }

  /** Gives the request up, at once: the pool does not look up while it makes a connection. */
  abort(reason: Error): void {
    if (this.#given !== undefined) return;
    this.#given = { reason };
    this.#controller?.abort(reason);
    this.#reject(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#given === undefined) this.#watch.onLeaving();
    else controller.abort(this.#given.reason);
  }

  onResponseStart(_controller: unknown, status: number, headers: ReplyHeaders): void {
    // An interim answer, such as 103.
    if (status < 200 || this.#given !== undefined) return;
    this.#head = { status, headers };
    this.#watch.onHead(status, headers);
    this.#bound(Number(headerText(headers, 'content-length') ?? 0));
  }

  onResponseData(_controller: unknown, chunk: Buffer): void {
    if (this.#given !== undefined) return;
    const before = this.#size;
    this.#size += chunk.length;
    const hasRoom = this.#room.take(chunk.length);
    if (!this.#bound(this.#size)) return;
    if (!hasRoom) {
      this.#refuse(this.#room.maxBytes, 'the answers that are read at once are');
      return;
    }
    if (before === 0) {
      this.#body = chunk;
      return;
    }
    if (this.#size > this.#body.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.#size, 2 * this.#body.length));
      this.#body.copy(larger, 0, 0, before);
      this.#body = larger;
    }
    chunk.copy(this.#body, before);
  }

  onResponseEnd(): void {
    if (this.#head === undefined) return;
    this.#resolve({ ...this.#head, body: this.#body.subarray(0, this.#size) });
  }

  onResponseError(_controller: unknown, error: Error): void {
    this.#reject(error);
  }

  #bound(size: number): boolean {
    if (size <= this.#maxBodyBytes) return true;
    this.#refuse(this.#maxBodyBytes, 'the answer is');
    return false;
  }

  #refuse(maxBytes: number, what: string): void {
    const place = { ...this.#place, ...(this.#head && { status: this.#head.status }) };
    this.abort(new ReplyTooLargeError(place, what, maxBytes));
  }
}
