import assert from 'node:assert/strict';
import { rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import test, { after } from 'node:test';
import { SETTINGS } from '../../../src/console/api/documents.js';
import { makeDatabase, runSql } from '../../support/postgres/postgres.js';
import { loginAs } from '../../support/postgres/postgres-logins.js';
import { makeTempDir, withDatabase } from '../../support/postgres/postgres-server.js';
import { TransactionPooler } from '../../support/postgres/transaction-pooler.js';
import { Program } from '../../support/programs/program.js';
import { mountSmallDisk } from '../../support/small-disk.js';

const folder = await makeTempDir();
const programs: Program[] = [];
after(async () => {
  for (const program of programs) await program.dispose();
  await rm(folder, { recursive: true, force: true });
});

function run(args: readonly string[], env: Readonly<Record<string, string>> = {}): Program {
  const program = new Program(args, {
    cwd: folder,
    env: { TAPEKEEP_HTTP_PORT: '0', TAPEKEEP_DATA_DIR: join(folder, 'data'), ...env },
  });
  programs.push(program);
  return program;
}

async function doctor(env: Readonly<Record<string, string>>) {
  const program = run(['doctor', '--json'], env);
  const { code } = await program.ended();
  assert.equal(program.text('stderr'), '');
  const { findings } = JSON.parse(program.text('stdout')) as {
    findings: Record<'what' | 'state' | 'found' | 'advice', string>[];
  };
  const states = findings.map(({ what, state, found }) => `${what}: ${state}: ${found}`);
  return { code, states, advice: findings.map(({ advice }) => advice ?? '') };
}

test('the doctor names a pooler of transactions and a database that is not UTF8', async (t) => {
  const database = await makeDatabase();
  const [pooler, pooled] = await TransactionPooler.start(database, 2, 'newest');
  t.after(() => pooler.stop());
  const behind = await doctor({ TAPEKEEP_DATABASE_URL: pooled });
  assert.equal(behind.code, 1);
  assert.match(
    behind.states.join('\n'),
    /^database: wrong: .*pooler in transaction or statement mode/m,
  );
  const name = `${new URL(database).pathname.slice(1)}_ascii`;
  await runSql(
    database,
    `CREATE DATABASE ${name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0`,
  );
  t.after(() => runSql(database, `DROP DATABASE ${name} WITH (FORCE)`));
  const url = withDatabase(database, name);
  const other = await doctor({ TAPEKEEP_DATABASE_URL: url });
  assert.equal(other.code, 1);
  assert.match(
    other.states.join('\n'),
    /^database: wrong: .*encoding SQL_ASCII.*TEMPLATE template0/m,
  );
});

test('the doctor finds nothing wrong where all is right, and warns of what is only odd', async () => {
  const sandbox = run(['sandbox', '--json']);
  const ready = await sandbox.line((line) => line.startsWith('{'));
  const { url, realtimeUrl } = JSON.parse(ready) as { url: string; realtimeUrl: string };
  const env = { TAPEKEEP_EXCHANGE_URL: url, TAPEKEEP_REALTIME_URL: realtimeUrl };
  const { code, states } = await doctor({ ...env, TAPEKEEP_MARKETS: 'BTC_USDT,NOPE' });
  assert.equal(code, 0, states.join('\n'));
  assert.match(
    states.join('\n'),
    /^data folder: (ok: .* GiB free .*\(which is made when it is needed\)|warning: .* GiB free)/,
  );
  const rest = states.slice(1).map((text) => text.replaceAll(/:\d+\b|in \S+ and/g, ''));
  assert.match(rest[0] ?? '', /database: ok: no archive yet/);
  assert.match(rest[1] ?? '', /console: ok: a free port on .* is picked/);
  assert.equal(rest[2], 'notices: ok: sent to no one (alerts.webhook)');
  assert.match(rest[3] ?? '', /exchange: ok: .* answers .*lists \d+ markets/);
  assert.match(rest[5] ?? '', /exchange: warning: it does not list NOPE/);
  assert.match(rest[4] ?? '', /exchange: ok: it speaks the dialect contract .*history/);
  assert.match(rest[6] ?? '', /exchange: ok: .* takes subscriptions/);
  assert.equal(rest[7], 'exchange: ok: its clock and that of this machine agree');
  const none = await doctor({ ...env, TAPEKEEP_MARKETS: 'BTC_UDST' });
  assert.equal(none.code, 1, none.states.join('\n'));
  assert.match(none.states.join('\n'), /exchange: wrong: it does not list BTC_UDST/);
  const path = `${realtimeUrl}/nope`;
  const astray = await doctor({ ...env, TAPEKEEP_REALTIME_URL: path });
  const why = `${path} does not open (Unexpected server response: 404)`;
  assert.ok(astray.states.includes(`exchange: wrong: ${why}`), astray.states.join('\n'));
  const spoken = await doctor({ ...env, TAPEKEEP_EXCHANGE_DIALECT: 'whitebit' });
  assert.match(spoken.states.at(-1) ?? '', /exchange: wrong: .*exchange\.dialect/);
  assert.equal(spoken.advice.at(-1), '');
});

test('an exchange that plays another time is said to, and by how much', async () => {
  const tape = join(folder, 'tape.csv');
  const lines = [1, 2].map((id) => `${id},${Date.UTC(2020, 0, 15) + id * 60_000},100,1,buy`);
  await writeFile(tape, ['id,time_ms,price,amount,side', ...lines, ''].join('\n'));
  const sandbox = run(['sandbox', '--json', '--tape', tape, '--market', 'BTC_USDT']);
  const { url } = JSON.parse(await sandbox.line((line) => line.startsWith('{'))) as { url: string };
  const { code, states } = await doctor({
    TAPEKEEP_EXCHANGE_URL: url,
    TAPEKEEP_STREAMS_STATES_ENABLED: 'false',
  });
  assert.equal(code, 0, states.join('\n'));
  const said =
    /^exchange: ok: it plays a time of its own, at present \d+d(?: \d+h)? behind this machine's$/;
  assert.match(states.at(-1) ?? '', said);

  // What the start refuses: at the same address another one plays now, or what is no sandbox was there.
  for (const identity of ["'sandbox-of-before'", 'NULL']) {
    const databaseUrl = await makeDatabase();
    await runSql(
      databaseUrl,
      `INSERT INTO archive (name, base_url, is_sandbox, identity)
       VALUES ('${new URL(url).host}', '${url}', ${identity !== 'NULL'}, ${identity})`,
    );
    const env = {
      TAPEKEEP_EXCHANGE_URL: url,
      TAPEKEEP_STREAMS_STATES_ENABLED: 'false',
      TAPEKEEP_DATABASE_URL: databaseUrl,
    };
    const other = await doctor(env);
    assert.equal(other.code, 1, other.states.join('\n'));
    const why =
      /(this database is the archive of the .*and cannot take the data of the sandbox .*)/;
    const [, told = ''] = why.exec(other.states.join('\n')) ?? [];
    const start = run(['start', '--for', '5s', '--log-level', 'silent'], env);
    assert.equal((await start.ended()).code, 3);
    assert.equal(start.text('stderr').trim(), `tapekeep: ${told}`);
  }
});

test('a database that a start would migrate keeps nothing from beginning', async () => {
  const url = await makeDatabase('empty');
  const fresh = await doctor({ TAPEKEEP_DATABASE_URL: url });
  assert.equal(fresh.code, 0, fresh.states.join('\n'));
  assert.match(fresh.states.join('\n'), /database: warning: .*no archive yet: .*"tapekeep start"/);
});

test('the doctor says that a daemon writes to the archive, which keeps another from beginning', async () => {
  const url = await makeDatabase();
  const env = { TAPEKEEP_DATABASE_URL: url };
  const away = {
    TAPEKEEP_EXCHANGE_URL: 'http://127.0.0.1:1',
    TAPEKEEP_STREAMS_STATES_ENABLED: 'false',
  };
  const waiting = run(['start'], { ...env, ...away });
  await waiting.line((line) => line.startsWith('  status '));
  const { code, states } = await doctor(env);
  assert.equal(code, 0, states.join('\n'));
  const idle =
    /database: warning: .*: a tapekeep( on .+)? holds it, and collects nothing at present/;
  assert.match(states.join('\n'), idle);
  waiting.kill('SIGTERM');
  await waiting.ended();
  const daemon = run(['start'], env);
  await daemon.until(async () => {
    return /ok: .* a daemon( on .+)? collects into it/.test((await doctor(env)).states.join('\n'));
  });
  daemon.kill('SIGTERM');
  await daemon.ended();
  assert.doesNotMatch((await doctor(env)).states.join('\n'), /writes to it now/);
});

test('a database that answers and stores nothing, as on a full disk, is wrong for collecting', async () => {
  const url = await makeDatabase();
  const name = new URL(url).pathname.slice(1);
  await runSql(url, `ALTER DATABASE "${name}" SET default_transaction_read_only = 'on'`);
  const { code, states } = await doctor({ TAPEKEEP_DATABASE_URL: url });
  assert.equal(code, 1, states.join('\n'));
  assert.match(states.join('\n'), /database: wrong: .* stores nothing: .*read-only transaction/);
});

test('a login that reads only is wrong for collecting, and a start with it is refused by name', async () => {
  const url = await makeDatabase();
  const reader = { TAPEKEEP_DATABASE_URL: await loginAs(url, 'tapekeep_reader') };
  const { code, states } = await doctor(reader);
  assert.equal(code, 1, states.join('\n'));
  assert.match(states.join('\n'), /database: wrong: .*this login reads only/);
  const writer = await doctor({ TAPEKEEP_DATABASE_URL: await loginAs(url, 'tapekeep_writer') });
  assert.equal(writer.code, 0, writer.states.join('\n'));
  const start = run(['start', '--for', '5s', '--log-level', 'silent'], reader);
  assert.equal((await start.ended()).code, 1);
  const said = start.text('stderr');
  assert.match(said, /^tapekeep: refused: permission denied .*"Users" in docs\/guides\/sql\.md/);
  assert.doesNotMatch(said, /\n {4}at /);
});

test('a folder behind a link to a disk that is not there is not one that will be made', async () => {
  const link = join(folder, 'link');
  await symlink(join(folder, 'not-mounted'), link);
  for (const path of [link, join(link, 'data')]) {
    const { code, states } = await doctor({ TAPEKEEP_DATA_DIR: path });
    assert.equal(code, 1);
    assert.match(
      states[0] ?? '',
      /data folder: wrong: .*link leads to .*not-mounted, which is not/,
    );
  }
});

test('on a disk with hardly any room the database is looked at all the same', async (t) => {
  const disk = await mountSmallDisk(t, 64);
  if (disk === undefined) return;
  const { code, states } = await doctor({ TAPEKEEP_DATA_DIR: join(disk.path, 'data') });
  assert.equal(code, 1);
  assert.match(states[1] ?? '', /^data folder: wrong: \d+ MiB free on the disk of /);
  assert.match(states[2] ?? '', /^database: ok: no archive yet; "tapekeep start" makes one/);
});

test('what is wrong is named with what to do, and the exit code says it', async () => {
  const file = join(folder, 'file');
  await writeFile(file, '');
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  const port = String((taken.address() as AddressInfo).port);
  const { code, states, advice } = await doctor({
    TAPEKEEP_DATA_DIR: join(file, 'data'),
    TAPEKEEP_DATABASE_URL: 'postgres://u@127.0.0.1:1/d',
    TAPEKEEP_EXCHANGE_URL: 'http://127.0.0.1:1',
    TAPEKEEP_REALTIME_URL: 'ws://127.0.0.1:1',
    TAPEKEEP_HTTP_PORT: port,
  });
  await new Promise((resolve) => taken.close(resolve));
  assert.equal(code, 1);
  assert.match(states.join('\n'), /data folder: wrong: .*cannot be written \(ENOTDIR\)/);
  assert.match(states.join('\n'), /database: wrong: .*127\.0\.0\.1:1.*TAPEKEEP_DATABASE_URL/);
  assert.match(states.join('\n'), new RegExp(`console: warning: port ${port} .* is taken`));
  assert.match(states.at(-1) ?? '', /exchange: wrong: .*ECONNREFUSED/);
  assert.match(advice.at(-1) ?? '', /exchange\.url, .*a name server, a proxy, a firewall/);
});

test('an address at which something else answers is advised on as an address', async (t) => {
  const other = createServer((_, response) => {
    response.writeHead(404, { 'content-type': 'application/json' });
    response.end('{"message":"Not Found"}');
  });
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  t.after(() => other.close());
  const { code, states, advice } = await doctor({
    TAPEKEEP_EXCHANGE_URL: `http://127.0.0.1:${(other.address() as AddressInfo).port}`,
    TAPEKEEP_STREAMS_STATES_ENABLED: 'false',
  });
  assert.equal(code, 1);
  assert.match(states.at(-1) ?? '', /exchange: wrong: markets \(HTTP 404\)/);
  assert.match(advice.at(-1) ?? '', /^Check the address of the exchange \(exchange\.url,/);
});

test('config check tells every mistake by the exit code, config show hides secrets', async () => {
  const env = { TAPEKEEP_HTTP_TOKEN: '0123456789abcdef' };
  const right = run(['config', 'check'], env);
  assert.equal((await right.ended()).code, 0);
  assert.match(
    right.text('stdout'),
    /^The settings are right: 3 of \d+ are set, by environment variables (TAPEKEEP_\w+(, )?){3}\.$/m,
  );
  const shown = run(['config', 'show', 'http', '--set'], env);
  await shown.ended();
  assert.match(
    shown.text('stdout'),
    /^http\.token +\*\*\* +environment variable TAPEKEEP_HTTP_TOKEN$/m,
  );
  const keys = ['http.port', 'exchange.timeout', 'log.level'];
  const document = run(['--log-level', 'debug', 'config', 'show', ...keys, '--json'], env);
  await document.ended();
  const { settings } = SETTINGS.parse(JSON.parse(document.text('stdout')));
  assert.deepEqual(
    settings.map(({ name, value, source }) => [name, value, source]),
    [
      ['exchange.timeout', '10s', 'default'],
      ['http.port', 0, 'environment variable TAPEKEEP_HTTP_PORT'],
      ['log.level', 'debug', 'command line'],
    ],
  );
  const wrong = run(['config', 'check'], { TAPEKEEP_HTTP_TOKEN: 'short', TAPEKEEP_NOPE: '1' });
  assert.equal((await wrong.ended()).code, 2);
  assert.match(
    wrong.text('stderr'),
    /has 2 mistakes:[\s\S]*TAPEKEEP_NOPE[\s\S]*http\.token is \*\*\*/,
  );
});
