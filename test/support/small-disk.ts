import { spawnSync } from 'node:child_process';
import { chmod, mkdtemp, open, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { codeOf } from '../../src/kernel/errors.js';

const BLOCK = Buffer.alloc(64 * 1024);
const FILL = 'fill';

/** A file system of its own, which can be filled and freed. */
export interface SmallDisk {
  readonly path: string;
  /** Leaves no byte free. */
  fill(): Promise<void>;
  /** Takes the filling away. */
  free(): Promise<void>;
  freeBytes(): Promise<number>;
}

/**
 * Mounts a file system of so many megabytes in memory; it goes with the test.
 *
 * @returns undefined, with a diagnostic, where mounting is not allowed: it takes Linux and root
 */
export async function mountSmallDisk(
  t: TestContext,
  megabytes: number,
): Promise<SmallDisk | undefined> {
  const path = await mkdtemp(join(tmpdir(), 'tapekeep-disk-'));
  await chmod(path, 0o755);
  const size = `size=${megabytes}m,mode=755`;
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', size, 'tmpfs', path]);
  if (mounted.status !== 0) {
    await rm(path, { recursive: true });
    t.diagnostic('no file system can be mounted here: nothing was tested');
    return undefined;
  }
  t.after(async () => {
    spawnSync('umount', ['--lazy', path]);
    await rm(path, { recursive: true, force: true });
  });
  const fill = async () => {
    const file = await open(join(path, FILL), 'a');
    try {
      for (let size = BLOCK.length; size >= 1; ) {
        try {
          await file.write(BLOCK, 0, size);
        } catch (error) {
          if (codeOf(error) !== 'ENOSPC') throw error;
          size = Math.floor(size / 2);
        }
      }
    } finally {
      await file.close();
    }
  };
  return {
    path,
    fill,
    free: () => rm(join(path, FILL), { force: true }),
    async freeBytes() {
      const { bavail, bsize } = await statfs(path);
      return bavail * bsize;
    },
  };
}
