import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { systemClock } from '../../src/kernel/clock.js';
import { shownKind } from '../../src/model/kinds.js';
import { STATUS } from '../../src/status/document.js';
import { makeTempDir } from '../support/postgres/postgres-server.js';
import { runCommand } from '../support/programs/commands.js';
import { Program } from '../support/programs/program.js';

/** What a newcomer does: start without any setting, look, stop, and start again. */

async function emptyFolder(t: TestContext): Promise<string> {
  const folder = await makeTempDir();
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

const START = ['--log-level', 'debug', '--log-format', 'json', 'start'];
const QUIET_PORT = { TAPEKEEP_HTTP_PORT: '0' };

function run(t: TestContext, cwd: string, ...args: string[]): Program {
  const program = new Program(args, { cwd, env: QUIET_PORT });
  t.after(() => program.dispose());
  return program;
}

/** Asks the archive as a person would, while the daemon runs. */
async function status(cwd: string, ...options: string[]) {
  const env = { TAPEKEEP_DATA_DIR: join(cwd, 'data') };
  const { code, out, err } = await runCommand(['status', '--json', ...options], env);
  assert.equal(code, 0, out + err);
  const document = STATUS.parse(JSON.parse(out));
  assert.ok(document.archive !== null);
  return { ...document, archive: document.archive };
}

test('without a setting it collects all five streams, stops cleanly, and goes on later', async (t) => {
  const cwd = await emptyFolder(t);
  const startedMs = systemClock.monotonicMs();
  const daemon = run(t, cwd, ...START);
  const kinds = ['trades', 'depth', 'ticker', 'kline', 'state'];
  const statusUrl = await daemon.line((line) => line.includes('  status '));
  const url = statusUrl.trim().split(/\s+/)[1] ?? '';
  await daemon.until(async () => {
    const response = await fetch(new URL('/readyz', url));
    return response.ok;
  });
  const readyAfterMs = systemClock.monotonicMs() - startedMs;
  const metrics = await (await fetch(new URL('/metrics', url))).text();
  assert.match(metrics, /^tapekeep_rows_total\{.*outcome="stored".*\} \d+$/m);
  assert.match(await (await fetch(url)).text(), /<table/);
  await daemon.until(async () => {
    const { streams } = (await status(cwd)).archive;
    return kinds.every(
      (kind) =>
        streams.filter((one) => one.kind === shownKind(kind) && one.rows > 0).length >=
        (kind === 'ticker' ? 1 : 3),
    );
  });
  await daemon.until(async () => {
    const page = await (await fetch(new URL('/metrics', url))).text();
    return ['database_bytes', 'disk_free_bytes{directory="data"}', 'build_info{.*}'].every((name) =>
      new RegExp(`^tapekeep_${name} [1-9]`, 'm').test(page),
    );
  });
  const before = await status(cwd);
  assert.equal(before.isSandbox, true);
  const served = STATUS.parse(await (await fetch(new URL('/status?worst=1', url))).json());
  assert.equal(served.isSandbox, true);
  assert.equal(served.exchange, before.exchange);
  assert.deepEqual(served.daemon?.rows.map(({ kind }) => kind).includes('candles'), true);
  assert.ok((served.archive?.streams.length ?? 0) <= 1);
  const some = await status(cwd, '--market', 'BTC_USDT', '--kind', 'candles', '--worst', '1');
  const [candles] = some.archive.streams;
  assert.deepEqual([candles?.market, candles?.kind], ['BTC_USDT', 'candles']);
  const shown = await runCommand(['status', '--summary'], { TAPEKEEP_DATA_DIR: join(cwd, 'data') });
  assert.match(shown.out, /^Archive of sandbox \(sandbox\)\nAll: \d+ markets, \d+ streams/);

  daemon.kill('SIGTERM');
  assert.deepEqual(await daemon.ended(), { code: 0, signal: null });
  const summary = daemon.text('stdout');
  for (const kind of kinds) {
    assert.match(summary, new RegExp(`^${kind} +(all|[3-9]) +[1-9]`, 'm'), 'from three markets');
  }

  // Long enough on a machine of any speed: there is less to be made than the first time.
  const again = run(t, cwd, ...START, '--for', `${Math.ceil(readyAfterMs / 400)}s`);
  assert.equal((await again.ended()).code, 0, again.dump());
  const after = await status(cwd);
  const rows = ({ archive }: Awaited<ReturnType<typeof status>>) =>
    archive.streams.filter(({ kind }) => kind === 'trades').reduce((sum, one) => sum + one.rows, 0);
  assert.ok(rows(after) >= rows(before), 'what was stored is still there');
  const query = run(t, cwd, 'query', '--json', 'select count(*)::int as trades from trade');
  assert.equal((await query.ended()).code, 0);
  const [row] = query.lines.stdout.map((line) => JSON.parse(line) as { trades: number });
  assert.ok((row?.trades ?? 0) >= rows(after));
});

test('killed, it leaves a server behind that the next start takes over', async (t) => {
  const cwd = await emptyFolder(t);
  const first = run(t, cwd, ...START);
  await first.line((line) => line.includes('"committed"'));
  first.kill('SIGKILL');
  await first.ended();
  const second = run(t, cwd, ...START);
  await second.line((line) => line.includes('"committed"'));
  second.kill('SIGINT');
  assert.deepEqual(await second.ended(), { code: 0, signal: null });
});
