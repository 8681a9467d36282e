import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { startJudged } from '../../support/conformance/conformance.js';
import { sendJson, startHttpStub } from '../../support/exchanges/stub-server.js';
import { temporaryFolder } from '../../support/exchanges/tape-exchange.js';
import { repositoryPath } from '../../support/repository/repository.js';

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the program as `npm run conformance -- …` does. */
function run(...args: string[]): Promise<Ended> {
  const program = join('test', 'conformance', 'main.ts');
  return new Promise((resolve) => {
    const command = ['--import', 'tsx', program, ...args];
    execFile(process.execPath, command, { cwd: repositoryPath }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

test('wrong options end with 2 and the usage', async () => {
  const wrong = [
    [],
    ['--url', 'ftp://exchange.test'],
    ['--url', 'foo'],
    ['--url', 'http://127.0.0.1:1', '--rate', 'fast'],
    ['--url', 'http://127.0.0.1:1', '--realtime', 'http://127.0.0.1:1'],
    ['--url', 'http://127.0.0.1:1', '--keys', '/no/such/file'],
    ['--url', 'http://127.0.0.1:1', '--allow-orders'],
    ['--nothing'],
  ];
  for (const args of wrong) {
    const { code, stderr, stdout } = await run(...args);
    assert.ok(!stderr.includes('baseUrl'), stderr);
    assert.equal(code, 2, args.join(' '));
    assert.match(stderr, /Usage: npm run conformance/);
    assert.equal(stdout, '');
  }
  const { code, stdout } = await run('--help');
  assert.equal(code, 0);
  assert.match(stdout, /--max-requests/);
  assert.match(stdout, /^ {2}differs .*\n(.*\n)*Exit codes\n {2}0 /m);
});

test('an exchange that conforms ends with 0, as text and as JSON', async (t) => {
  const { server } = await startJudged(t);
  const fast = ['--url', server.url, '--rate', '1000'];
  const text = await run(...fast, '--realtime', server.realtimeUrl, '--market', 'ETH_BTC');
  assert.equal(text.code, 0, text.stderr);
  assert.match(text.stdout, /^pass {5}realtime\.update /m);
  assert.match(text.stdout, /^all +\d+ +0 +0 +\d+$/m);
  assert.match(text.stdout, /ETH_BTC$/m);
  const keys = join(await temporaryFolder(t), 'keys.json');
  const inactive = { apiKey: 'key-2', secret: 'secret-2' };
  await writeFile(keys, JSON.stringify({ apiKey: 'key-1', secret: 'secret-1', inactive }));
  const json = await run(...fast, '--json', '--only', 'auth.', '--keys', keys);
  assert.equal(json.code, 0, json.stderr);
  const { counts, cases } = JSON.parse(json.stdout) as { counts: object; cases: object[] };
  assert.deepEqual(counts, { pass: cases.length, fail: 0, differs: 0, skipped: 0 });
  assert.ok(cases.length > 20);
  assert.ok(!json.stdout.includes('secret-1'));
});

test('an exchange that does not conform, or is none, ends with 1', async (t) => {
  const { server } = await startJudged(t);
  const stub = await startHttpStub(t, (request, response) => {
    void fetch(server.url + request.url).then(async (answer) => {
      const body = (await answer.json()) as Record<string, unknown>;
      sendJson(response, { ...body, code: 1 }, answer.status);
    });
  });
  const failed = await run('--url', stub.baseUrl, '--rate', '1000', '--only', 'markets.');
  assert.equal(failed.code, 1);
  assert.match(failed.stdout, /^fail {5}markets\.reply .*\n +server: code is 1$/m);
  assert.match(failed.stdout, /^failed by the server: 1 cases$/m);
  const unknown = await run('--url', server.url, '--market', 'NO_SUCH');
  assert.equal(unknown.code, 1);
  assert.match(unknown.stderr, /no market NO_SUCH; there are BTC_USDT/);
  const nobody = await run('--url', 'http://127.0.0.1:1');
  assert.equal(nobody.code, 1);
  assert.match(nobody.stderr, /cannot be used/);
});
