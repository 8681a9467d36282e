import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { hostname } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { kebabCase } from '../../src/cli/options.js';
import { endpointNames, endpoints } from '../../src/contract/endpoints.js';
import { errorEnvelope } from '../../src/contract/error-shapes.js';
import { systemClock } from '../../src/kernel/clock.js';
import { openLive } from '../../src/sandbox/live/open-live.js';
import { startFaultyExchange } from '../support/exchanges/faulty-exchange.js';
import { STILL_MARKET } from '../support/exchanges/live-exchange.js';
import { serve } from '../support/exchanges/served.js';
import { sendJson, startHttpStub } from '../support/exchanges/stub-server.js';
import {
  startTapeExchange,
  TEST_ORIGIN_MS,
  temporaryFolder,
} from '../support/exchanges/tape-exchange.js';
import { runCommand } from '../support/programs/commands.js';
import { Program } from '../support/programs/program.js';
import { repositoryPath } from '../support/repository/repository.js';

/** The command line as people use it: the built program against real servers. */

const KEY = 'canary-key-5f2a91';
const SECRET = 'canary-secret-77c0de';
const CREDENTIALS = { TAPEKEEP_ACCOUNT_KEY: KEY, TAPEKEEP_ACCOUNT_SECRET: SECRET };

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function start(t: TestContext, args: readonly string[], env: Record<string, string> = {}): Program {
  const program = new Program(['api', ...args], { env });
  t.after(() => program.dispose());
  return program;
}

async function run(args: readonly string[], env: Record<string, string> = {}): Promise<Ended> {
  const { code, out, err } = await runCommand(['api', ...args], env);
  return checked({ code, stdout: out, stderr: err });
}

/** The same with a process of its own. */
async function runAlone(
  t: TestContext,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<Ended> {
  const program = start(t, args, env);
  const { code } = await program.ended();
  return checked({ code, stdout: program.text('stdout'), stderr: program.text('stderr') });
}

function checked(ended: Ended): Ended {
  assert.doesNotMatch(`${ended.stdout}\n${ended.stderr}`, /canary/, 'no secret is ever shown');
  return ended;
}

/** An exchange in which only orders from outside happen. */
async function startStillExchange(t: TestContext, variants = {}) {
  const balances = { AAA: '1000', ZZZ: '1000' };
  const backend = await openLive(
    { runId: 'test', markets: [STILL_MARKET], keys: [{ key: KEY, secret: SECRET, balances }] },
    systemClock,
  );
  const { server, record } = await serve(t, backend, systemClock, { variants });
  const dataDir = await temporaryFolder(t);
  const env = { ...CREDENTIALS, TAPEKEEP_EXCHANGE_URL: server.url, TAPEKEEP_DATA_DIR: dataDir };
  return { server, record, dataDir, env };
}

const START_S = TEST_ORIGIN_MS / 1000;
const PUBLIC: Readonly<Record<string, readonly string[]>> = {
  markets: [],
  products: [],
  tickers: [],
  ticker: ['BTC_USDT'],
  kline: ['BTC_USDT', '--start', '2026-06-01T00:50:00Z', '--end', `${START_S + 3300}`],
  history: ['BTC_USDT', '--last-id', '2', '--limit', '7'],
  historyResult: ['--market', 'BTC_USDT', '--since', '1'],
  depth: ['BTC_USDT', '--limit', '5'],
  book: ['BTC_USDT', '--side', 'sell', '--offset', '1', '--limit', '5'],
};

test('every public endpoint: the exact data as JSON, by both forms, and a table', async (t) => {
  const keys = { [KEY]: SECRET };
  const { server, record } = await startTapeExchange(t, { keys });
  const dataDir = await temporaryFolder(t);
  const url = ['--url', server.url];
  const open = endpointNames.filter((name) => endpoints[name].access === 'public');
  assert.deepEqual(Object.keys(PUBLIC), open);
  for (const name of open) {
    const args = [kebabCase(name), ...(PUBLIC[name] ?? []), ...url];
    const json = await run([...args, '--json']);
    assert.equal(json.code, 0, json.stderr);
    const env = { ...CREDENTIALS, TAPEKEEP_DATA_DIR: dataDir };
    const signed = await run([...args, '--json', '--post'], env);
    assert.equal(signed.stdout, json.stdout, `${name}: both forms answer alike`);
    const data = JSON.parse(json.stdout) as unknown;
    const { rejected } = endpoints[name].result.parse(data);
    assert.deepEqual(rejected, []);
    const table = await run(args);
    assert.equal(table.code, 0, table.stderr);
    assert.ok(table.stdout.split('\n').length > 1, table.stdout);
    assert.doesNotMatch(table.stdout, /[{"]/);
    assert.ok(!table.stdout.includes('\u001b'), 'no colours where nobody looks');
  }
  assert.equal(record.requests.length, 3 * open.length);
  const direct = await fetch(`${server.url}${endpoints.depth.path}?market=BTC_USDT&limit=5`);
  const { stdout } = await run(['depth', 'BTC_USDT', '--limit', '5', '--json', ...url]);
  assert.deepEqual(JSON.parse(stdout), await direct.json());
});

test('what a dialect has no endpoint for is refused before a key is asked for', async () => {
  const order = ['order-new', 'BTC_USDT', '--side', 'buy', '--price', '1', '--amount', '1'];
  for (const args of [['balances'], order, ['products']]) {
    const whitebit = ['--url', 'http://127.0.0.1:1', '--dialect', 'whitebit'];
    const { code, stderr } = await run([...args, ...whitebit]);
    assert.equal(code, 4, stderr);
    assert.match(
      stderr,
      new RegExp(`${args[0]}: not sent: this program knows no such endpoint of whitebit, see docs`),
    );
    assert.doesNotMatch(stderr, /KEY/);
  }
});

test('candles of the last minutes, by the clock of the exchange', async (t) => {
  const { server } = await startTapeExchange(t);
  const args = ['kline', 'BTC_USDT', '--start', '-5m', '--end', 'now', '--json'];
  const { code, stdout, stderr } = await run([...args, '--url', server.url]);
  assert.equal(code, 0, stderr);
  const { start, end, kline } = JSON.parse(stdout) as Record<'start' | 'end', number> & {
    kline: object[];
  };
  assert.equal(end - start, 300);
  const lag = Math.abs(
    end - Date.parse((await fetch(server.url)).headers.get('date') ?? '') / 1000,
  );
  assert.ok(lag <= 2, `${lag} s`);
  assert.ok(kline.length > 0);
});

test('an order that is refused without a reason is told what its market asks for', async (t) => {
  const { env } = await startStillExchange(t);
  const place = (market: string, price: string, amount: string) => {
    const order = ['order-new', market, '--side', 'sell', '--price', price, '--amount', amount];
    return run([...order, '--yes'], env);
  };
  for (const [[market, price, amount], said] of [
    [['NO_SUCH', '1', '1'], /order-new NO_SUCH .*\nLikely because NO_SUCH is not among/],
    [['AAA_ZZZ', '1.005', '1'], /order-new AAA_ZZZ .*\nLikely .*1\.005 .*decimal places/],
    [['AAA_ZZZ', '1', '0.1'], /0\.1 is below 0\.5 AAA/],
    [['AAA_ZZZ', '1', '5000'], /funds may be short/],
  ] as const) {
    const { code, stderr } = await place(market, price, amount);
    assert.equal(code, 4, stderr);
    assert.match(stderr, said);
  }
});

test('an output that takes nothing more is told in a sentence', async (t) => {
  const { server } = await startTapeExchange(t);
  const command = 'exec "$0" dist/cli/main.js api markets --url "$1" >/dev/full';
  const ended = await new Promise<{ code: number; stderr: string }>((resolve) => {
    const args = ['-c', command, process.execPath, server.url];
    execFile('sh', args, { cwd: repositoryPath, env: {} }, (error, _stdout, stderr) => {
      resolve({ code: Number(error?.code ?? 0), stderr });
    });
  });
  assert.equal(ended.code, 1);
  assert.match(ended.stderr, /^tapekeep: the output cannot be written \(.*ENOSPC.*\)\n$/);
});

test('an account: balances, an order, active orders; the nonce is kept for its owner', async (t) => {
  const { dataDir, env } = await startStillExchange(t);
  const held = await run(['balances', '--json'], env);
  assert.equal(held.code, 0, held.stderr);
  assert.equal((JSON.parse(held.stdout) as Record<string, object>).AAA !== undefined, true);
  const order = ['order-new', 'AAA_ZZZ', '--side', 'sell', '--price', '120.50', '--amount', '2'];
  const placed = await run([...order, '--yes', '--json'], env);
  assert.equal(placed.code, 0, placed.stderr);
  const { orderId, left } = JSON.parse(placed.stdout) as { orderId: number; left: string };
  assert.equal(Number(left), 2);
  const listed = await run(['orders', 'AAA_ZZZ', '--json'], env);
  const { total, result } = JSON.parse(listed.stdout) as {
    total: number;
    result: { id: number }[];
  };
  assert.deepEqual([total, result.map(({ id }) => id)], [1, [orderId]]);
  const table = await run(['orders', 'AAA_ZZZ'], { ...env, TAPEKEEP_LOG_LEVEL: 'trace' });
  assert.match(table.stdout, /^offset 0, limit 50, total 1\n *id +/);
  assert.match(table.stdout, /120\.50/);
  const frozen = await run(['balances', '--log-level', 'trace'], env);
  assert.match(frozen.stdout, /AAA +998(\.0+)? +2(\.0+)?\n/);
  const folder = join(dataDir, 'nonces');
  const [file = '', ...others] = await readdir(folder);
  assert.deepEqual(others, [], 'the lock is given back');
  assert.equal((await stat(join(folder, file))).mode & 0o777, 0o600);
  assert.match(await readFile(join(folder, file), 'utf8'), /^\d{13}\n$/);
});

test('the key may come from files, named by variables or by settings', async (t) => {
  const { env, dataDir } = await startStillExchange(t);
  const [keyFile, secretFile] = [join(dataDir, 'key'), join(dataDir, 'secret')];
  await writeFile(keyFile, `${KEY}\n`);
  await writeFile(secretFile, `${SECRET}\n`);
  const { TAPEKEEP_ACCOUNT_KEY: _key, TAPEKEEP_ACCOUNT_SECRET: _secret, ...bare } = env;
  const without = await run(['balances'], bare);
  assert.equal(without.code, 2);
  assert.match(without.stderr, /TAPEKEEP_ACCOUNT_KEY.*_FILE.*account\.keyFile/);
  const files = { TAPEKEEP_ACCOUNT_KEY_FILE: keyFile, TAPEKEEP_ACCOUNT_SECRET_FILE: secretFile };
  assert.equal((await run(['balances'], { ...bare, ...files })).code, 0);
  const settings = join(dataDir, 'tapekeep.yaml');
  await writeFile(settings, `account: {keyFile: ${keyFile}, secretFile: ${secretFile}}\n`);
  assert.equal((await run(['balances', '--config', settings], bare)).code, 0);
  const wrong = await run(['balances'], { ...env, TAPEKEEP_ACCOUNT_SECRET: 'canary-wrong' });
  assert.equal(wrong.code, 4);
  assert.match(wrong.stderr, /authentication failed/);
  for (const option of ['--key', '--secret', '--api-key']) {
    assert.equal((await run(['balances', option, 'x'], env)).code, 2);
  }
});

test('eight programs at once share one key: each is answered, and nonces never collide', async (t) => {
  const { env, record } = await startStillExchange(t);
  const ended = await Promise.all(
    Array.from({ length: 8 }, () => runAlone(t, ['balances', '--json'], env)),
  );
  for (const { code, stderr } of ended) assert.equal(code, 0, stderr);
  assert.equal(record.requests.filter(({ status }) => status === 200).length, 8);
  // A program that was killed while it held the lock does not lock out the next.
  const nonces = join(env.TAPEKEEP_DATA_DIR, 'nonces');
  const [file = ''] = await readdir(nonces);
  const killed = await startKilled(t);
  await mkdir(nonces, { recursive: true });
  await writeFile(join(nonces, `${file}.lock`), `${killed} ${hostname()} gone\n`);
  assert.equal((await runAlone(t, ['balances'], env)).code, 0);
});

/** Number of a process that was killed. */
async function startKilled(t: TestContext): Promise<number> {
  const program = start(t, ['watch', 'X', '--realtime-url', 'ws://127.0.0.1:1']);
  program.kill('SIGKILL');
  await program.ended();
  return program.pid;
}

test('mistakes, refusals and absence each have their message and exit code', async (t) => {
  const { server } = await startTapeExchange(t);
  const env = { TAPEKEEP_EXCHANGE_URL: server.url };
  const cases: [args: string[], env: Record<string, string>, code: number, said: RegExp][] = [
    [['depth'], env, 2, /name a market/],
    [['depth', 'A', '--market', 'B'], env, 2, /two markets/],
    [
      ['depth', 'BTC_USDT', '--limit', '1001'],
      env,
      2,
      /^tapekeep: depth BTC_USDT: not sent: limit: expected a whole number from 1 to 1000 \(limit = "1001"\)$/m,
    ],
    [['depth', 'BTC_USDT', '--limit', '1.5'], env, 2, /: limit: expected a whole number .*\(/],
    [['history', '', '--last-id', '-1'], env, 2, /market: expected a name.*lastId: .*at least 0/],
    [['kline', 'BTC_USDT', '--start', '0', '--end', '5m', '--interval', '7'], env, 2, /candles/],
    [
      ['kline', 'BTC_USDT', '--start', 'now', '--end', '-5m'],
      env,
      2,
      /^tapekeep: --start: "now" .*must not be after --end, -5m \(20/,
    ],
    [['book', 'BTC_USDT'], env, 2, /--side/],
    [['book', 'BTC_USDT', '--side', 'both'], env, 2, /both.*buy, sell/],
    [['kline', 'BTC_USDT', '--start', 'soon', '--end', '1'], env, 2, /soon.*zone/],
    [['nothing'], env, 2, /nothing[\s\S]*tapekeep api --help/],
    [['markets'], {}, 2, /--url.*TAPEKEEP_EXCHANGE_URL/],
    [['watch', 'BTC_USDT'], {}, 2, /--realtime-url/],
    [['watch', 'BTC_USDT', '--realtime-url', 'http://x'], {}, 2, /ws:\/\//],
    [['markets', '--url', 'file:///etc'], env, 2, /http:\/\//],
    [['balances'], env, 2, /TAPEKEEP_ACCOUNT_SECRET/],
    [
      ['depth', 'NO_SUCH'],
      env,
      4,
      /depth NO_SUCH .*invalid.*\nLikely because NO_SUCH is not .*BTC_/,
    ],
    [['markets', '--url', `${server.url}/elsewhere`], env, 4, /not found/],
    [['markets', '--url', 'http://127.0.0.1:1'], env, 1, /ECONNREFUSED[\s\S]*address/],
    [
      ['watch', 'NO_SUCH', '--realtime-url', server.realtimeUrl],
      env,
      4,
      /refuses to subscribe to NO_SUCH over 60 s: .* --period; a replay .* 86400/,
    ],
  ];
  for (const [args, given, code, said] of cases) {
    const ended = await run(args, given);
    assert.equal(ended.code, code, `${args.join(' ')}\n${ended.stderr}`);
    assert.match(ended.stderr, said);
  }
});

test('rows that do not fit are left out, and told with their reasons', async (t) => {
  const good = { id: 'A_B', fromSymbol: 'A', toSymbol: 'B' };
  const stub = await startHttpStub(t, (_request, response) =>
    sendJson(response, {
      code: 200,
      success: true,
      message: '',
      result: [good, { ...good, id: 7 }, { ...good, toSymbol: '' }],
    }),
  );
  const { code, stdout, stderr } = await run(['products', '--json', '--url', stub.baseUrl]);
  assert.equal(code, 0);
  assert.deepEqual(JSON.parse(stdout), [good]);
  assert.match(stderr, /2 rows do not fit.*\n {2}row 1: id.*\n {2}row 2: toSymbol/);
});

test('an answer of which no row can be read is a failure, with the reason and a sample', async (t) => {
  const rules = [{ kind: 'badRows', rows: 1000, defect: 'notANumber' }] as const;
  const { server } = await startFaultyExchange(t, { rules });
  for (const args of [
    ['tickers'],
    ['history', 'BTC_USDT', '--last-id', '1', '--limit', '50'],
    ['history-result', '--market', 'BTC_USDT', '--since', '1'],
    ['kline', 'BTC_USDT', '--start', '2026-06-01T00:50:00Z', '--end', `${START_S + 3300}`],
    ['book', 'BTC_USDT', '--side', 'sell'],
  ]) {
    for (const more of [[], ['--json']]) {
      const { code, stdout, stderr } = await run([...args, ...more, '--url', server.url]);
      assert.deepEqual([code, stdout], [4, ''], args.join(' ') + stderr);
      assert.match(stderr, new RegExp(`^tapekeep: ${args[0]}.* no row of the answer can be read`));
      assert.match(stderr, /\d+ rows?, the first .*: .*not a/);
      assert.match(stderr, /it came as \{/);
    }
  }
});

const ORDER = ['order-new', 'A_B', '--side', 'buy', '--price', '10', '--amount', '1'];

test('an order needs a person or --yes, and valid values, before anything is sent', async (t) => {
  const stub = await startHttpStub(t, (_request, response) => response.destroy());
  const env = {
    ...CREDENTIALS,
    TAPEKEEP_EXCHANGE_URL: stub.baseUrl,
    TAPEKEEP_DATA_DIR: await temporaryFolder(t),
  };
  const unasked = await run(ORDER, env);
  assert.equal(unasked.code, 2);
  assert.match(unasked.stderr, /terminal.*--yes/);
  for (const [option, value] of [
    ['--price', '0'],
    ['--amount', '-1'],
    ['--side', 'hold'],
  ] as const) {
    const args = ORDER.map((text, index) => (ORDER[index - 1] === option ? value : text));
    const ended = await run([...args, '--yes'], env);
    assert.equal(ended.code, 2, ended.stderr);
    assert.match(ended.stderr, new RegExp(option));
  }
  assert.deepEqual(stub.seen, []);
});

test('an order without an answer is unknown: said so, exit code 5, sent once', async (t) => {
  const broken: readonly [string, (response: ServerResponse) => void][] = [
    ['reset', (response) => response.destroy()],
    ['silence', () => undefined],
    ['bad gateway', (response) => void response.writeHead(502).end('<html>')],
    ['cut off', (response) => sendJson(response, { code: 200, success: true, result: [] })],
  ];
  for (const [name, answer] of broken) {
    const stub = await startHttpStub(t, (_request, response) => answer(response));
    const env = {
      ...CREDENTIALS,
      TAPEKEEP_EXCHANGE_URL: stub.baseUrl,
      TAPEKEEP_DATA_DIR: await temporaryFolder(t),
      TAPEKEEP_EXCHANGE_TIMEOUT: '1s',
    };
    const { code, stdout, stderr } = await run([...ORDER, '--yes'], env);
    assert.equal(code, 5, `${name}: ${stderr}`);
    assert.match(stderr, /UNKNOWN[\s\S]*tapekeep api orders A_B/);
    assert.equal(stdout, '');
    assert.equal(stub.seen.length, 1, name);
  }
});

test('an order that the exchange refuses, or that never left, is not unknown', async (t) => {
  const stub = await startHttpStub(t, (_request, response) =>
    sendJson(response, errorEnvelope(400, 'operation blocked'), 400),
  );
  const env = { ...CREDENTIALS, TAPEKEEP_DATA_DIR: await temporaryFolder(t) };
  const refused = await run([...ORDER, '--yes', '--url', stub.baseUrl], env);
  assert.equal(refused.code, 4, refused.stderr);
  assert.match(refused.stderr, /blocks this operation/);
  const unsent = await run([...ORDER, '--yes', '--url', 'http://127.0.0.1:1'], env);
  assert.equal(unsent.code, 1, unsent.stderr);
  assert.doesNotMatch(unsent.stderr, /UNKNOWN/);
});

test('an order that is interrupted under way is unknown too', async (t) => {
  const stub = await startHttpStub(t, () => undefined);
  const env = { ...CREDENTIALS, TAPEKEEP_DATA_DIR: await temporaryFolder(t) };
  const program = start(t, [...ORDER, '--yes', '--url', stub.baseUrl], env);
  await stub.requests(1);
  program.kill('SIGINT');
  assert.equal((await program.ended()).code, 5, program.dump());
  assert.match(program.text('stderr'), /UNKNOWN/);
  assert.deepEqual(
    await readdir(join(env.TAPEKEEP_DATA_DIR, 'nonces')).then((all) => all.length),
    1,
  );
});

test('watch tells each event in a line, shows reconnects, and ends with Ctrl-C', async (t) => {
  const { server } = await startTapeExchange(t, { time: 'now' }, {}, systemClock);
  const args = ['watch', 'BTC_USDT', '--period', '60', '--realtime-url', server.realtimeUrl];
  const json = start(t, [...args, '--json']);
  const text = start(t, args);
  await text.line((line) => line.includes('  opened  '));
  await text.line((line) =>
    /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z {2}query .*last \d/.test(line),
  );
  await json.line((line) => {
    const event = JSON.parse(line) as { kind: string; record?: { last: string } };
    return event.kind === 'record' && event.record?.last !== undefined;
  });
  json.kill('SIGINT');
  assert.equal((await json.ended()).code, 0, json.dump());
  const kinds = json.lines.stdout.map((line) => (JSON.parse(line) as { kind: string }).kind);
  assert.equal(kinds[0], 'opened');
  assert.equal(kinds.at(-1), 'closed');
  const { code, livedMs } = JSON.parse(json.lines.stdout.at(-1) ?? '') as Record<string, number>;
  assert.equal(code, 1000, 'it was us who closed');
  assert.ok(Number.isInteger(livedMs));
  await server.stop();
  await text.line((line) => line.includes('  closed  '));
  await text.line((line) => line.includes('  retrying  '));
  text.kill('SIGTERM');
  assert.equal((await text.ended()).code, 0, text.dump());
});

test('watch stops by itself after its time, and fails when nothing could be watched', async (t) => {
  const { server } = await startTapeExchange(t, { time: 'now' }, {}, systemClock);
  const env = { TAPEKEEP_EXCHANGE_URL: server.url, TAPEKEEP_REALTIME_URL: server.realtimeUrl };
  const ended = await runAlone(t, ['watch', 'BTC_USDT', '--for', '1s'], env);
  assert.equal(ended.code, 0, ended.stderr);
  assert.match(ended.stdout, /opened/);
  const never = await runAlone(t, [
    'watch',
    'X_Y',
    '--for',
    '1s',
    '--realtime-url',
    'ws://127.0.0.1:1',
  ]);
  assert.equal(never.code, 1);
  assert.match(never.stderr, /connect_failed/);
});
