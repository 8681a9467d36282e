import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

/** Bundles the pages into `dist/console/assets`: what is served, beside each file its gzip, and the licences. */

const source = fileURLToPath(new URL('.', import.meta.url));
const target = fileURLToPath(new URL('../../../dist/console/assets/', import.meta.url));

rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
const { outputFiles, metafile } = await build({
  entryPoints: ['app.ts', 'login.ts', 'app.css'].map((name) => join(source, name)),
  absWorkingDir: source,
  outdir: target,
  ...{ bundle: true, minify: true, splitting: true, format: 'esm', target: 'es2023' },
  ...{ charset: 'utf8', legalComments: 'none', metafile: true, write: false },
  logLevel: 'warning',
});

/** Licences of the packages whose code is in the bundles. */
function licences() {
  const folders = Object.keys(metafile.inputs).flatMap(
    (path) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? [],
  );
  return [...new Set(folders)].sort().map((folder) => {
    const { name, version } = JSON.parse(
      readFileSync(join(source, folder, 'package.json'), 'utf8'),
    );
    return `${name} ${version}\n\n${readFileSync(join(source, folder, 'LICENSE'), 'utf8').trim()}\n`;
  });
}

const files = [
  ...outputFiles.map(({ path, contents }) => [path, contents]),
  ...['index.html', 'login.html', 'icon.svg'].map((name) => [
    join(target, name),
    readFileSync(join(source, name)),
  ]),
  [join(target, 'LICENSES.txt'), Buffer.from(licences().join(`\n${'-'.repeat(72)}\n\n`))],
];
for (const [path, contents] of files) {
  writeFileSync(path, contents);
  writeFileSync(`${path}.gz`, gzipSync(contents, { level: 9 }));
}
