import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

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
