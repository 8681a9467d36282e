import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { systemClock } from '../../../src/kernel/clock.js';
import { blocksOf, readDocument, readDocuments } from '../../support/documents/documents.js';
import { temporaryFolder } from '../../support/exchanges/tape-exchange.js';
import { Program } from '../../support/programs/program.js';
import { repositoryPath } from '../../support/repository/repository.js';

/** The commands of the pages on the sandbox and the api, run as they stand there; library examples compiled. */
const SANDBOX = readDocument('docs/guides/sandbox.md').text;
const API = readDocument('docs/guides/api.md').text;
const MAIN = join(repositoryPath, 'dist/cli/main.js');

interface Ready {
  readonly url: string;
  readonly keys: ReadonlyArray<{ readonly key: string; readonly secret: string }>;
}

interface Ended {
  readonly code: number;
  readonly output: string;
}

function execute(
  file: string,
  args: readonly string[],
  cwd: string,
  env: Record<string, string> = {},
): Promise<Ended> {
  return new Promise((resolve) => {
    const options = { cwd, env: { PATH: process.env.PATH, ...env } };
    execFile(file, args, options, (error, stdout, stderr) => {
      resolve({ code: Number(error?.code ?? 0), output: `${stdout}\n${stderr}` });
    });
  });
}

/** Starts the sandbox of one line, on a free port. */
async function startLine(t: TestContext, line: string, cwd: string): Promise<Ready> {
  const typed = line.replace(/\s+#.*$/, '').replace('--port 8080', '--port 0');
  const words = typed.split(/\s+/);
  const program = new Program([...words.slice(2), '--json'], { cwd });
  t.after(() => program.dispose());
  return JSON.parse(await program.line((text) => text.startsWith('{"ready"'))) as Ready;
}

test('the shell blocks on the sandbox and the api do what they say', async (t) => {
  const cwd = await temporaryFolder(t);
  const start = systemClock.wallMs();
  const rows = Array.from({ length: 90 }, (_, at) => `${at + 1},${start + at * 1000},100.5,1,buy`);
  await writeFile(join(cwd, 'trades.csv'), `id,time_ms,price,amount,side\n${rows.join('\n')}\n`);
  const shell = [SANDBOX, API].flatMap((text) => blocksOf(text, 'sh'));
  assert.ok(shell.length >= 5);
  let sandbox: Ready | undefined;
  let ran = 0;
  for (const block of shell) {
    const lines = block
      .replaceAll(/\\\n\s*/g, '')
      .trim()
      .split('\n');
    const script: string[] = [];
    for (const line of lines) {
      if (/^npx tapekeep sandbox --/.test(line)) sandbox = await startLine(t, line, cwd);
      else script.push(line);
    }
    if (script.length === 0) continue;
    assert.ok(sandbox !== undefined, 'the first block starts one');
    const { url, keys } = sandbox;
    const asTyped = script
      .join('\n')
      .replaceAll('127.0.0.1:8080', new URL(url).host)
      .replace('TAPEKEEP_ACCOUNT_KEY=...', `TAPEKEEP_ACCOUNT_KEY=${keys[0]?.key}`)
      .replace('TAPEKEEP_ACCOUNT_SECRET=...', `TAPEKEEP_ACCOUNT_SECRET=${keys[0]?.secret}`)
      // There is no terminal to confirm it on.
      .replace(/(api order-new .*)$/m, '$1 --yes');
    const npx = 'npx() { shift; "$NODE" "$MAIN" "$@"; }';
    const env = { NODE: process.execPath, MAIN, TAPEKEEP_EXCHANGE_URL: url };
    // A refusal of the exchange is an answer to curl, so its status is asked for.
    const bash = `set -eu\n${npx}\ncurl() { command curl -fsS "$@"; }\n${asTyped}\n`;
    const { code, output } = await execute('bash', ['--norc', '-c', bash], cwd, env);
    assert.equal(code, 0, `${asTyped}\n${output}`);
    ran += script.length;
  }
  assert.ok(ran >= 15, `${ran} lines ran`);
  assert.match(readFileSync(join(cwd, 'truth.ndjson'), 'utf8'), /^(\{"id":.*\}\n)*$/);
});

test('library examples compile against the built package', async (t) => {
  const examples = readDocuments().flatMap(({ text }) => blocksOf(text, 'ts'));
  assert.ok(examples.length >= 3);
  const cwd = await temporaryFolder(t);
  await mkdir(join(cwd, 'node_modules'));
  await symlink(repositoryPath, join(cwd, 'node_modules', 'tapekeep'), 'dir');
  const files = examples.map((_, at) => `example-${at}.mts`);
  for (const [at, file] of files.entries()) await writeFile(join(cwd, file), examples[at] ?? '');
  const tsc = join(repositoryPath, 'node_modules', 'typescript', 'bin', 'tsc');
  const options = ['--noEmit', '--strict', '--skipLibCheck', '--ignoreConfig'];
  const target = ['--module', 'nodenext', '--target', 'es2023'];
  const types = ['--typeRoots', join(repositoryPath, 'node_modules/@types'), '--types', 'node'];
  const args = [tsc, ...options, ...target, ...types, ...files];
  const { code, output } = await execute(process.execPath, args, cwd);
  assert.equal(code, 0, output);
});
