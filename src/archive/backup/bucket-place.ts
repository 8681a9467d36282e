import { createHash } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { createReadStream } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { Readable } from 'node:stream';
import { codeOf, TapekeepError } from '../../kernel/errors.js';
import {
  BucketClient,
  type BucketPlace,
  type BucketTools,
  PROBE,
  shortBody,
  TEXT_BYTES,
} from '../cold/bucket/client.js';
import { sumFile } from '../cold/folder.js';
import type { ColdText } from '../cold/storage.js';
import { ColdError, OutputError } from '../errors.js';
import { blocksOf, type CopiedSums, type Copying, digestOf, LANES, Lanes } from './copying.js';
import { RUN_FOLDER } from './document.js';
import type { BackupPlace, BackupWriter } from './place.js';

/** Longest file that is uploaded from memory. */
const SMALL_BYTES = 1024 * 1024;
/** Advice of one whose files are gone, or whose document is no longer the one it saw. */
const OVERTAKEN = 'another tapekeep made a backup there meanwhile; name another prefix';

/** A backup below a prefix of a bucket. */
export class BucketBackup implements BackupPlace {
  readonly name: string;
  readonly form = 'prefix';
  readonly isShared = true;
  readonly #client: BucketClient;

  constructor(options: BucketPlace & BucketTools) {
    this.#client = new BucketClient(options, options);
    this.name = this.#client.name;
  }

  at(path: string): string {
    return this.#client.at(path);
  }

  async take(): Promise<() => Promise<void>> {
    await this.#client.assertConditions();
    return async () => undefined;
  }

  async assertRoom(): Promise<void> {
    // A store does not say what it has left; it refuses what is too much.
  }

  async names(): Promise<string[]> {
    const names = new Set<string>();
    for await (const path of this.#client.list('')) names.add(path.split('/')[0] ?? '');
    // A run that was killed at its first file, as that of a dump, has left nothing else.
    for (const { path } of (await this.#client.uploads()).uploads) {
      const [folder = ''] = path.split('/');
      if (RUN_FOLDER.test(folder)) names.add(folder);
    }
    return [...names].filter((name) => !name.startsWith(PROBE));
  }

  async readText(path: string): Promise<ColdText> {
    return await this.#client.readText(path, TEXT_BYTES);
  }

  async replaceText(path: string, text: string, version: string | null): Promise<void> {
    try {
      const condition = version === null ? { IfNoneMatch: '*' as const } : { IfMatch: version };
      await this.#client.write(path, text, condition);
    } catch (error) {
      if (codeOf(error) !== 'cold_conflict') throw error;
      throw new OutputError(this.name, OVERTAKEN, error);
    }
  }

  writer(signal: AbortSignal, onBytes: (bytes: number, name: string) => void): BackupWriter {
    return new BucketWriter(this.#client, signal, onBytes);
  }

  local(): undefined {
    return undefined;
  }

  async fetch(
    path: string,
    to: string,
    copying: Copying,
    mode?: number,
  ): Promise<CopiedSums | undefined> {
    try {
      return await this.#client.read(path, copying.signal, async (body, length) => {
        await rm(to, { force: true });
        const sums = await copying.save(body, to, mode);
        if (length === undefined || length === sums.bytes) return sums;
        throw shortBody(this.at(path), sums.bytes, length);
      });
    } catch (error) {
      if (codeOf(error) === 'cold_missing') return undefined;
      // Other bytes came than the store has a checksum of.
      if (codeOf(error) === 'cold_damaged') return { bytes: 0, sha256: '' };
      throw error;
    }
  }

  async removeRun(folder: string): Promise<void> {
    await this.#client.abortUploads(`${folder}/`);
    const lanes = new Lanes(LANES);
    for await (const path of this.#client.list(`${folder}/`)) {
      await lanes.add(() => this.#client.remove(path));
    }
    await lanes.done();
  }

  asFull(error: unknown, left: string): unknown {
    if (!(error instanceof ColdError)) return error;
    // Whoever finishes first removes what others have begun.
    if (error.code === 'cold_missing') return new OutputError(this.name, OVERTAKEN, error);
    if (error.code !== 'cold_disk_full') return error;
    const text = `the store of ${this.name} has no space left: ${left}. Raise the quota, or delete what is not needed`;
    return new TapekeepError('disk_full', text, { cause: error });
  }
}

/** Uploads files: small ones a few at a time from memory, large ones one by one in parts. */
class BucketWriter implements BackupWriter {
  readonly #client: BucketClient;
  readonly #signal: AbortSignal;
  readonly #onBytes: (bytes: number, name: string) => void;
  readonly #lanes = new Lanes(LANES);

  constructor(
    client: BucketClient,
    signal: AbortSignal,
    onBytes: (bytes: number, name: string) => void,
  ) {
    this.#client = client;
    // Each upload under way listens.
    setMaxListeners(0, signal);
    this.#signal = signal;
    this.#onBytes = onBytes;
  }

  async folder(): Promise<void> {
    // The document names folders; a bucket has none.
  }

  async copy(from: string, path: string): Promise<CopiedSums | undefined> {
    this.#signal.throwIfAborted();
    try {
      const source = await open(from, 'r');
      let size: number;
      try {
        // No longer than it is now; a server may write on.
        size = (await source.stat()).size;
        if (size <= SMALL_BYTES) {
          const pieces: Buffer[] = [];
          for await (const block of blocksOf(source, size)) pieces.push(Buffer.from(block));
          return await this.#small(Buffer.concat(pieces), path);
        }
      } finally {
        await source.close();
      }
      const again = () => createReadStream(from, { end: size - 1 });
      return await this.#parts(again, path, size);
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error;
      return undefined;
    }
  }

  async write(text: string, path: string): Promise<CopiedSums> {
    return await this.#small(Buffer.from(text), path);
  }

  async stream(pieces: AsyncIterable<Buffer>, path: string, bytes: number): Promise<CopiedSums> {
    let isBegun = false;
    const once = () => {
      if (!isBegun) {
        isBegun = true;
        return pieces;
      }
      const text = `${this.#client.at(path)} was not written, and its content comes once only: run the backup again`;
      throw new TapekeepError('backup_refused', text);
    };
    return await this.#parts(once, path, bytes);
  }

  async copyKnown(from: string, path: string, sums: CopiedSums): Promise<string | null> {
    const found = await sumFile(from, this.#signal).catch((error: unknown) => {
      if (codeOf(error) !== 'cold_missing') throw error;
    });
    if (found === undefined) return 'is missing';
    if (found.bytes !== sums.bytes || found.sha256 !== sums.sha256) return 'is altered';
    await this.#client.upload(from, path, sums, this.#signal);
    this.#onBytes(sums.bytes, basename(path));
    return null;
  }

  async #small(content: Buffer, path: string): Promise<CopiedSums> {
    const sums = digestOf(content);
    await this.#lanes.add(async () => {
      await this.#client.uploadWhole(path, content, sums, this.#signal);
      this.#onBytes(sums.bytes, basename(path));
    });
    return sums;
  }

  /** @param open gives the content from its start @param most bytes at most */
  async #parts(open: () => AsyncIterable<Buffer>, path: string, most: number): Promise<CopiedSums> {
    const [signal, onBytes] = [this.#signal, this.#onBytes];
    let sums: CopiedSums = { bytes: 0, sha256: '' };
    const summed = async function* (pieces: AsyncIterable<Buffer>) {
      const hash = createHash('sha256');
      let bytes = 0;
      for await (const piece of pieces) {
        signal.throwIfAborted();
        hash.update(piece);
        bytes += piece.length;
        onBytes(piece.length, basename(path));
        yield piece;
      }
      sums = { bytes, sha256: hash.digest('hex') };
    };
    const body = () => Readable.from(summed(open()), { objectMode: false });
    await this.#client.uploadParts(path, body, most, signal);
    return sums;
  }

  async sync(): Promise<void> {
    await this.#lanes.done();
  }

  async settled(): Promise<void> {
    await this.#lanes.settled();
  }
}
