import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { KEY_PATHS, SECRET_FILE_PATHS, SECTION_PATHS } from '../../src/config/keys.js';
import { coldSchemaPage } from '../support/documents/cold-schema.js';
import { consoleApiPage } from '../support/documents/console-api.js';
import {
  anchorsOf,
  blocksOf,
  brokenLinks,
  readDocument,
  readDocuments,
} from '../support/documents/documents.js';
import { referencePages } from '../support/documents/reference.js';
import { repositoryPath } from '../support/repository/repository.js';

/** Documents: short where they must be, current where they are generated, linked to what is there. */
const README_MAX_LINES = 200;

test('the README fits on a few screens and leads to every page', () => {
  const { text } = readDocument('README.md');
  const lines = text.trimEnd().split('\n').length;
  assert.ok(lines <= README_MAX_LINES, `${lines} lines; move what is more into docs/`);
  const pages = readDocuments().filter(({ path }) => path.startsWith('docs/'));
  assert.ok(pages.length >= 15);
  assert.deepEqual(
    pages.map(({ path }) => path).filter((path) => !text.includes(`](${path}`)),
    [],
  );
});

test('generated pages are current: npm run docs writes them anew', async () => {
  const pages = await referencePages();
  pages.set('docs/reference/cold-files.md', coldSchemaPage());
  pages.set('docs/reference/console-api.md', consoleApiPage());
  for (const [path, text] of pages) {
    assert.ok(readDocument(path).text === text, `${path} is not current: run npm run docs`);
  }
});

test('links between documents lead to files and headings that exist', () => {
  const broken = readDocuments().flatMap((document) =>
    brokenLinks(document).map((target) => `${document.path}: ${target}`),
  );
  assert.deepEqual(broken, []);
});

test('planted: a link to no file, to no heading or out of the repository is found', () => {
  const text = [
    '# A title: with `code`',
    '[right](b.md#one-two) [right](#a-title-with-code) [elsewhere](https://example.com/x.md)',
    '[no file](c.md) [no heading](b.md#three) [none here](#one-two) [outside](../../x.md)',
    '```sh\n[in code](d.md)\n```',
  ].join('\n');
  const there: Readonly<Record<string, string>> = {
    'docs/b.md': '## One, two\n',
    'docs/a.md': text,
  };
  const found = brokenLinks(
    { path: 'docs/a.md', text },
    (path) => path in there,
    (path) => there[path] ?? '',
  );
  assert.deepEqual(found, ['c.md', 'b.md#three', '#one-two', '../../x.md']);
  assert.deepEqual(anchorsOf('# Same\n## Same\n```sh\n# none\n```\n'), ['same', 'same-1']);
  assert.deepEqual(blocksOf('```sh\na\n```\n  ```sh\n  b\n  ```\n```sql x\nc\n```\n', 'sh'), [
    'a\n',
    '  b\n',
  ]);
});

test('every source file that a document names is there', () => {
  const named = readDocuments()
    .filter(({ path }) => path !== 'CHANGELOG.md')
    .flatMap(({ text }) =>
      Array.from(text.matchAll(/`((?:[\w-]+\/)+[\w-]+(?:\.\w+)?\.ts)`/g), ([, path = '']) => path),
    );
  assert.ok(named.length >= 30, `${named.length}`);
  // Relative to the project, to the source, or to the room that a table is about.
  const isThere = (path: string) =>
    ['', 'src', 'src/archive'].some((folder) => existsSync(join(repositoryPath, folder, path)));
  assert.deepEqual(
    named.filter((path) => !isThere(path)),
    [],
  );
});

test('every setting that a document names exists', () => {
  const known = new Set([...KEY_PATHS, ...SECTION_PATHS, ...SECRET_FILE_PATHS.keys()]);
  const sections = new Set([...SECTION_PATHS].filter((path) => !path.includes('.')));
  const named = readDocuments().flatMap(({ path, text }) =>
    Array.from(text.matchAll(/`([a-z]\w*(?:\.[a-zA-Z]\w*)+)(?:: [^`]*)?`/g), ([, key = '']) => ({
      path,
      key,
    })).filter(({ key }) => sections.has(key.split('.')[0] ?? '')),
  );
  assert.ok(named.length >= 80);
  assert.deepEqual(
    named.filter(({ key }) => !known.has(key)),
    [],
  );
});

test('every script that a document runs by npm is one of the package', () => {
  const { scripts } = JSON.parse(readFileSync(join(repositoryPath, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };
  const named = readDocuments().flatMap(({ text }) =>
    Array.from(text.matchAll(/\bnpm (?:run )?([a-z:]+)/g), ([, name = '']) => name),
  );
  assert.ok(named.length >= 12);
  const ofNpm = new Set(['ci', 'install', 'pack', 'package', 'packages', 'prune', 'run']);
  assert.deepEqual(
    named.filter((name) => !ofNpm.has(name) && !(name in scripts)),
    [],
  );
});

test('no document hands psql an address that may be empty: it would open another database', () => {
  for (const { path, text } of readDocuments()) {
    assert.doesNotMatch(text, /psql[^\n]*\$\((npx )?tapekeep url/, path);
  }
});

test('the package carries every file that its documents link to', () => {
  // Its scripts would build dist/ anew below other tests.
  const pack = ['pack', '--dry-run', '--json', '--ignore-scripts'];
  const { stdout } = spawnSync('npm', pack, { cwd: repositoryPath, encoding: 'utf8' });
  const [{ files }] = JSON.parse(stdout) as [{ readonly files: { readonly path: string }[] }];
  const packed = new Set(files.map(({ path }) => path));
  const isPacked = (path: string) =>
    packed.has(path) || files.some((one) => one.path.startsWith(`${path.replace(/\/$/, '')}/`));
  const documents = readDocuments().filter(({ path }) => isPacked(path));
  assert.ok(documents.length >= 30);
  assert.deepEqual(
    documents.flatMap((one) =>
      brokenLinks(one, isPacked).map((target) => `${one.path}: ${target}`),
    ),
    [],
  );
});

test('what the commands of the documents write into the clone is ignored, also by the format check', () => {
  const written = readDocuments()
    .filter(({ path }) => !path.startsWith('docs/reference/'))
    .flatMap(({ text }) => [...text.matchAll(/(?:--out|--dir| >) ([a-z][\w./]*)/g)])
    .map(([, path = '']) => path);
  assert.ok(written.length >= 7, written.join());
  const named = [...new Set(written)].flatMap((path) =>
    path.includes('.') ? [path, `${path}.manifest.json`] : [`${path}/x.manifest.json`, `${path}/x`],
  );
  // What a page lets its reader save, pack or write in another form.
  const paths = [...named, 'try.mts', 'tapekeep-0.1.0.tgz', 'data/again/x', 'my-exchange/x'];
  const { stdout, status } = spawnSync('git', ['check-ignore', '--no-index', ...paths], {
    cwd: repositoryPath,
    encoding: 'utf8',
  });
  assert.equal(status, 0);
  assert.deepEqual(stdout.trim().split('\n'), paths);
});

test('the index of helpers names each of them, and none that is not there', () => {
  const folder = join(repositoryPath, 'test', 'support');
  const helpers = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => path.endsWith('.ts') && !path.endsWith('-child.ts'));
  const index = readFileSync(join(folder, 'README.md'), 'utf8');
  const named = Array.from(index.matchAll(/`([\w/-]+\.ts)`/g), ([, path = '']) => path);
  assert.deepEqual(named.sort(), helpers.sort());
});
