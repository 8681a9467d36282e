import type { ColdText } from '../cold/storage.js';
import type { CopiedSums, Copying } from './copying.js';

/** Place of a backup: a folder, or below a prefix of a bucket. Paths are relative to it, with `/`. */
export interface BackupPlace {
  /** For people. */
  readonly name: string;
  readonly form: 'folder' | 'prefix';
  /**
   * True if other runs may write there meanwhile. Each has its own folder, and the document is written on a condition,
   * so that nothing of another is removed before it can no longer succeed.
   */
  readonly isShared: boolean;
  /** Name of a file for messages. */
  at(path: string): string;
  /** Begins a run. Returns what ends it. @throws OutputError if it cannot be written, or is in use */
  take(signal: AbortSignal): Promise<() => Promise<void>>;
  /** Refuses a disk without the room. @param parts bytes by what they are */
  assertRoom(parts: Readonly<Record<string, number>>): Promise<void>;
  /** Names of what is there, without the lock. */
  names(): Promise<string[]>;
  /** @throws ColdError `cold_missing`, or what else kept it from being read */
  readText(path: string): Promise<ColdText>;
  /** Writes a text in the place of the version that was read; null: of nothing. @throws ColdError `cold_conflict` */
  replaceText(path: string, text: string, version: string | null): Promise<void>;
  writer(signal: AbortSignal, onBytes: (bytes: number, name: string) => void): BackupWriter;
  /** Path of a file on this machine; undefined: it has to be fetched. */
  local(path: string): string | undefined;
  /** Copies a file to this machine. Returns undefined if it is not there. @param mode of the copy */
  fetch(path: string, to: string, copying: Copying, mode?: number): Promise<CopiedSums | undefined>;
  /** Removes the folder of a run with all that it has. */
  removeRun(folder: string): Promise<void>;
  /** Names a place that is full as such; other errors stay as they are. @param left what becomes of what was copied */
  asFull(error: unknown, left: string): unknown;
}

/** Writes the files of a run. All are there for good after {@link BackupWriter.sync}. */
export interface BackupWriter {
  folder(path: string): Promise<void>;
  /** Copies a file of this machine as long as it is now. Returns undefined if it is not there. */
  copy(from: string, path: string): Promise<CopiedSums | undefined>;
  /** Writes a text, again if it is there. */
  write(text: string, path: string): Promise<CopiedSums>;
  /** Writes what comes; it is whole if that comes to its end. @param bytes upper bound */
  stream(pieces: AsyncIterable<Buffer>, path: string, bytes: number): Promise<CopiedSums>;
  /** Copies a file that is known. Returns what is wrong with it, in words; null: nothing. */
  copyKnown(from: string, path: string, sums: CopiedSums): Promise<string | null>;
  sync(): Promise<void>;
  /** Resolves when nothing is under way any more; failures are those of the other methods. */
  settled(): Promise<void>;
}
