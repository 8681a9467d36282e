import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { codeOf } from '../../kernel/errors.js';
import { beginLife, isLived, lifeText, readLife } from './lives.js';
import { NOT_TO_BE_WRITTEN } from './lock.js';

/**
 * Who uses the server of a data folder: an empty file for each, named for the process. Who is gone
 * counts no longer, with or without its file. Files are looked at by whoever holds the lock of the
 * folder, so that nobody comes while the last one stops the server.
 */
export interface ServerUser {
  /** The processes of the others that use the server now. */
  others(): Promise<readonly number[]>;
  /** Takes the own file away. Safe to call twice. */
  leave(): Promise<void>;
}

/** Joins the users of a server, before it is looked for. */
export async function joinUsers(usersDir: string): Promise<ServerUser> {
  const life = await beginLife();
  const own = lifeText(life);
  try {
    await mkdir(usersDir, { recursive: true });
    await writeFile(join(usersDir, own), '', { mode: 0o644 });
  } catch (error) {
    if (!NOT_TO_BE_WRITTEN.has(codeOf(error))) throw error;
  }
  return {
    async others() {
      const pids: number[] = [];
      for (const name of await readdir(usersDir).catch(() => [])) {
        const one = readLife(name);
        if (one === undefined || name === own) continue;
        if (await isLived(one)) pids.push(one.pid);
        else await rm(join(usersDir, name), { force: true }).catch(() => undefined);
      }
      return pids;
    },
    async leave() {
      life.end();
      await rm(join(usersDir, own), { force: true }).catch(() => undefined);
    },
  };
}
