import assert from 'node:assert/strict';
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { AUTHORITY, startTlsFront } from '../support/certificates/tls-front.js';
import { startForwardProxy } from '../support/exchanges/forward-proxy.js';
import { makeDatabase } from '../support/postgres/postgres.js';
import { makeTempDir } from '../support/postgres/postgres-server.js';
import { Program, startSandbox } from '../support/programs/program.js';

/** A proxy that the environment names: daemons and commands take it, and name it where it fails. */

const SECRET = 'canary-of-the-proxy';
const LOGIN = `collector:${SECRET}`;
const withLogin = (url: string) => url.replace('://', `://${LOGIN}@`);
/** Of this name there is a certificate; no server of names knows it. */
const NAME = 'other.example';

/** A sandbox by a name that only a proxy leads to, in the clear or behind TLS. */
async function startExchange(t: TestContext, isSecure: boolean) {
  const { program, ready } = await startSandbox([]);
  t.after(() => program.dispose());
  const front = async (address: string, scheme: string) => {
    const url = new URL(address);
    const port = isSecure ? await startTlsFront(t, url, 'other-name') : url.port;
    return `${scheme}${isSecure ? 's' : ''}://${NAME}:${port}${url.pathname.replace(/\/$/, '')}`;
  };
  return {
    TAPEKEEP_EXCHANGE_URL: await front(ready.url, 'http'),
    TAPEKEEP_REALTIME_URL: await front(ready.realtimeUrl, 'ws'),
    NODE_EXTRA_CA_CERTS: AUTHORITY,
  };
}

function run(
  t: TestContext,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  cwd?: string,
): Program {
  const program = new Program(args, {
    env: { TAPEKEEP_HTTP_PORT: '0', ...env },
    ...(cwd !== undefined && { cwd }),
  });
  t.after(() => program.dispose());
  return program;
}

async function folderOf(t: TestContext): Promise<string> {
  const folder = await makeTempDir();
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Everything that a program wrote: its output, and its files. */
async function writtenBy(program: Program, folder: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const texts = files.map((file) => readFile(join(file.parentPath, file.name), 'latin1'));
  return [program.text('stdout'), program.text('stderr'), ...(await Promise.all(texts))].join('\n');
}

for (const isSecure of [false, true]) {
  const [scheme, variable] = isSecure ? ['https', 'HTTPS_PROXY'] : ['http', 'http_proxy'];
  test(`a daemon collects from an ${scheme} exchange through the proxy of ${variable}`, async (t) => {
    const [exchange, proxy] = [
      await startExchange(t, isSecure),
      await startForwardProxy(t, { login: LOGIN }),
    ];
    const folder = await folderOf(t);
    const env = {
      ...{ ...exchange, [variable]: withLogin(proxy.url), NO_PROXY: '.example.com,127.0.0.1' },
      ...{ TAPEKEEP_DATABASE_URL: await makeDatabase('empty'), TAPEKEEP_DATA_DIR: folder },
    };
    const log = ['--log-level', 'debug', '--log-format', 'json'];
    const daemon = run(t, [...log, 'start'], env, folder);
    const shown = `${proxy.url} (${variable})`;
    assert.equal(await daemon.line((line) => line.startsWith('  proxy ')), `  proxy     ${shown}`);
    await daemon.line((line) => line.includes('real-time connection opened'));
    await daemon.line((line) => line.includes('"committed"'));
    const page = await daemon.page();
    const shownPage = await (await fetch(`${page}/status.json`)).text();
    daemon.kill('SIGTERM');
    assert.deepEqual(await daemon.ended(), { code: 0, signal: null }, daemon.dump());
    const started = daemon.lines.stderr.find((line) => line.includes('"msg":"started"'));
    assert.equal((JSON.parse(started ?? '{}') as { proxy?: string }).proxy, shown, started);
    const lines = proxy.seen.map(({ line }) => line);
    const port = (url: string) => new URL(url).port;
    const asked = isSecure
      ? `CONNECT ${NAME}:${port(exchange.TAPEKEEP_EXCHANGE_URL)}`
      : `GET ${exchange.TAPEKEEP_EXCHANGE_URL}/`;
    assert.ok(
      lines.some((line) => line.startsWith(asked)),
      lines.join('\n'),
    );
    assert.ok(lines.includes(`CONNECT ${NAME}:${port(exchange.TAPEKEEP_REALTIME_URL)}`));
    const written = shownPage + (await writtenBy(daemon, folder));
    const token = Buffer.from(LOGIN).toString('base64');
    assert.ok(!written.includes(SECRET) && !written.includes(token));
  });
}

test('a proxy that asks for a login ends a start, which names it', async (t) => {
  const [exchange, proxy] = [
    await startExchange(t, true),
    await startForwardProxy(t, { login: LOGIN }),
  ];
  const database = { TAPEKEEP_DATABASE_URL: await makeDatabase('empty') };
  const env = { ...exchange, ...database, ALL_PROXY: proxy.url };
  const daemon = run(t, ['start'], env, await folderOf(t));
  assert.equal((await daemon.ended()).code, 4, daemon.dump());
  const advice = `the proxy ${proxy.url} (ALL_PROXY) asks for user and password (407): write them into ALL_PROXY`;
  assert.ok(daemon.text('stderr').includes(advice), daemon.dump());
});

test('calls and the doctor take the proxy, unless NO_PROXY names the exchange', async (t) => {
  const [exchange, proxy] = [await startExchange(t, true), await startForwardProxy(t)];
  const env = { ...exchange, HTTPS_PROXY: proxy.url };
  const asked = run(t, ['api', 'markets'], env);
  assert.equal((await asked.ended()).code, 0, asked.dump());
  assert.equal(proxy.seen.length, 1);
  const doctor = run(t, ['doctor'], env, await folderOf(t));
  assert.equal((await doctor.ended()).code, 0, doctor.dump());
  assert.ok(doctor.text('stdout').includes(`through a proxy: ${proxy.url} (HTTPS_PROXY)`));
  const before = proxy.seen.length;
  const direct = run(t, ['api', 'markets'], { ...env, NO_PROXY: NAME });
  assert.equal((await direct.ended()).code, 1, direct.dump());
  assert.match(direct.text('stderr'), /ENOTFOUND|EAI_AGAIN/);
  assert.equal(proxy.seen.length, before);
});

test('a proxy that cannot be used is refused by name, before anything is asked', async (t) => {
  const exchange = await startExchange(t, true);
  const env = { ...exchange, ALL_PROXY: `socks5://${LOGIN}@127.0.0.1:1080` };
  const asked = run(t, ['api', 'markets'], env);
  assert.equal((await asked.ended()).code, 2, asked.dump());
  assert.match(
    asked.text('stderr'),
    /ALL_PROXY socks5:\/\/127\.0\.0\.1:1080: it must begin with http/,
  );
  assert.doesNotMatch(asked.text('stderr'), /canary/);
});

test('the built-in sandbox is collected without the proxy', async (t) => {
  const proxy = await startForwardProxy(t);
  const folder = await folderOf(t);
  const env = {
    ...{ HTTP_PROXY: proxy.url, HTTPS_PROXY: proxy.url, ALL_PROXY: 'socks5://127.0.0.1:1' },
    ...{ TAPEKEEP_DATABASE_URL: await makeDatabase('empty'), TAPEKEEP_SANDBOX_HISTORY: '10s' },
  };
  const daemon = run(t, ['--log-level', 'debug', 'start'], env, folder);
  await daemon.line((line) => line.includes('committed'));
  await daemon.line((line) => line.includes('real-time connection opened'));
  daemon.kill('SIGTERM');
  assert.equal((await daemon.ended()).code, 0, daemon.dump());
  assert.deepEqual(proxy.seen, []);
  assert.doesNotMatch(daemon.text('stdout'), /^ {2}proxy/m);
});
