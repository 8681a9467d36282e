import { access, constants, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../kernel/clock.js';
import { codeOf } from '../../kernel/errors.js';
import { FileLock } from '../../kernel/file-lock.js';
import { makeFolder } from '../../kernel/folders.js';
import { systemRandom } from '../../kernel/random.js';
import type { ColdText } from '../cold/storage.js';
import { ColdError, OutputError } from '../errors.js';
import { moveSynced, writeSynced } from '../files.js';
import { asFull, assertRoom, below, type CopiedSums, Copying } from './copying.js';
import { DOCUMENT } from './document.js';
import type { BackupPlace, BackupWriter } from './place.js';

const LOCK = 'backup.lock';
const LOCK_WAIT_MS = 1_000;
/** End of the name of a text on its way. */
const NEW = '.new';

/** A backup in a folder. One process at a time works in it. */
export class FolderBackup implements BackupPlace {
  readonly name: string;
  readonly form = 'folder';
  readonly isShared = false;
  readonly #clock: Clock;

  constructor(dir: string, clock: Clock) {
    this.name = dir;
    this.#clock = clock;
  }

  at(path: string): string {
    return join(this.name, path);
  }

  async take(signal: AbortSignal): Promise<() => Promise<void>> {
    const dir = this.name;
    try {
      await makeFolder(dir, 0o700);
      await access(dir, constants.W_OK | constants.X_OK);
    } catch (error) {
      const advice = `make it a folder that this user may write (${codeOf(error)}), or name another`;
      throw this.asFull(new OutputError(dir, advice, error), 'nothing was copied');
    }
    const lock = new FileLock({
      ...{ path: join(dir, LOCK), clock: this.#clock, random: systemRandom, waitMs: LOCK_WAIT_MS },
      refusal: (holder) =>
        new OutputError(dir, `another tapekeep (${holder}) makes a backup there; wait for its end`),
    });
    return await lock.acquire(signal);
  }

  async assertRoom(parts: Readonly<Record<string, number>>): Promise<void> {
    await assertRoom(this.name, parts);
  }

  async names(): Promise<string[]> {
    return (await readdir(this.name)).filter(
      (name) => name !== LOCK && name !== `${DOCUMENT}${NEW}`,
    );
  }

  async readText(path: string): Promise<ColdText> {
    const at = below(this.name, path);
    try {
      return { text: await readFile(at, 'utf8'), version: '' };
    } catch (error) {
      if (codeOf(error) !== 'ENOENT' && codeOf(error) !== 'ENOTDIR') throw error;
      throw new ColdError('cold_missing', `${at} is not there`, { cause: error });
    }
  }

  async replaceText(path: string, text: string): Promise<void> {
    const at = below(this.name, path);
    await rm(`${at}${NEW}`, { force: true });
    await writeSynced(`${at}${NEW}`, text);
    await moveSynced(`${at}${NEW}`, at);
  }

  writer(signal: AbortSignal, onBytes: (bytes: number, name: string) => void): BackupWriter {
    const copying = new Copying(signal, onBytes);
    const to = (path: string) => below(this.name, path);
    return {
      folder: (path) => copying.folder(to(path)),
      copy: (from, path) => copying.copy(from, to(path)),
      write: async (text, path) => {
        await rm(to(path), { force: true });
        return await copying.save([Buffer.from(text)], to(path));
      },
      stream: (pieces, path) => copying.save(pieces, to(path)),
      copyKnown: (from, path, sums) => copying.copyKnown(from, to(path), sums),
      sync: () => copying.sync(),
      settled: () => copying.settled(),
    };
  }

  local(path: string): string {
    return below(this.name, path);
  }

  async fetch(
    path: string,
    to: string,
    copying: Copying,
    mode?: number,
  ): Promise<CopiedSums | undefined> {
    return await copying.copy(this.local(path), to, mode);
  }

  async removeRun(folder: string): Promise<void> {
    await rm(join(this.name, folder), { recursive: true, force: true });
  }

  asFull(error: unknown, left: string): unknown {
    return asFull(error, this.name, left);
  }
}
