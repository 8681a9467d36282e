import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { packageRoot } from './package-root.js';

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
