import { readFileSync, statSync } from 'node:fs';
import { parse } from 'yaml';

/** Largest file that is read, bytes. */
const MAX_FILE_BYTES = 1_048_576;

/** The text of a file that people wrote. @throws Error also when it is too large to be one */
export function readBounded(path: string): string {
  const { size } = statSync(path);
  if (size > MAX_FILE_BYTES) throw new Error(`the file has ${size} bytes, more than 1 MiB`);
  return readFileSync(path, 'utf8');
}

/**
 * Reads one YAML document, and JSON as a part of YAML.
 *
 * @throws Error whose message says why the file is not readable or no YAML, without its path.
 */
export function readYamlFile(path: string): unknown {
  return parse(readBounded(path), { maxAliasCount: 100 });
}
