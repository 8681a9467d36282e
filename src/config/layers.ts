import { isMap, isScalar, LineCounter, parseDocument } from 'yaml';
import { messageOf, TapekeepError } from '../kernel/errors.js';
import { isObject } from '../kernel/json.js';
import { nearestName } from '../kernel/nearest.js';
import {
  CONFIG_FILE_VARIABLE,
  ENV_PREFIX,
  KEY_PATHS,
  SECRET_FILE_PATHS,
  SECTION_PATHS,
  VARIABLES,
} from './keys.js';
import { readBounded } from './yaml-file.js';

/** One mistake in the settings. */
export interface ConfigProblem {
  /** Path of the key, `exchange.url`; or the name of a variable or file that is wrong as such. */
  readonly key: string;
  /** Where the value came from: `tapekeep.yaml:7`, an environment variable, the command line. */
  readonly source: string;
  /** The value as given, secrets hidden; undefined when no single value is to blame. */
  readonly value?: string;
  /** What is wrong, or what is allowed. */
  readonly expected: string;
}

function describe({ key, source, value, expected }: ConfigProblem): string {
  const given = value === undefined ? '' : ` is ${value}`;
  return `  ${key}${given} (${source}): ${expected}`;
}

/** The settings cannot be used. Lists every mistake at once, so that one round of edits is enough. */
export class ConfigError extends TapekeepError {
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    const heading =
      problems.length === 1
        ? 'The configuration has a mistake:'
        : `The configuration has ${problems.length} mistakes:`;
    super('config_invalid', [heading, ...problems.map(describe)].join('\n'));
    this.problems = problems;
  }
}

/** A value that some source gives to a key, and where it stands there. */
export interface Setting {
  readonly value: unknown;
  readonly source: string;
}

/** One source of settings, flattened to key paths, with the mistakes that showed on the way. */
export interface Layer {
  readonly settings: Map<string, Setting>;
  readonly problems: ConfigProblem[];
}

function suggestion(name: string, known: Iterable<string>, kind: string): string {
  const nearest = nearestName(name, known);
  return nearest === undefined ? `no such ${kind}` : `no such ${kind}; did you mean ${nearest}?`;
}

/** Reads a secret from the file that `file` names, or notes why that is not possible. */
function readSecret(path: string, file: unknown, source: string, layer: Layer): void {
  if (file === undefined || file === null) return;
  if (layer.settings.has(path)) {
    const expected =
      'set it once: either the value itself or the file that holds it (…_FILE, …File)';
    layer.problems.push({ key: path, source, expected });
    return;
  }
  try {
    layer.settings.set(path, { value: readBounded(String(file)).trim(), source });
  } catch (error) {
    const expected = `names a file that cannot be read: ${messageOf(error)}`;
    layer.problems.push({ key: path, source, expected });
  }
}

/** Walks a tree of settings down to the keys, refusing names that the schema does not have. */
function flatten(tree: object, sourceOf: (path: readonly string[]) => string): Layer {
  const settings = new Map<string, Setting>();
  const problems: ConfigProblem[] = [];
  const secretFiles: Array<readonly [path: string, file: unknown, source: string]> = [];
  const walk = (branch: object, above: readonly string[]) => {
    for (const [name, value] of Object.entries(branch)) {
      const at = [...above, name];
      const path = at.join('.');
      const source = sourceOf(at);
      const secret = SECRET_FILE_PATHS.get(path);
      if (KEY_PATHS.has(path)) {
        if (value !== undefined) settings.set(path, { value, source });
      } else if (secret !== undefined) {
        secretFiles.push([secret, value, source]);
      } else if (!SECTION_PATHS.has(path)) {
        const expected = suggestion(path, [...KEY_PATHS, ...SECTION_PATHS], 'key');
        problems.push({ key: path, source, expected });
      } else if (isObject(value)) {
        walk(value, at);
      } else if (value !== null && value !== undefined) {
        problems.push({ key: path, source, expected: 'a section: its keys belong indented below' });
      }
    }
  };
  walk(tree, []);
  for (const [path, file, source] of secretFiles) {
    readSecret(path, file, source, { settings, problems });
  }
  return { settings, problems };
}

/** Reads a YAML file of settings. Sources are named `file:line`. */
export function readFileLayer(file: string): Layer {
  const fault = (source: string, expected: string): Layer => ({
    settings: new Map(),
    problems: [{ key: file, source, expected }],
  });
  let text: string;
  try {
    text = readBounded(file);
  } catch (error) {
    return fault('configuration file', `cannot be read: ${messageOf(error)}`);
  }
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const lineOf = (offset: number | undefined) =>
    offset === undefined ? file : `${file}:${lines.linePos(offset).line}`;
  const [broken] = document.errors;
  if (broken !== undefined) return fault(lineOf(broken.pos[0]), `no YAML: ${broken.message}`);
  let tree: unknown;
  try {
    tree = document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    return fault(file, `no YAML: ${messageOf(error)}`);
  }
  if (tree === null || tree === undefined) return { settings: new Map(), problems: [] };
  if (!isObject(tree)) return fault(file, 'must hold keys and values, such as "dataDir: ./data"');
  return flatten(tree, (path) => {
    // Its value may begin lines below.
    const around = document.getIn(path.slice(0, -1), true);
    const keys = isMap(around) ? around.items.map(({ key }) => key).filter(isScalar) : [];
    return lineOf(keys.find(({ value }) => String(value) === path.at(-1))?.range?.[0]);
  });
}

/** Reads the options of the command line, given as a tree of settings. */
export function readOverridesLayer(tree: object): Layer {
  return flatten(tree, () => 'command line');
}

/**
 * Variables that Kubernetes sets in each container of a namespace for a service whose name begins with
 * `tapekeep`: where it is, not how to run.
 */
const SERVICE_LINK =
  /_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/;
const SERVICE_ADDRESS = /^(tcp|udp|sctp):\/\//;

function isServiceLink(name: string, text: string | undefined): boolean {
  if (name.endsWith('_PORT') && SERVICE_ADDRESS.test(text ?? '')) return true;
  return SERVICE_LINK.test(name) && !VARIABLES.has(name);
}

/** Reads the environment. Empty variables count as not set, as Compose files pass them. */
export function readEnvironmentLayer(env: NodeJS.ProcessEnv): Layer {
  const settings = new Map<string, Setting>();
  const problems: ConfigProblem[] = [];
  for (const [name, text] of Object.entries(env)) {
    if (!name.startsWith(ENV_PREFIX) || name === CONFIG_FILE_VARIABLE) continue;
    if (isServiceLink(name, text)) continue;
    const variable = VARIABLES.get(name);
    if (variable === undefined) {
      const expected = suggestion(name, [...VARIABLES.keys(), CONFIG_FILE_VARIABLE], 'variable');
      problems.push({ key: name, source: 'environment', expected });
      continue;
    }
    if (text === undefined || text === '') continue;
    const { path, isFile } = variable;
    const source = `environment variable ${name}`;
    if (isFile) {
      readSecret(path, text, source, { settings, problems });
    } else if (settings.has(path)) {
      const expected = 'set it once: either the variable itself or the one that ends in _FILE';
      problems.push({ key: path, source, expected });
    } else {
      settings.set(path, { value: text, source });
    }
  }
  return { settings, problems };
}
