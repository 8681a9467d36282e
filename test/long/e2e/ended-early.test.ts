import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm, watch } from 'node:fs/promises';
import { join } from 'node:path';
import test, { after, before, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { systemClock } from '../../../src/kernel/clock.js';
import { migrate, startEmbeddedPostgres } from '../../../src/store/index.js';
import { startHttpStub } from '../../support/exchanges/stub-server.js';
import { makeTempDir, quietStoreEvents } from '../../support/postgres/postgres-server.js';
import { Program } from '../../support/programs/program.js';
import { repositoryPath } from '../../support/repository/repository.js';

/** A command that is ended before it is done leaves no server behind, by whatever it is ended. */

const MAIN = join(repositoryPath, 'dist/cli/main.js');
const DEBUG = ['--log-level', 'debug', '--log-format', 'json'];
const LONG = 'select count(*) from range(1000000000000)';
const ROWS = 'select range from range(300000), (select count(*) from markets)';

let folder = '';

before(async () => {
  folder = await makeTempDir();
  const telemetry = quietStoreEvents();
  const server = await startEmbeddedPostgres({ dataDir: folder, clock: systemClock, telemetry });
  await migrate({ databaseUrl: server.url });
  await server.stop();
});

after(() => rm(folder, { recursive: true, force: true }));

/** The process id of a server that runs in the folder. */
async function serverId(): Promise<number | undefined> {
  const text = await readFile(join(folder, 'postgres/postmaster.pid'), 'utf8').catch(() => '');
  const pid = Number(text.split('\n')[0]);
  try {
    return pid > 0 && process.kill(pid, 0) ? pid : undefined;
  } catch {
    return undefined;
  }
}

async function assertNoServer(said: string): Promise<void> {
  const pid = await serverId();
  if (pid === undefined) return;
  process.kill(pid, 'SIGQUIT');
  assert.fail(`the server was left running\n${said}`);
}

function start(t: TestContext, ...args: string[]): Program {
  const program = new Program([...DEBUG, ...args], { env: { TAPEKEEP_DATA_DIR: folder } });
  t.after(() => program.dispose());
  return program;
}

const ENDINGS: ReadonlyArray<{
  readonly args: readonly string[];
  readonly phase: 'starting' | 'ready';
  readonly signal: NodeJS.Signals;
}> = [
  { args: ['query', LONG], phase: 'ready', signal: 'SIGINT' },
  { args: ['status'], phase: 'starting', signal: 'SIGINT' },
  { args: ['gaps'], phase: 'starting', signal: 'SIGTERM' },
];

for (const { args, phase, signal } of ENDINGS) {
  test(`${args[0]}: ${signal} while the server is ${phase}`, async (t) => {
    const program = start(t, ...args);
    await program.line((line) => line.includes(`embedded Postgres: ${phase}`));
    program.kill(signal);
    assert.deepEqual(await program.ended(), { code: 130, signal: null }, program.dump());
    assert.doesNotMatch(program.text('stderr'), /unexpected/);
    await assertNoServer(program.dump());
  });
}

test('an example: SIGINT while the server is starting', async (t) => {
  const watching = new AbortController();
  const changes = watch(join(folder, 'postgres'), watching);
  const args = ['--import', 'tsx', 'docs/examples/run.ts', 'moving-average', '--data-dir', folder];
  const span = ['--market', 'BTC_USDT', '--from', '2026-01-01', '--to', '2026-01-02'];
  const child = spawn(process.execPath, [...args, ...span], { cwd: repositoryPath });
  t.after(() => child.kill('SIGKILL'));
  const ended = once(child, 'close');
  for await (const { filename } of changes) if (filename === 'postmaster.pid') break;
  child.kill('SIGINT');
  assert.deepEqual(await ended, [1, null]);
  await assertNoServer('');
});

const READERS = [
  { name: 'query', output: '| head -2' },
  { name: 'query with its messages', output: '2>&1 | head -2' },
];

async function inShell(output: string) {
  const script = `"$NODE" "$MAIN" query "$SQL" --format csv ${output}; echo "code \${PIPESTATUS[0]}"`;
  const env = { PATH: process.env.PATH, NODE: process.execPath, MAIN, SQL: ROWS };
  return await promisify(execFile)('bash', ['--norc', '-c', script], {
    env: { ...env, TAPEKEEP_DATA_DIR: folder },
  });
}

for (const { name, output } of READERS) {
  test(`${name}: a reader that has seen enough is no failure`, async () => {
    const { stdout, stderr } = await inShell(output);
    assert.match(stdout, /^range\r\n0\r\ncode 0\n$/);
    assert.equal(stderr, '');
    await assertNoServer(stdout);
  });
}

test('query: output that cannot be written is one', async () => {
  const { stdout, stderr } = await inShell('> /dev/full');
  assert.match(stdout, /^code 1\n$/);
  assert.match(stderr, /^tapekeep: the output cannot be written \(.*ENOSPC.*\)\n$/);
  await assertNoServer(stderr);
});

test('a signal before the command is loaded, or while it holds nothing, ends it with 130', async (t) => {
  const atOnce = `data:text/javascript,process.on('newListener', (name) => {
    if (name === 'SIGTERM') process.kill(process.pid, name);
  });`;
  const args = ['--import', atOnce.replaceAll(/\s+/g, ' '), MAIN, '--help'];
  const [early] = (await once(spawn(process.execPath, args), 'exit')) as [number | null];
  assert.equal(early, 130);

  const stub = await startHttpStub(t, () => undefined);
  const asking = start(t, 'api', 'markets', '--url', stub.baseUrl);
  await stub.requests(1);
  asking.kill('SIGTERM');
  assert.deepEqual(await asking.ended(), { code: 130, signal: null });
});
