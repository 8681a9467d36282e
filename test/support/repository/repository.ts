import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The project's own folder. */
export const repositoryPath = join(import.meta.dirname, '..', '..', '..');

/** The documented settings. */
export const defaultYamlPath = join(repositoryPath, 'config', 'default.yaml');

export function defaultYaml(): string {
  return readFileSync(defaultYamlPath, 'utf8');
}
