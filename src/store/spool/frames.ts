import { type FileHandle, open } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import { codeOf } from '../../kernel/errors.js';

/**
 * Frames of a file of the spool: length and CRC-32 of a payload, then the payload. A file that was being written when
 * the process or the machine died ends in the midst of a frame.
 */

/** Length and checksum, four bytes each. */
const HEAD_BYTES = 8;
/** No batch is as large; a length beyond it is damage. */
const PAYLOAD_MAX = 256 * 1_048_576;

export function frameOf(payload: Buffer): Buffer {
  const frame = Buffer.allocUnsafe(HEAD_BYTES + payload.length);
  frame.writeUInt32LE(payload.length, 0);
  frame.writeUInt32LE(crc32(payload), 4);
  payload.copy(frame, HEAD_BYTES);
  return frame;
}

/** Frames of a file, and how it ends. */
export interface Frames {
  readonly payloads: readonly Buffer[];
  /**
   * `whole`; `torn`: it ends in the midst of a frame, which was never confirmed; `damaged`: a frame differs from what
   * was written, and all that follow are unreadable.
   */
  readonly end: 'whole' | 'torn' | 'damaged';
  /** Bytes up to the last frame that is whole. */
  readonly bytes: number;
}

export function readFrames(file: Buffer): Frames {
  const payloads: Buffer[] = [];
  let at = 0;
  while (at < file.length) {
    if (at + HEAD_BYTES > file.length) return { payloads, end: 'torn', bytes: at };
    const length = file.readUInt32LE(at);
    const next = at + HEAD_BYTES + length;
    if (length > PAYLOAD_MAX) return { payloads, end: 'damaged', bytes: at };
    if (next > file.length) return { payloads, end: 'torn', bytes: at };
    const payload = file.subarray(at + HEAD_BYTES, next);
    if (crc32(payload) !== file.readUInt32LE(at + 4)) {
      // The file may have grown before its last bytes were written.
      const end = next === file.length ? 'torn' : 'damaged';
      return { payloads, end, bytes: at };
    }
    payloads.push(payload);
    at = next;
  }
  return { payloads, end: 'whole', bytes: at };
}

/** Writes to the end of what was confirmed. After a failure nothing of it stays. */
export async function writeThrough(
  { handle, bytes }: { readonly handle: FileHandle; readonly bytes: number },
  data: Buffer,
): Promise<void> {
  try {
    let done = 0;
    while (done < data.length) {
      const { bytesWritten } = await handle.write(data, done, data.length - done, bytes + done);
      done += bytesWritten;
    }
    await handle.datasync();
  } catch (error) {
    await handle.truncate(bytes).catch(() => undefined);
    throw error;
  }
}

/** So that a file is still there after the machine was switched off. Not every system lets a folder be synced. */
export async function syncFolder(dir: string): Promise<void> {
  const folder = await open(dir, 'r');
  try {
    await folder.datasync();
  } catch (error) {
    if (codeOf(error) !== 'EINVAL' && codeOf(error) !== 'EPERM') throw error;
  } finally {
    await folder.close();
  }
}
