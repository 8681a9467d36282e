import { isObject } from '../kernel/json.js';
import { type Config, configSchema, SECRET_KEYS } from './schema.js';

/** The built-in defaults: what holds when nothing is set. */
export const DEFAULTS: Config = deepFreeze(configSchema.parse({}));

/** Prefix of every environment variable that tapekeep reads. */
export const ENV_PREFIX = 'TAPEKEEP_';
/** Names the configuration file; no key of its own. */
export const CONFIG_FILE_VARIABLE = `${ENV_PREFIX}CONFIG`;

export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value;
  for (const member of Object.values(value)) deepFreeze(member);
  return Object.freeze(value);
}

function pathsOf(tree: object, prefix: string, wantSections: boolean): string[] {
  return Object.entries(tree).flatMap(([name, value]) => {
    const path = `${prefix}${name}`;
    if (!isObject(value)) return wantSections ? [] : [path];
    const inner = pathsOf(value, `${path}.`, wantSections);
    return wantSections ? [path, ...inner] : inner;
  });
}

/** Paths of all keys that hold a value: `dataDir`, `exchange.url`, … */
export const KEY_PATHS: ReadonlySet<string> = new Set(pathsOf(DEFAULTS, '', false));
/** Paths of all keys that hold further keys: `exchange`, `streams.trades`, … */
export const SECTION_PATHS: ReadonlySet<string> = new Set(pathsOf(DEFAULTS, '', true));

/** The environment variable of a key: `exchange.requestsPerS` → `TAPEKEEP_EXCHANGE_REQUESTS_PER_S`. */
export function variableOf(path: string): string {
  const words = path.replaceAll('.', '_').replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2');
  return ENV_PREFIX + words.toUpperCase();
}

/** What a known environment variable sets. */
export interface Variable {
  readonly path: string;
  /** The variable names a file that holds the value, instead of holding it. */
  readonly isFile: boolean;
}

/** All environment variables that set a key, by name. */
export const VARIABLES: ReadonlyMap<string, Variable> = new Map<string, Variable>([
  ...[...KEY_PATHS].map((path): [string, Variable] => [variableOf(path), { path, isFile: false }]),
  ...[...SECRET_KEYS].map((path): [string, Variable] => [
    `${variableOf(path)}_FILE`,
    { path, isFile: true },
  ]),
]);

/** Keys of the settings' file that name a file with a secret, and the key whose value it holds. */
export const SECRET_FILE_PATHS: ReadonlyMap<string, string> = new Map(
  [...SECRET_KEYS].map((path): [string, string] => [`${path}File`, path]),
);
