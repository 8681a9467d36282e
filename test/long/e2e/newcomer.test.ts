import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { STATUS } from '../../../src/console/status-document.js';
import { STREAM_KINDS } from '../../../src/model/series.js';
import { blocksOf, readDocument } from '../../support/documents/documents.js';
import { runSql } from '../../support/postgres/postgres.js';
import { makeTempDir } from '../../support/postgres/postgres-server.js';
import { runCommand } from '../../support/programs/commands.js';
import { Program, startSandbox } from '../../support/programs/program.js';
import { repositoryPath } from '../../support/repository/repository.js';

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

/** Metrics that are there before the first round of sealing. */
const SIZES = [
  'database_bytes',
  'disk_free_bytes{directory="data"}',
  'build_info{.*}',
  'partitions{table="trade",state="hot"}',
];

test('without a setting it collects all five streams, stops cleanly, and goes on later', async (t) => {
  const cwd = await emptyFolder(t);
  const daemon = run(t, cwd, ...START);
  const kinds = ['trades', 'depth', 'tickers', 'candles', 'states'];
  const url = await daemon.page();
  await daemon.until(async () => {
    const response = await fetch(new URL('/readyz', url));
    return response.ok;
  });
  const metrics = await (await fetch(new URL('/metrics', url))).text();
  assert.match(metrics, /^tapekeep_rows_total\{.*outcome="stored".*\} \d+$/m);
  await daemon.until(async () => {
    const { streams } = (await status(cwd)).archive;
    return kinds.every(
      (kind) => streams.filter((one) => one.kind === kind && one.rows > 0).length >= 3,
    );
  });
  await daemon.until(async () => {
    const page = await (await fetch(new URL('/metrics', url))).text();
    return SIZES.every((name) => new RegExp(`^tapekeep_${name} [1-9]`, 'm').test(page));
  });
  assert.deepEqual(await otherWords(cwd, url), [], 'one word for a kind everywhere');
  // What no market's history has is said once for all of them.
  const never =
    /^Before the history of the exchange, not counted as missing: .*candles 1m of BTC_USDT, ETH_BTC, .* See --all\.$/m;
  await daemon.until(async () => {
    const { out } = await runCommand(['gaps'], { TAPEKEEP_DATA_DIR: join(cwd, 'data') });
    return never.test(out);
  });
  const before = await status(cwd);
  assert.equal(before.isSandbox, true);
  const served = STATUS.parse(await (await fetch(new URL('/status?worst=1', url))).json());
  assert.equal(served.isSandbox, true);
  assert.equal(served.exchange, before.exchange);
  assert.deepEqual(served.daemon?.rows.map(({ kind }) => kind).includes('candles'), true);
  assert.ok((served.archive?.streams.length ?? 0) <= 1);
  const misspelt = await fetch(new URL('/status?market=BTC_USD', url));
  assert.equal(misspelt.status, 400);
  assert.match(await misspelt.text(), /did you mean BTC_USDT\?/);
  const some = await status(cwd, '--market', 'BTC_USDT', '--kind', 'candles', '--worst', '1');
  const [candles] = some.archive.streams;
  assert.deepEqual([candles?.market, candles?.kind], ['BTC_USDT', 'candles']);
  const shown = await runCommand(['status', '--summary'], { TAPEKEEP_DATA_DIR: join(cwd, 'data') });
  assert.match(
    shown.out,
    /^Archive of sandbox \(sandbox\): \d+ markets, [\d,]+ rows(; gaps are open in .*)?\nkind +streams/,
  );
  assert.doesNotMatch(shown.out, /Not collecting/);

  daemon.kill('SIGTERM');
  assert.deepEqual(await daemon.ended(), { code: 0, signal: null });
  const summary = daemon.text('stdout');
  for (const kind of kinds) {
    assert.match(summary, new RegExp(`^${kind} +(all|[3-9]) +[1-9]`, 'm'), 'from three markets');
  }

  // The time of a run is that of collecting, however long its server and its past take to be made.
  const again = run(t, cwd, ...START, '--for', '1s');
  assert.equal((await again.ended()).code, 0, again.dump());
  const ended = run(t, cwd, 'status', '--summary');
  assert.equal((await ended.ended()).code, 0);
  assert.equal(ended.lines.stdout.at(-1), 'Not collecting: no daemon runs.');
  const after = await status(cwd);
  const rows = ({ archive }: Awaited<ReturnType<typeof status>>) =>
    archive.streams.filter(({ kind }) => kind === 'trades').reduce((sum, one) => sum + one.rows, 0);
  assert.ok(rows(after) >= rows(before), 'what was stored is still there');
  const query = run(t, cwd, 'query', '--json', 'select count(*)::int as trades from trades');
  assert.equal((await query.ended()).code, 0);
  const [row] = query.lines.stdout.map((line) => JSON.parse(line) as { trades: number });
  assert.ok((row?.trades ?? 0) >= rows(after));

  // A stream that is switched off lags behind, and no gap says so until it is collected again.
  const data = { TAPEKEEP_DATA_DIR: join(cwd, 'data') };
  const env = { ...QUIET_PORT, ...data, TAPEKEEP_STREAMS_DEPTH_ENABLED: 'false' };
  const without = new Program(START, { cwd, env });
  t.after(() => without.dispose());
  const address = await without.page();
  await without.until(async () => (await fetch(new URL('/readyz', address))).ok);
  assert.match(
    without.text('stderr'),
    /"code":"streams_left_out","msg":"The settings switch off depth: /,
  );
  const shownAt = async (path: string) => (await fetch(new URL(path, address))).text();
  const off = 'The settings switch off depth: a daemon with these settings does not collect that';
  assert.match(
    await shownAt('/readyz'),
    new RegExp(`"name":"settings","ok":true,"detail":"${off}`),
  );
  assert.match(await shownAt('/status'), new RegExp(`"leftOut":"${off}`));
  without.kill('SIGTERM');
  assert.deepEqual(await without.ended(), { code: 0, signal: null }, without.dump());
  const known = await runCommand(['status', '--json'], env);
  assert.match(STATUS.parse(JSON.parse(known.out)).leftOut ?? '', new RegExp(off));
  assert.equal((await status(cwd)).leftOut, null);
  assert.doesNotMatch(again.text('stderr'), /streams_left_out/);
  const gaps = await runCommand(['gaps', '--kind', 'depth'], env);
  assert.match(
    gaps.out,
    /^The settings switch off depth: a daemon with these settings does not collect that/m,
  );
});

test('a first start for a second collects for a second, however long its server takes to be made', async (t) => {
  const cwd = await emptyFolder(t);
  const first = run(t, cwd, ...START, '--for', '1s');
  assert.equal((await first.ended()).code, 0, first.dump());
  assert.ok((await status(cwd)).archive.markets > 0);
});

test('the way of the README to an exchange of one’s own begins an archive of its own', async (t) => {
  const cwd = await emptyFolder(t);
  const first = run(t, cwd, 'start', '--for', '5s');
  assert.equal((await first.ended()).code, 0, first.dump());
  const { program: sandbox, ready } = await startSandbox(['--seed', '8', '--run', 'real']);
  t.after(() => sandbox.dispose());
  const { text } = readDocument('README.md');
  const block = blocksOf(text, 'sh').find((one) => one.includes('TAPEKEEP_EXCHANGE_URL=')) ?? '';
  const set = Object.fromEntries(
    Array.from(block.matchAll(/^export (\w+)=(\S+)/gm), ([, name = '', value = '']) => [
      name,
      value,
    ]),
  );
  const unset = /`unset ([\w ]+)`/.exec(text)?.[1]?.split(' ') ?? [];
  assert.deepEqual([...unset].sort(), Object.keys(set).sort());
  // Without the database, as the text below the block has it.
  const { TAPEKEEP_DATABASE_URL: _database, ...settings } = set;
  const own = new Program(['start', '--for', '5s'], {
    cwd,
    env: {
      ...settings,
      ...QUIET_PORT,
      TAPEKEEP_EXCHANGE_URL: ready.url,
      TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
    },
  });
  t.after(() => own.dispose());
  assert.equal((await own.ended()).code, 0, own.dump());
});

test('npm start without the development packages says that they are missing, and what to do', async (t) => {
  const cwd = await emptyFolder(t);
  await copyFile(join(repositoryPath, 'package.json'), join(cwd, 'package.json'));
  const { status: code, stderr } = spawnSync('npm', ['start'], { cwd, encoding: 'utf8' });
  assert.equal(code, 1, stderr);
  assert.match(stderr, /without the development packages: npm ci .*npx tapekeep start/);
});

/** Words for a kind that are none of the registry, by the surface that shows them. */
async function otherWords(cwd: string, url: string): Promise<string[]> {
  const env = { TAPEKEEP_DATA_DIR: join(cwd, 'data') };
  const answer = async (...args: readonly string[]) => (await runCommand(args, env)).out;
  const page = await (await fetch(new URL('/metrics', url))).text();
  const served = await (await fetch(new URL('/status', url))).text();
  const kindsIn = (text: string) =>
    [...text.matchAll(/"kind": *"([^"]*)"/g)].map(([, word]) => word);
  const address = (await answer('url')).trim();
  const streams = await runSql<{ kind: string }>(address, 'select distinct kind from stream');
  const refused = await runCommand(['export', '--kind', 'nothing'], env);
  const [, offered = ''] = /Allowed: (.*)\./.exec(refused.err) ?? [];
  const surfaces = {
    metrics: [...page.matchAll(/[{,]stream="([^"]*)"/g)].map(([, word]) => word),
    served: kindsIn(served),
    status: kindsIn(await answer('status', '--json')),
    gaps: kindsIn(await answer('gaps', '--json')),
    tables: streams.map(({ kind }) => kind),
    query: kindsIn(await answer('query', '--json', 'select distinct kind from coverage')),
    export: offered.split(', '),
  };
  const known = new Set<string | undefined>(STREAM_KINDS);
  return Object.entries(surfaces).flatMap(([surface, words]) => {
    const isSilent = words.length === 0 && surface !== 'gaps';
    const others = [...new Set(words)].filter((word) => !known.has(word));
    return [
      ...(isSilent ? [`${surface}: nothing`] : []),
      ...others.map((word) => `${surface}: ${word}`),
    ];
  });
}

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
