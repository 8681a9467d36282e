import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { temporaryFolder } from '../../support/exchanges/tape-exchange.js';
import { makeDatabase, openTestStore, runSql } from '../../support/postgres/postgres.js';
import { loginAs } from '../../support/postgres/postgres-logins.js';
import { runCommand } from '../../support/programs/commands.js';
import { Program, startSandbox } from '../../support/programs/program.js';

/** Mistakes are refused with the key, the value and what is allowed, and with their exit code. */

async function refused(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  exitCode: number,
  ...said: readonly RegExp[]
): Promise<void> {
  const { code, out, err } = await runCommand(args, { TAPEKEEP_HTTP_PORT: '0', ...env });
  assert.equal(code, exitCode, out + err);
  for (const text of said) assert.match(err, text);
}

/** The same of a program that has begun to work. */
async function ended(
  t: TestContext,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  exitCode: number,
  ...said: readonly RegExp[]
): Promise<void> {
  const program = new Program(args, { env: { TAPEKEEP_HTTP_PORT: '0', ...env } });
  t.after(() => program.dispose());
  assert.equal((await program.ended()).code, exitCode, program.dump());
  for (const text of said) assert.match(program.text('stderr'), text);
}

/** Runs a daemon until something is stored. */
async function collectSomething(t: TestContext, env: Readonly<Record<string, string>>) {
  const daemon = new Program(['--log-level', 'debug', '--log-format', 'json', 'start'], {
    env: { ...env, TAPEKEEP_HTTP_PORT: '0' },
  });
  t.after(() => daemon.dispose());
  await daemon.line((line) => line.includes('"committed"'));
  daemon.kill('SIGTERM');
  assert.equal((await daemon.ended()).code, 0, daemon.dump());
}

test('a wrong option names itself, its value and what is allowed', async (t) => {
  await ended(t, ['start', '--for', 'soon'], {}, 2, /--for/, /soon/, /10s/);
  await refused(['sandbox', '--port', '99999'], {}, 2, /--port/, /99999/, /65535/);
  await refused(['sandbox', '--speed', 'fast'], {}, 2, /--speed/, /fast/, /instant/);
  await refused(['strat'], {}, 2, /strat/, /start/);
});

test('a command that writes says what a login that only reads lacks', async () => {
  const { url } = await openTestStore();
  const env = { TAPEKEEP_DATABASE_URL: await loginAs(url, 'tapekeep_reader') };
  const said =
    /permission denied for function hold_lock .*: this login has no right to it; "Users"/;
  await refused(['seal', '--before', '2026-01-01'], env, 1, said);
});

test('a wrong setting names its key path, its source, its value and what is allowed', async (t) => {
  await refused(
    ['start'],
    { TAPEKEEP_EXCHANGE_REQUESTS_PER_S: 'many', TAPEKEEP_LOG_LEVEL: 'loud' },
    2,
    /exchange\.requestsPerS/,
    /TAPEKEEP_EXCHANGE_REQUESTS_PER_S/,
    /many/,
    /log\.level/,
    /debug/,
  );
  const file = join(await temporaryFolder(t), 'settings.yaml');
  await writeFile(file, 'streams:\n  depth:\n    level: 5\n');
  await refused(['--config', file, 'start'], {}, 2, /streams\.depth\.level/, /levels/);
});

test('status takes a market of the settings that has no data, and refuses what is in neither', async () => {
  const { url } = await openTestStore();
  const env = { TAPEKEEP_DATABASE_URL: url, TAPEKEEP_MARKETS: 'ETH_USDT' };
  await refused(['status', '-m', 'ETH_USD'], env, 2, /--market.*"ETH_USD".*mean ETH_USDT\?/);
  const { code, out } = await runCommand(['status', '-m', 'ETH_USDT'], env);
  assert.deepEqual([code, out.split('\n')[0]?.includes('empty')], [0, true], out);
});

test('a tape that is missing and a market that is none are told with their options', async () => {
  const missing = ['sandbox', '--tape', 'nosuch.csv', '--market', 'BTC_USDT'];
  await refused(missing, {}, 2, /--tape.*nosuch\.csv.*\(ENOENT: no such/);
  await refused(['sandbox', '--market', 'AB'], {}, 2, /--market/, /"AB"/, /<STOCK>_<MONEY>/);
});

test('keys of the sandbox: one name each, known fields only, told with the option', async (t) => {
  const folder = await temporaryFolder(t);
  const fileOf = async (...entries: object[]) => {
    const path = join(folder, `keys-${entries.length}-${JSON.stringify(entries).length}.json`);
    await writeFile(path, JSON.stringify(entries));
    return path;
  };
  const ann = { name: 'ann', key: 'k', secret: 's' };
  const run = (said: RegExp, ...args: string[]) => refused(['sandbox', ...args], {}, 2, said);
  await run(/--key: "zed:BTC=2".*name zed.*two keys/, '--key', 'zed:BTC=1', '--key', 'zed:BTC=2');
  await run(/--keys: .*name ann.*two keys/, '--key', 'ann', '--keys', await fileOf(ann));
  const twice = await fileOf(ann, { ...ann, key: 'other' });
  await run(/--keys: .*name ann.*two keys/, '--keys', twice);
  const misspelt = await fileOf({ ...ann, activ: false });
  await run(
    /--keys.*entry 1: activ is not allowed; expected .*only name,.*active/,
    '--keys',
    misspelt,
  );
  const wrong = await fileOf({ ...ann, active: 'no' });
  await run(/--keys.*entry 1: active is not allowed; expected true or false/, '--keys', wrong);
  await run(/; USDT "-5" is not allowed; expected an amount/, '--key', 'alice:USDT=-5');
  await run(/--key: alice: currency: no market trades "FOO"/, '--key', 'alice:FOO=1');
  const poor = await fileOf({ ...ann, balances: { FOO: '1' } });
  await run(/--keys: ann: currency: no market trades "FOO"/, '--keys', poor);
  await run(/--key: "alice" is not allowed.*tape/, '--tape', 'x.csv', '--key', 'alice');
  await run(/--fee-taker: takerFee 2: expected a rate/, '--fee-taker', '2');
  await run(/--fee-maker: makerFee x: expected a rate/, '--fee-maker', 'x');
  const rule = 'kind=html,market=NOPE_X';
  await run(/rule 1 \(html\): market "NOPE_X" .*one of BTC_USDT/, '--fault', rule);
  const open = ['--run', '--fault', rule, '--for', '1ms'];
  await ended(t, ['sandbox', ...open], {}, 0, /rule is for "NOPE_X", which is no market yet/);
  await run(/--run: run "a b": expected/, '--run', 'a b');
});

test('a tape file that is none is refused with its place', async (t) => {
  const file = join(await temporaryFolder(t), 'tape.csv');
  await writeFile(file, 'id,time_ms,price,amount,side\n1,1723161256322,61800.30,0.006,hold\n');
  const args = ['sandbox', '--tape', file, '--market', 'BTC_USDT'];
  await refused(args, {}, 2, /tape\.csv/, /2/, /side/, /hold/);
});

test('a database that does not answer is named without its password', async () => {
  const env = { TAPEKEEP_DATABASE_URL: 'postgres://me:topsecret@127.0.0.1:1/archive' };
  const { code, out, err } = await runCommand(['migrate'], env);
  assert.notEqual(code, 0);
  assert.match(err, /127\.0\.0\.1/);
  assert.doesNotMatch(out + err, /topsecret/);
});

test('a run that is over before the database answers says what it was waiting for', async (t) => {
  const sockets = new Set<Socket>();
  const mute = createServer((socket) => sockets.add(socket)).listen(0, '127.0.0.1');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    mute.close();
  });
  await once(mute, 'listening');
  const { port } = mute.address() as AddressInfo;
  const env = { TAPEKEEP_DATABASE_URL: `postgres://me:topsecret@127.0.0.1:${port}/archive` };
  const said = [/while it was still migrating the database/, /TAPEKEEP_DATABASE_URL/];
  await ended(t, ['start', '--for', '1s'], env, 1, ...said);
});

test('an archive takes one exchange only: another one is refused in a sentence', async (t) => {
  const databaseUrl = await makeDatabase('empty');
  const open = async (seed: string) => {
    const { program, ready } = await startSandbox(['--seed', seed]);
    t.after(() => program.dispose());
    return {
      TAPEKEEP_DATABASE_URL: databaseUrl,
      TAPEKEEP_EXCHANGE_URL: ready.url,
      TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
      TAPEKEEP_EXCHANGE_NAME: 'acme',
    };
  };
  await collectSomething(t, await open('1'));
  await ended(
    t,
    ['start', '--for', '20s'],
    await open('2'),
    3,
    /is the archive of .*acme/,
    /database of its own/,
  );
});

test('an archive of another exchange is named though that one does not answer', async (t) => {
  const databaseUrl = await makeDatabase('empty');
  const { program, ready } = await startSandbox(['--seed', '1']);
  t.after(() => program.dispose());
  const env = { TAPEKEEP_DATABASE_URL: databaseUrl, TAPEKEEP_REALTIME_URL: ready.realtimeUrl };
  await collectSomething(t, {
    ...env,
    TAPEKEEP_EXCHANGE_URL: ready.url,
    TAPEKEEP_EXCHANGE_NAME: 'acme',
  });
  const elsewhere = { ...env, TAPEKEEP_EXCHANGE_URL: 'http://127.0.0.1:1' };
  const said = [
    /is the archive of the sandbox "acme" at .*, and the settings name .*127\.0\.0\.1:1/,
  ];
  await ended(t, ['start', '--for', '6s'], elsewhere, 3, ...said);
  await runSql(databaseUrl, "UPDATE archive SET identity = 'replay-1'");
  await ended(t, ['start', '--for', '6s'], elsewhere, 3, /is the archive of the replay "acme"/);
  // An exchange that names no identity is known by its name alone.
  await runSql(databaseUrl, 'UPDATE archive SET identity = NULL, is_sandbox = false');
  await ended(t, ['start'], elsewhere, 3, /is the archive of the exchange "acme"/);
});

test('a second daemon is told of the first, also where only its port seems to be taken', async (t) => {
  const databaseUrl = await makeDatabase('empty');
  const daemon = new Program(['start'], {
    env: { TAPEKEEP_DATABASE_URL: databaseUrl, TAPEKEEP_HTTP_PORT: '0' },
  });
  t.after(() => daemon.dispose());
  const line = await daemon.line((text) => text.includes('  status '));
  const port = new URL(line.trim().split(/\s+/)[1] ?? '').port;
  const taken = { TAPEKEEP_HTTP_PORT: port };
  const second = { ...taken, TAPEKEEP_DATABASE_URL: databaseUrl };
  await ended(t, ['start', '--for', '5s'], second, 3, /another tapekeep writes to this database/);
  const other = { ...taken, TAPEKEEP_DATABASE_URL: await makeDatabase('empty') };
  await ended(t, ['start', '--for', '5s'], other, 1, new RegExp(`port ${port}.* is in use`));
});

test('markets of which the exchange lists none end the start, with the names that may be meant', async (t) => {
  const { program, ready } = await startSandbox([]);
  t.after(() => program.dispose());
  const env = {
    TAPEKEEP_DATABASE_URL: await makeDatabase('empty'),
    TAPEKEEP_EXCHANGE_URL: ready.url,
    TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
    TAPEKEEP_MARKETS: 'BTCUSDT,NOPE',
  };
  await ended(
    t,
    ['start'],
    env,
    2,
    /BTCUSDT \(did you mean BTC_USDT\?\), NOPE\. It lists BTC_USDT/,
  );
});

test('a database newer than the program is refused in a sentence', async (t) => {
  const databaseUrl = await makeDatabase();
  await runSql(
    databaseUrl,
    "INSERT INTO tapekeep_migration (name, run_on) VALUES ('9999_from_the_future', now())",
  );
  const env = { TAPEKEEP_DATABASE_URL: databaseUrl };
  await ended(t, ['start', '--for', '20s'], env, 3, /9999_from_the_future/, /another version/);
});

test('a real-time address of another exchange is refused before anything of it is stored', async (t) => {
  const databaseUrl = await makeDatabase('empty');
  const [one, other] = [await startSandbox(['--seed', '1']), await startSandbox(['--seed', '2'])];
  t.after(() => Promise.all([one.program.dispose(), other.program.dispose()]));
  const env = {
    TAPEKEEP_DATABASE_URL: databaseUrl,
    TAPEKEEP_EXCHANGE_URL: one.ready.url,
    TAPEKEEP_REALTIME_URL: other.ready.realtimeUrl,
  };
  await ended(t, ['start', '--for', '30s'], env, 4, /another one/, /realtime\.url/);
  assert.deepEqual(await runSql(databaseUrl, 'SELECT 1 FROM market_state'), []);
});

test('the same exchange at another address is known again by its identity', async (t) => {
  const databaseUrl = await makeDatabase('empty');
  for (const _ of ['first', 'second']) {
    const { program, ready } = await startSandbox(['--seed', '3']);
    t.after(() => program.dispose());
    await collectSomething(t, {
      TAPEKEEP_DATABASE_URL: databaseUrl,
      TAPEKEEP_EXCHANGE_URL: ready.url,
      TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
    });
  }
});
