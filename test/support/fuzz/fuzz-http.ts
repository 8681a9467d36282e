import { connect } from 'node:net';
import { startDeadline, systemClock } from '../../../src/kernel/clock.js';

/** One reply as it stood on the wire. */
export interface WireReply {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
}

/** A connection on which nothing ends is given up after this. */
const HANG_MS = 10_000;

/**
 * Sends pieces over a connection of its own, half-closes it and returns all that came back until the
 * server closed it. A connection that is reset ends like any other.
 *
 * @throws Error when the server keeps it open
 */
export function talkRaw(
  port: number,
  pieces: readonly Uint8Array[],
  isHalfClosed = true,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect(port, '127.0.0.1');
    const hang = startDeadline(systemClock, HANG_MS, () => new Error('the server hangs'));
    hang.signal.addEventListener('abort', () => {
      socket.destroy();
      reject(hang.signal.reason as Error);
    });
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.on('close', () => {
      hang.clear();
      resolve(Buffer.concat(chunks));
    });
    socket.once('connect', () => {
      for (const piece of pieces) socket.write(piece);
      if (isHalfClosed) socket.end();
    });
  });
}

/** The same of a text, after which the server has to end the connection by itself. */
export async function sendRaw(port: number, text: string): Promise<string> {
  return (await talkRaw(port, [Buffer.from(text)], false)).toString();
}

/**
 * Splits what came over one connection into replies; those to HEAD have no
 * body. After a change of protocol the rest is that reply's body.
 *
 * @throws Error when it is not HTTP
 */
export function splitReplies(bytes: Buffer): WireReply[] {
  const replies: WireReply[] = [];
  let at = 0;
  while (at < bytes.length) {
    const end = bytes.indexOf('\r\n\r\n', at);
    if (end < 0) throw new Error(`no end of a head: ${bytes.subarray(at, at + 200).toString()}`);
    const [line = '', ...fields] = bytes.subarray(at, end).toString('latin1').split('\r\n');
    const status = /^HTTP\/1\.1 (\d{3}) /.exec(line)?.[1];
    if (status === undefined) throw new Error(`no status line: ${line.slice(0, 200)}`);
    const headers = new Map<string, string>();
    for (const field of fields) {
      const colon = field.indexOf(':');
      headers.set(field.slice(0, colon).toLowerCase(), field.slice(colon + 1).trim());
    }
    const isSwitched = status === '101';
    // After HEAD the next reply follows at once, whatever length was sent.
    const isBodiless = bytes.subarray(end + 4, end + 13).toString('latin1') === 'HTTP/1.1 ';
    const told = isBodiless ? 0 : Number(headers.get('content-length') ?? 0);
    const length = isSwitched ? bytes.length : told;
    const body = bytes.subarray(end + 4, end + 4 + length);
    replies.push({ status: Number(status), headers, body });
    at = end + 4 + length;
  }
  return replies;
}

/** A frame of a WebSocket as it stood on the wire. */
export interface WireFrame {
  readonly opcode: number;
  readonly payload: Buffer;
}

/** The frames that a server sent: unmasked, whole. */
export function splitFrames(bytes: Buffer): WireFrame[] {
  const frames: WireFrame[] = [];
  let at = 0;
  while (at + 2 <= bytes.length) {
    const opcode = bytes.readUInt8(at) & 0x0f;
    const short = bytes.readUInt8(at + 1);
    at += 2;
    let length = short;
    if (short === 126) length = bytes.readUInt16BE(at);
    if (short === 127) length = Number(bytes.readBigUInt64BE(at));
    if (short >= 126) at += short === 126 ? 2 : 8;
    frames.push({ opcode, payload: bytes.subarray(at, at + length) });
    at += length;
  }
  return frames;
}

/** How one frame of a client is written; what is left out is as it should be. */
export interface FrameForm {
  readonly opcode?: number;
  readonly isFinal?: boolean;
  readonly isMasked?: boolean;
  /** The three reserved bits, 0 to 7. */
  readonly reserved?: number;
  /** The length in the head. */
  readonly toldLength?: number;
}

/** Writes a client's frame, right or wrong. */
export function writeFrame(payload: Buffer, form: FrameForm = {}): Buffer {
  const { opcode = 1, isFinal = true, isMasked = true, reserved = 0 } = form;
  const length = form.toldLength ?? payload.length;
  const start = (isFinal ? 0x80 : 0) | (reserved << 4) | opcode;
  const maskBit = isMasked ? 0x80 : 0;
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  head.writeUInt8(start, 0);
  head.writeUInt8(maskBit | (length < 126 ? length : length < 65_536 ? 126 : 127), 1);
  if (head.length === 4) head.writeUInt16BE(length, 2);
  if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2);
  if (!isMasked) return Buffer.concat([head, payload]);
  const mask = Buffer.from([1, 2, 3, 4]);
  const masked = Buffer.from(payload.map((byte, index) => byte ^ (mask[index % 4] ?? 0)));
  return Buffer.concat([head, mask, masked]);
}
