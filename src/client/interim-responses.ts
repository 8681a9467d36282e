import type { Socket } from 'node:net';

/** Longest head of an interim response that is skipped; the longest that undici reads, too. */
const MAX_HEAD_BYTES = 16 * 1024;
const START = 'HTTP/1.';
/** Shortest text that tells an interim response from another: `HTTP/1.1 100`. */
const STATUS_BYTES = 12;
/** 101 changes the protocol, which nobody asked for. */
const INTERIM = /^HTTP\/1\.[01] 1(?!01)\d\d/;
const END = '\r\n\r\n';

/**
 * Skips interim responses, such as `100 Continue`, in what a connection reads. A client may ignore those
 * that it did not ask for (RFC 9110, section 15.2); undici breaks the connection at a 100.
 *
 * One request at a time may be under way. Bytes begin a response when a request was written since the last
 * bytes came.
 */
export function skipInterimResponses(socket: Socket): void {
  const push = socket.push.bind(socket);
  let writtenBefore = 0;
  /** Bytes of a response whose status is unknown; undefined behind its status. */
  let held: Buffer | undefined;
  socket.push = (chunk: Buffer | null) => {
    if (chunk !== null && socket.bytesWritten !== writtenBefore) {
      writtenBefore = socket.bytesWritten;
      held = Buffer.alloc(0);
    }
    if (held === undefined) return push(chunk);
    const hasHeld = held.length > 0 && chunk !== null;
    const bytes = hasHeld ? Buffer.concat([held, chunk]) : (chunk ?? held);
    const { kept, isDecided } = withoutInterim(bytes);
    held = isDecided || chunk === null ? undefined : kept;
    if (held !== undefined) return true;
    if (kept.length === 0) return push(chunk);
    const goesOn = push(kept);
    return chunk === null ? push(null) : goesOn;
  };
}

/** Returns the bytes from the first response on that is not known to be interim; `isDecided` when it is known not to be. */
function withoutInterim(bytes: Buffer): { readonly kept: Buffer; readonly isDecided: boolean } {
  let kept = bytes;
  for (;;) {
    const start = kept.toString('latin1', 0, STATUS_BYTES);
    const isWhole = start.length === STATUS_BYTES;
    if (isWhole ? !INTERIM.test(start) : !isStart(start)) return { kept, isDecided: true };
    const end = isWhole ? kept.indexOf(END) : -1;
    if (end < 0) return { kept, isDecided: kept.length > MAX_HEAD_BYTES };
    kept = kept.subarray(end + END.length);
  }
}

const isStart = (text: string) => START.startsWith(text.slice(0, START.length));
