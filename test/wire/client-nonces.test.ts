import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { successEnvelope } from '../../src/contract/error-shapes.js';
import {
  defaultNonceFolder,
  ExchangeClient,
  type ExchangeClientSettings,
  NonceFileError,
} from '../../src/index.js';
import { systemClock } from '../../src/kernel/clock.js';
import { openLive } from '../../src/sandbox/live/open-live.js';
import { STILL_MARKET } from '../support/exchanges/live-exchange.js';
import { serve } from '../support/exchanges/served.js';
import { type SeenRequest, sendJson, startHttpStub } from '../support/exchanges/stub-server.js';
import { temporaryFolder } from '../support/exchanges/tape-exchange.js';
import type { NonceChildOrder } from '../support/programs/client-nonces-child.js';

const credentials = { apiKey: 'canary-key-77', secret: 'canary-secret-77' };
const FAST = { requestsPerS: 1000, burst: 1000, credentials };
const COUNT = 25;

const nonceOf = ({ body }: SeenRequest) => (JSON.parse(body) as { nonce: number }).nonce;

test('two clients of one key here and one in another process are never refused', async (t) => {
  const { apiKey: key, secret } = credentials;
  const keys = [{ key, secret, balances: { AAA: '1000' } }];
  const backend = await openLive({ runId: 'test', markets: [STILL_MARKET], keys }, systemClock);
  const { server, record } = await serve(t, backend, systemClock);
  const home = await temporaryFolder(t);
  const folder = defaultNonceFolder(home);
  const child = fork(join(import.meta.dirname, '../support/programs/client-nonces-child.ts'), {
    env: { ...process.env, HOME: home },
  });
  t.after(() => child.kill());
  const baseUrl = server.url;
  child.send({ baseUrl, credentials, count: COUNT } satisfies NonceChildOrder);
  const told = once(child, 'message') as Promise<[string[]]>;
  const clients = [1, 2].map(() => new ExchangeClient({ baseUrl, ...FAST, nonces: { folder } }));
  const askAll = () =>
    clients.flatMap((client) => Array.from({ length: COUNT }, () => client.balances()));
  await Promise.all(askAll());
  // The other process may have started late: both go on until it has ended.
  let isTold = false;
  const ending = told.then(() => {
    isTold = true;
  });
  while (!isTold) await Promise.all(clients.map((client) => client.balances()));
  await ending;
  assert.deepEqual((await told)[0], []);
  assert.ok(record.requests.length >= 3 * COUNT);
  assert.deepEqual([...new Set(record.requests.map(({ status }) => status))], [200]);
  await Promise.all(clients.map((client) => client.close()));
  assert.equal((await readdir(folder)).length, 1, 'one file, and no lock is left');
});

/** A server that answers balances and counts how many are asked for at once. */
async function startCounting(t: test.TestContext) {
  const counts = { underWay: 0, most: 0 };
  const stub = await startHttpStub(t, (_request, response) => {
    counts.underWay += 1;
    counts.most = Math.max(counts.most, counts.underWay);
    setImmediate(() => {
      counts.underWay -= 1;
      sendJson(response, successEnvelope({}));
    });
  });
  const open = (settings: Partial<ExchangeClientSettings>) => {
    const client = new ExchangeClient({ baseUrl: stub.baseUrl, ...FAST, ...settings });
    t.after(() => client.close());
    return client;
  };
  return { stub, counts, open };
}

for (const place of ['file', 'memory'] as const) {
  test(`clients of one key sign one at a time, nonces kept in ${place}`, async (t) => {
    const { stub, counts, open } = await startCounting(t);
    const nonces = place === 'memory' ? place : { folder: join(await temporaryFolder(t), 'n') };
    const clients = [open({ nonces }), open({ nonces }), open({ nonces })];
    const calls = clients.flatMap((client) => Array.from({ length: 10 }, () => client.balances()));
    await Promise.all(calls);
    await Promise.all(clients.map((client) => client.close()));
    await open({ nonces }).balances();
    const seen = stub.seen.map(nonceOf);
    assert.equal(counts.most, 1);
    assert.equal(seen.length, 31);
    assert.deepEqual(
      seen,
      [...new Set(seen)].toSorted((a, b) => a - b),
      'rising in the order of arrival',
    );
  });
}

test('another key does not wait, and one client that is given up holds nobody back', async (t) => {
  const { stub, open } = await startCounting(t);
  const nonces = { folder: join(await temporaryFolder(t), 'n') };
  const [first, second] = [open({ nonces }), open({ nonces })];
  const stopping = new AbortController();
  const given = [first, second].map((client) => client.balances({ signal: stopping.signal }));
  stopping.abort(new Error('enough'));
  for (const call of given) await assert.rejects(call, /enough/);
  const other = open({ nonces, credentials: { apiKey: 'another', secret: 'x' } });
  await Promise.all([other.balances(), second.balances()]);
  assert.equal(new Set(stub.seen.map(({ headers }) => headers['x-txc-apikey'])).size, 2);
});

test('after a restart the nonce is above the former, though the clock is behind', async (t) => {
  const { stub, open } = await startCounting(t);
  const folder = join(await temporaryFolder(t), 'nonces');
  await open({ nonces: { folder } }).balances();
  const [file = ''] = await readdir(folder);
  const path = join(folder, file);
  assert.equal(Number(await readFile(path, 'utf8')), nonceOf(stub.seen[0] as SeenRequest));
  // As another process would have left it, whose clock was an hour ahead.
  const ahead = nonceOf(stub.seen[0] as SeenRequest) + 3_600_000;
  await writeFile(path, `${ahead}\n`);
  await open({ nonces: { folder } }).balances();
  assert.equal(nonceOf(stub.seen[1] as SeenRequest), ahead + 1);
  assert.equal(await readFile(path, 'utf8'), `${ahead + 1}\n`);
});

test('a saved nonce that no other can follow is named with its file', async (t) => {
  const { stub, open } = await startCounting(t);
  const folder = join(await temporaryFolder(t), 'nonces');
  await open({ nonces: { folder } }).balances();
  const [file = ''] = await readdir(folder);
  const path = join(folder, file);
  await writeFile(path, '9999999999999\n');
  await assert.rejects(open({ nonces: { folder } }).balances(), (error: Error) => {
    assert.equal((error as Error & { code: string }).code, 'nonce_exhausted');
    assert.ok(error.message.includes(`delete ${path} if the clock is right`), error.message);
    return true;
  });
  assert.equal(stub.seen.length, 1);
});

test('a place that cannot be written is named, and nothing is signed', async (t) => {
  const { stub, open } = await startCounting(t);
  const blocked = join(await temporaryFolder(t), 'file');
  await writeFile(blocked, '');
  const client = open({ nonces: { folder: join(blocked, 'nonces') } });
  await assert.rejects(client.balances(), (error) => {
    assert.ok(error instanceof NonceFileError);
    assert.equal(error.action, 'fatal');
    assert.match(error.message, /option nonces/);
    return true;
  });
  assert.deepEqual(stub.seen, []);
  await mkdir(`${blocked}-2`);
  await open({ nonces: { folder: `${blocked}-2` } }).balances();
});

test('the usual place is one of the user, by platform', () => {
  assert.equal(defaultNonceFolder('/home/u', 'linux'), '/home/u/.local/state/tapekeep/nonces');
  const mac = '/Users/u/Library/Application Support/tapekeep/nonces';
  assert.equal(defaultNonceFolder('/Users/u', 'darwin'), mac);
});
