import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { SERIES } from '../../src/model/series.js';
import { readSources } from '../support/repository/imports.js';
import { repositoryPath } from '../support/repository/repository.js';
import {
  FENCES,
  findSeriesLists,
  findSplinters,
  findViolations,
  MAY_IMPORT,
  type Violation,
} from '../support/repository/rooms.js';

/** Checks planted files and returns what is told about them, shortly. */
function told(files: Readonly<Record<string, string>>): string[] {
  return findViolations(new Map(Object.entries(files))).map(
    ({ rule, where, detail }: Violation) => `${rule} ${where} ${detail}`,
  );
}

test('every file of src keeps to its room', () => {
  const sources = readSources(join(repositoryPath, 'src'));
  assert.ok(sources.has('kernel/clock.ts') && sources.has('contract/endpoints.ts'));
  const violations = findViolations(sources);
  assert.deepEqual(
    violations.map(({ rule, where, detail }) => `${rule}: ${where}: ${detail}`),
    [],
  );
});

test('every package that the program depends on has its fence', () => {
  const manifest = JSON.parse(readFileSync(join(repositoryPath, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  // Types load nothing; this one holds a dependency of fastify to a version that Node 20 may run.
  const isLoaded = (name: string) => !name.startsWith('@types/') && name !== 'light-my-request';
  const loaded = Object.keys(manifest.dependencies).filter(isLoaded);
  const unfenced = loaded.filter((name) => !(name in FENCES));
  assert.deepEqual(unfenced, []);
});

test('no file is but a part of its only importer, and only the registry lists the series', () => {
  const sources = readSources(join(repositoryPath, 'src'));
  assert.deepEqual(findSplinters(sources), []);
  assert.deepEqual(findSeriesLists(sources, Object.keys(SERIES)), []);
});

test('planted: a short file with one importer, and a list of series, are found', () => {
  const short = 'export const a = 1;\n';
  const [one, other] = ["import './a.js';", "import '../store/a.js';"];
  const find = (files: Readonly<Record<string, string>>) =>
    findSplinters(new Map(Object.entries(files)));
  assert.deepEqual(find({ 'store/a.ts': short, 'store/b.ts': one }), ['store/a.ts']);
  const long = short.repeat(60);
  assert.deepEqual(find({ 'store/a.ts': long, 'store/b.ts': one }), []);
  assert.deepEqual(find({ 'store/a.ts': short, 'store/b.ts': one, 'cli/c.ts': other }), []);
  const list = "const all = ['trade', 'kline', 'ticker', 'depth', 'market_state'];";
  const lists = (text: string, path = 'store/a.ts') =>
    findSeriesLists(new Map([[path, text]]), Object.keys(SERIES));
  assert.deepEqual(lists(list), ['store/a.ts']);
  assert.deepEqual(lists(list, 'model/a.ts'), []);
  assert.deepEqual(lists(list.replace(", 'market_state'", '')), []);
  assert.deepEqual(
    lists('const all = { trade: 1, kline: 1, ticker: 1, depth: 1, market_state: 1 };'),
    ['store/a.ts'],
  );
});

/** Files that the rooms may import which know but a few of another's. */
const TARGETS: Readonly<Record<string, string>> = {
  ...{ server: 'server/backend.ts', console: 'console/api/endpoints.ts' },
};
const up = (room: string) => '../'.repeat(room.split('/').length);

test('planted: each room may import what the table says and nothing else', () => {
  const rooms = Object.keys(MAY_IMPORT);
  let refused = 0;
  for (const room of rooms) {
    for (const other of [...rooms, 'cli']) {
      if (other === room) continue;
      const mayImport = (MAY_IMPORT[room] ?? []).includes(other);
      const target = TARGETS[other] ?? `${other}/b.ts`;
      const found = told({
        [`${room}/a.ts`]: `import type { B } from '${up(room)}${target.replace('.ts', '.js')}';`,
        [target]: 'export type B = 1;',
      });
      refused += found.length;
      const expected = mayImport ? [] : [`import ${room}/a.ts:1 ${room} may not import ${other}`];
      assert.deepEqual(found, expected);
    }
  }
  const allowed = Object.values(MAY_IMPORT).reduce((sum, others) => sum + others.length, 0);
  assert.equal(refused, rooms.length * rooms.length - allowed);
});

test('planted: every way to import is seen', () => {
  const ways = [
    "import { b } from '../cli/b.js';",
    "import '../cli/b.js';",
    "import type { B } from '../cli/b.js';",
    "export { b } from '../cli/b.js';",
    "export * from '../cli/b.js';",
    "const b = await import('../cli/b.js');",
    "let b: import('../cli/b.js').B;",
    "const b = require('../cli/b.js');",
    "import b = require('../cli/b.js');",
  ];
  for (const way of ways) {
    const found = told({ 'kernel/a.ts': `\n${way}`, 'cli/b.ts': '' });
    assert.deepEqual(found, ['import kernel/a.ts:2 kernel may not import cli'], way);
  }
  assert.deepEqual(told({ 'kernel/a.ts': "// import '../cli/b.js'", 'cli/b.ts': '' }), []);
});

test('planted: a sandbox knows the server by its interfaces, a store the contract by its types', () => {
  const files = { 'server/backend.ts': '', 'server/http.ts': '', 'contract/b.ts': '' };
  assert.deepEqual(told({ ...files, 'sandbox/a.ts': "import '../server/http.js';" }), [
    'import sandbox/a.ts:1 sandbox may import only server/backend.ts, server/faults.ts',
  ]);
  assert.deepEqual(told({ ...files, 'sandbox/a.ts': "import '../server/backend.js';" }), []);
  assert.deepEqual(
    told({
      'console/page/a.ts':
        "import { b } from '../api/endpoints.js'; import type { c } from '../server.js';",
      ...{ 'console/api/endpoints.ts': '', 'console/server.ts': '' },
    }),
    [
      'import console/page/a.ts:1 console/page may import only types of console',
      'import console/page/a.ts:1 console/page may import only console/api/documents.ts, console/api/endpoints.ts',
    ],
  );
  assert.deepEqual(told({ ...files, 'store/a.ts': "import { b } from '../contract/b.js';" }), [
    'import store/a.ts:1 store may import only types of contract',
  ]);
  assert.deepEqual(
    told({ ...files, 'store/a.ts': "import { type B } from '../contract/b.js';" }),
    [],
  );
});

test('planted: packages stay behind their fences', () => {
  for (const [name, rooms] of Object.entries(FENCES)) {
    for (const room of [...Object.keys(MAY_IMPORT), 'cli']) {
      const found = told({ [`${room}/a.ts`]: `import x from '${name}';` });
      const expected = `fence ${room}/a.ts:1 ${name} belongs in ${rooms.join(', ')}`;
      assert.deepEqual(found, rooms.includes(room) ? [] : [expected]);
    }
  }
  const inside = { 'archive/parquet/a.ts': "import x from '@duckdb/node-api';" };
  assert.deepEqual(told(inside), [], 'a fence may stand around a folder');
  assert.deepEqual(told({ 'client/a.ts': "import 'left-pad'; import 'node:fs';" }), [
    'fence client/a.ts:1 left-pad has no fence: say which rooms may import it',
  ]);
  assert.deepEqual(told({ 'cli/a.ts': "import { x } from 'zod/v4';" }), [
    'fence cli/a.ts:1 zod belongs in contract, config, archive/cold, archive/backup, sandbox, server/control, cli/sandbox, store/embedded, console, client, archive/events',
  ]);
});

test('planted: an import whose name is computed must be named as such', () => {
  const code = 'const x = await import(name);';
  assert.deepEqual(told({ 'client/a.ts': code }), ['fence client/a.ts:1 computed import: name']);
  assert.deepEqual(told({ 'store/embedded/binaries.ts': code }), []);
});

test('planted: circles are found, through any number of files', () => {
  assert.deepEqual(
    told({
      'kernel/a.ts': "import './b.js';",
      'kernel/b.ts': "import type { C } from './deep/c.js';",
      'kernel/deep/c.ts': "import '../a.js';",
      'kernel/d.ts': "import './a.js';",
    }),
    ['circle kernel/a.ts kernel/a.ts → kernel/b.ts → kernel/deep/c.ts → kernel/a.ts'],
  );
  assert.deepEqual(told({ 'kernel/a.ts': "import './a.js';" }), [
    'circle kernel/a.ts kernel/a.ts → kernel/a.ts',
  ]);
});

test('planted: the machine is read in kernel, config and cli only', () => {
  const reads = {
    'Date.now()': 'Date.now',
    'new Date()': 'new Date()',
    'new Date': 'new Date()',
    'performance.now()': 'performance.now',
    'process.env.HOME': 'process.env',
    "process['env']": 'process.env',
    'process.hrtime.bigint()': 'process.hrtime',
    'Math.random()': 'Math.random',
    'setTimeout(f, 1)': 'setTimeout',
    'globalThis.setInterval(f, 1)': 'setInterval',
    'const { env: e } = process': 'process.env',
    'const { now } = Date': 'Date.now',
  };
  for (const [code, name] of Object.entries(reads)) {
    assert.deepEqual(told({ 'collect/a.ts': `\n\n${code};` }), [`machine collect/a.ts:3 ${name}`]);
    for (const room of ['kernel', 'config', 'cli', 'console/page']) {
      assert.deepEqual(told({ [`${room}/a.ts`]: `${code};` }), []);
    }
  }
  assert.deepEqual(told({ 'store/a.ts': "import { setTimeout } from 'node:timers/promises';" }), [
    'machine store/a.ts:1 node:timers/promises',
  ]);
  const harmless = 'const a = new Date(0); const env = 1; // Date.now()\nconst b = "process.env";';
  assert.deepEqual(told({ 'store/a.ts': harmless }), []);
});

test('planted: long files, unknown rooms and dangling imports are told', () => {
  assert.deepEqual(told({ 'kernel/a.ts': 'export {};\n'.repeat(600) }), []);
  assert.deepEqual(told({ 'kernel/a.ts': 'export {};\n'.repeat(601) }), [
    'length kernel/a.ts:601 601 lines, more than 600',
  ]);
  assert.deepEqual(told({ 'attic/a.ts': '', 'cli/main.ts': '', 'index.ts': '' }), [
    'room attic/a.ts:1 no room attic',
  ]);
  assert.deepEqual(told({ 'kernel/a.ts': "import './gone.js'; import './a';" }), [
    'import kernel/a.ts:1 ./gone.js names no source file by its .js name',
    'import kernel/a.ts:1 ./a names no source file by its .js name',
  ]);
});
