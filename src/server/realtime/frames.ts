import type { RawData } from 'ws';
import { parseJson } from '../../kernel/json.js';

/** A readable frame that is no request, or undefined where nothing can be answered. */
export function readId(frame: unknown): number | string | undefined {
  if (frame === null || typeof frame !== 'object') return undefined;
  const id: unknown = (frame as { id?: unknown }).id;
  // A number beyond all doubles is read as infinite, and would be echoed as null.
  if (typeof id === 'number') return Number.isFinite(id) ? id : undefined;
  return typeof id === 'string' && id.length <= 64 ? id : undefined;
}

/** What a frame says; undefined when it is none that can be read. */
export function decodeFrame(data: RawData, isBinary: boolean): unknown {
  if (isBinary) return undefined;
  try {
    const bytes = Array.isArray(data) ? Buffer.concat(data) : new Uint8Array(data);
    return parseJson(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    return undefined;
  }
}
