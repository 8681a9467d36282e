import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmod, readdir, stat, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { NonceFile, type NonceFileOptions } from '../../../src/client/nonces.js';
import { systemClock } from '../../../src/kernel/clock.js';
import { seededRandom } from '../../../src/kernel/random.js';
import { temporaryFolder } from '../../support/exchanges/tape-exchange.js';

const NONCE = 1_704_070_810_000;
const KEY = 'canary-key-0001';

async function open(t: TestContext, options: Partial<NonceFileOptions> = {}) {
  const folder = options.folder ?? join(await temporaryFolder(t), 'nonces');
  const shared = { clock: systemClock, random: seededRandom(1) };
  return { folder, nonces: new NonceFile({ ...shared, folder, apiKey: KEY, ...options }) };
}

test('the last nonce survives in a file of its owner, which does not name the key', async (t) => {
  const { folder, nonces } = await open(t);
  const release = await nonces.lock();
  assert.equal(await nonces.load(), undefined);
  await nonces.save(NONCE);
  await nonces.save(NONCE + 1);
  await release();
  const [file, ...others] = await readdir(folder);
  assert.deepEqual(others, []);
  assert.match(file ?? '', /^[0-9a-f]{32}$/);
  assert.equal((await stat(join(folder, file ?? ''))).mode & 0o777, 0o600);
  assert.equal((await stat(folder)).mode & 0o777, 0o700);
  const { nonces: restarted } = await open(t, { folder });
  assert.equal(await restarted.load(), NONCE + 1);
  const { nonces: other } = await open(t, { folder, apiKey: 'canary-key-0002' });
  assert.equal(await other.load(), undefined);
});

test('one at a time: fifty savers through ten stores lose no step', async (t) => {
  const { folder, nonces: first } = await open(t);
  await (await first.lock())();
  let holders = 0;
  await Promise.all(
    Array.from({ length: 50 }, async (_, index) => {
      const { nonces } = await open(t, { folder, random: seededRandom(index) });
      const release = await nonces.lock();
      holders += 1;
      assert.equal(holders, 1);
      await nonces.save(((await nonces.load()) ?? NONCE) + 1);
      holders -= 1;
      await release();
      await release();
    }),
  );
  assert.equal(await first.load(), NONCE + 50);
});

test('what a process left that was killed while it saved or locked goes with the next lock', async (t) => {
  const { folder, nonces } = await open(t);
  await (await nonces.lock())();
  await nonces.save(NONCE);
  const [file = ''] = await readdir(folder);
  const { pid: gone } = spawnSync(process.execPath, ['-e', '']);
  const aside = (pid: number | undefined, host: string) =>
    `${file}.lock.${Buffer.from(`${pid} ${host} word\n`).toString('base64url')}.stale`;
  const others = [
    ...[`${'0'.repeat(32)}.7.new`, `${file}.note`],
    // These may still look at what they moved away, and put it back.
    ...[aside(process.pid, hostname()), aside(gone, 'elsewhere')],
  ];
  for (const name of [`${file}.4711.new`, aside(gone, hostname()), ...others])
    await writeFile(join(folder, name), 'half');
  const { nonces: next } = await open(t, { folder });
  await (await next.lock())();
  assert.deepEqual((await readdir(folder)).toSorted(), [file, ...others].toSorted());
  assert.equal(await next.load(), NONCE);
});

test('a damaged file and a folder that cannot be written are named', async (t) => {
  const { folder, nonces } = await open(t);
  await (await nonces.lock())();
  await nonces.save(NONCE);
  const [file = ''] = await readdir(folder);
  await writeFile(join(folder, file), 'what?');
  await assert.rejects(nonces.load(), { code: 'nonce_file', message: /delete it/ });
  const blocked = join(await temporaryFolder(t), 'file');
  await writeFile(blocked, '');
  await chmod(blocked, 0o600);
  const { nonces: nowhere } = await open(t, { folder: join(blocked, 'nonces') });
  await assert.rejects(nowhere.lock(), { code: 'nonce_file', message: /dataDir/ });
});

test('a key with which another program signs for long is named, with the lock that says so', async (t) => {
  const { folder, nonces } = await open(t);
  const release = await nonces.lock();
  const { nonces: impatient } = await open(t, { folder, waitMs: 0 });
  await assert.rejects(impatient.lock(), {
    code: 'nonce_locked',
    action: 'retry',
    message: new RegExp(`process ${process.pid} on .*remove .*\\.lock if there is none`),
  });
  await release();
});
