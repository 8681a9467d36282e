import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { makeDatabase } from '../../support/postgres/postgres.js';
import { Program } from '../../support/programs/program.js';

/** Output that nobody reads any more costs the daemon its words, and nothing else. */

async function startDaemon(t: TestContext, level = 'debug', settings = {}) {
  const env = { TAPEKEEP_DATABASE_URL: await makeDatabase('empty'), TAPEKEEP_HTTP_PORT: '0' };
  const args = ['--log-level', level, '--log-format', 'json', 'start'];
  const daemon = new Program(args, { env: { ...env, ...settings } });
  t.after(() => daemon.dispose());
  const page = await daemon.page();
  await daemon.line((text) => text.startsWith('  Stop with'));
  return { daemon, page };
}

const read = async (url: string) => {
  const answer = await fetch(url);
  return { status: answer.status, text: await answer.text() };
};

const commitsOf = (metrics: string) => Number(/^tapekeep_commits_total (\d+)/m.exec(metrics)?.[1]);

/** Resolves when more was committed than at the time of the call. */
async function commitsGoOn(daemon: Program, page: string): Promise<void> {
  const before = commitsOf((await read(`${page}/metrics`)).text);
  await daemon.until(async () => commitsOf((await read(`${page}/metrics`)).text) > before);
}

test('a closed standard output: collecting continues without the summary', async (t) => {
  const { daemon, page } = await startDaemon(t);
  daemon.closeOutput('stdout');
  await daemon.line((text) => text.includes('"output_closed"'));
  await commitsGoOn(daemon, page);
  daemon.kill('SIGTERM');
  assert.deepEqual(await daemon.ended(), { code: 0, signal: null }, daemon.dump());
  assert.match(daemon.text('stderr'), /"reason":"SIGTERM"/);
});

test('a closed log: collecting goes on, and the metrics say that the log is gone', async (t) => {
  const { daemon, page } = await startDaemon(t);
  daemon.closeOutput('stderr');
  // Only the summary tells the time here: a line every ten seconds.
  await daemon.until(async () =>
    (await read(`${page}/metrics`)).text.includes('tapekeep_warnings_total{code="log_closed"} 1'),
  );
  await commitsGoOn(daemon, page);
  assert.equal((await read(`${page}/readyz`)).status, 200);
  daemon.kill('SIGTERM');
  assert.deepEqual(await daemon.ended(), { code: 0, signal: null }, daemon.dump());
  assert.match(daemon.text('stdout'), /^Collected for /m);
});

const droppedOf = (metrics: string) =>
  Number(/^tapekeep_output_lines_dropped_total\{output="stderr"\} (\d+)/m.exec(metrics)?.[1] ?? 0);

test('a log that is read no further: what waits is bounded, and all else goes on', async (t) => {
  const { daemon, page } = await startDaemon(t, 'trace', {
    TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '200',
    TAPEKEEP_STREAMS_TRADES_SCHEDULE: '* * * * * *',
  });
  daemon.holdOutput('stderr', true);
  // The summary on standard output tells the time: a line every ten seconds.
  await daemon.until(async () => droppedOf((await read(`${page}/metrics`)).text) > 0);
  await commitsGoOn(daemon, page);
  assert.equal((await read(`${page}/healthz`)).status, 200);
  assert.equal((await read(`${page}/readyz`)).status, 200);
  const dropped = droppedOf((await read(`${page}/metrics`)).text);
  daemon.holdOutput('stderr', false);
  const told = await daemon.line((text) => text.includes('stderr was not read for a while'));
  assert.ok(JSON.parse(told).droppedLines >= dropped, told);
  // Held again, both: the end waits for no reader.
  for (const stream of ['stdout', 'stderr'] as const) daemon.holdOutput(stream, true);
  const exited = daemon.exited();
  daemon.kill('SIGTERM');
  assert.deepEqual(await exited, { code: 0, signal: null });
});
