import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { makeDatabase } from '../support/postgres/postgres.js';
import { Program } from '../support/programs/program.js';

/** Output that nobody reads any more costs the daemon its words, and nothing else. */

const LOG = ['--log-level', 'debug', '--log-format', 'json'];

async function startDaemon(t: TestContext) {
  const env = { TAPEKEEP_DATABASE_URL: await makeDatabase('empty'), TAPEKEEP_HTTP_PORT: '0' };
  const daemon = new Program([...LOG, 'start'], { env });
  t.after(() => daemon.dispose());
  const line = await daemon.line((text) => text.startsWith('  status '));
  await daemon.line((text) => text.startsWith('  Stop with'));
  return { daemon, status: line.replace('  status    ', '') };
}

const read = async (url: string) => {
  const answer = await fetch(url);
  return { status: answer.status, text: await answer.text() };
};

const commitsOf = (metrics: string) => Number(/^tapekeep_commits_total (\d+)/m.exec(metrics)?.[1]);

/** Resolves when more was committed than at the time of the call. */
async function commitsGoOn(daemon: Program, status: string): Promise<void> {
  const before = commitsOf((await read(`${status}metrics`)).text);
  await daemon.until(async () => commitsOf((await read(`${status}metrics`)).text) > before);
}

test('a closed standard output: collecting goes on without the summary', async (t) => {
  const { daemon, status } = await startDaemon(t);
  daemon.closeOutput('stdout');
  await daemon.line((text) => text.includes('"output_closed"'));
  await commitsGoOn(daemon, status);
  daemon.kill('SIGTERM');
  assert.deepEqual(await daemon.ended(), { code: 0, signal: null }, daemon.dump());
  assert.match(daemon.text('stderr'), /"reason":"SIGTERM"/);
});

test('a closed log: collecting goes on, and the metrics say that the log is gone', async (t) => {
  const { daemon, status } = await startDaemon(t);
  daemon.closeOutput('stderr');
  // Only the summary tells the time here: a line every ten seconds.
  await daemon.until(async () =>
    (await read(`${status}metrics`)).text.includes('tapekeep_warnings_total{code="log_closed"} 1'),
  );
  await commitsGoOn(daemon, status);
  assert.equal((await read(`${status}readyz`)).status, 200);
  daemon.kill('SIGTERM');
  assert.deepEqual(await daemon.ended(), { code: 0, signal: null }, daemon.dump());
  assert.match(daemon.text('stdout'), /^Ran /m);
});
