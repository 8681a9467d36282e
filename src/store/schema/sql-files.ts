import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** A file of SQL that comes with the program. */
export interface SqlFile {
  readonly name: string;
  readonly sql: string;
  /** Of the text: the same hash, the same definitions. */
  readonly hash: string;
}

/** The files of a folder below `sql/`, in the order in which they are to be run. */
export async function readSqlFiles(folder: string): Promise<SqlFile[]> {
  const dir = join(packageRoot(), 'sql', folder);
  const names = (await readdir(dir)).filter((name) => name.endsWith('.sql')).sort();
  return await Promise.all(
    names.map(async (name) => {
      const sql = await readFile(join(dir, name), 'utf8');
      return { name, sql, hash: createHash('sha256').update(sql).digest('hex') };
    }),
  );
}

/** The folder of package.json, found upwards from here: the same from src/ and from dist/. */
export function packageRoot(): string {
  let dir = import.meta.dirname;
  while (!existsSync(join(dir, 'package.json'))) {
    const parent = dirname(dir);
    if (parent === dir) throw new Error(`no package.json above ${import.meta.dirname}`);
    dir = parent;
  }
  return dir;
}

/** Where node-pg-migrate remembers what was applied. */
export const MIGRATIONS_TABLE = 'tapekeep_migration';

/**
 * Begins a transaction in which migrations, definitions or rights change: programs that try at once
 * take turns. A lock that needs the owner's rights, and that nothing waits for which only reads.
 */
export const BEGIN_ALONE = `
  BEGIN ISOLATION LEVEL READ COMMITTED;
  LOCK TABLE public.${MIGRATIONS_TABLE} IN SHARE ROW EXCLUSIVE MODE`;
