import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import test, { type TestContext } from 'node:test';
import { systemClock } from '../../../src/kernel/clock.js';
import { FileLock, type FileLockOptions } from '../../../src/kernel/file-lock.js';
import { birthOf, isZombie } from '../../../src/kernel/processes.js';
import { seededRandom } from '../../../src/kernel/random.js';
import { temporaryFolder } from '../../support/exchanges/tape-exchange.js';
import { FakeClock } from '../../support/fake-clock.js';

function lockAt(path: string, options: Partial<FileLockOptions> = {}): FileLock {
  const refusal = (holder: string) => new Error(`held by ${holder}`);
  const shared = { clock: systemClock, random: seededRandom(1), waitMs: 60_000, refusal };
  return new FileLock({ ...shared, path, ...options });
}

async function lockPath(t: TestContext): Promise<string> {
  return join(await temporaryFolder(t), 'key.lock');
}

test('the lock of a process that is gone is taken at once, by one of many', async (t) => {
  const path = await lockPath(t);
  const { pid } = spawnSync(process.execPath, ['-e', '']);
  await writeFile(path, `${pid} ${hostname()} - word\n`);
  let holders = 0;
  let most = 0;
  await Promise.all(
    Array.from({ length: 20 }, async (_, seed) => {
      const lock = lockAt(path, { random: seededRandom(seed) });
      const release = await lock.acquire();
      holders += 1;
      most = Math.max(most, holders);
      await new Promise((resolve) => setImmediate(resolve));
      holders -= 1;
      await release();
    }),
  );
  assert.equal(most, 1);
  await assert.rejects(stat(path), { code: 'ENOENT' });
});

/** Moves the clock on, as long as it takes, in steps as small as a look; the disk keeps up. */
async function runUntil(clock: FakeClock, done: () => boolean): Promise<void> {
  while (!done()) {
    await clock.run(20);
    await stat(import.meta.filename);
  }
}

test('a holder elsewhere keeps its lock while it gives signs of life, and loses it after', async (t) => {
  const path = await lockPath(t);
  const clock = new FakeClock();
  const random = seededRandom(3);
  const holder = await lockAt(path, { clock, random, leaseMs: 4000 }).acquire();
  const text = await readFile(path, 'utf8');
  // As seen from another machine: nobody can ask for the process.
  await writeFile(path, text.replace(hostname(), 'elsewhere'));
  let isTaken = false;
  const taking = lockAt(path, { clock, random, leaseMs: 4000 })
    .acquire()
    .then((release) => {
      isTaken = true;
      return release;
    });
  const startMs = clock.monotonicMs();
  await runUntil(clock, () => clock.monotonicMs() - startMs > 12_000);
  assert.equal(isTaken, false, 'its signs of life go on');
  await holder();
  await runUntil(clock, () => isTaken);
  await (await taking)();
  await assert.rejects(stat(path), { code: 'ENOENT' });
});

test('waiting ends with the name of the holder, or when it is given up', async (t) => {
  const path = await lockPath(t);
  const random = seededRandom(4);
  const clock = new FakeClock();
  const release = await lockAt(path, { clock, random }).acquire();
  const stopping = new AbortController();
  const given = lockAt(path, { clock, random }).acquire(stopping.signal);
  stopping.abort(new Error('enough'));
  await assert.rejects(given, /enough/);
  let failure: unknown;
  const waited: string[] = [];
  const onWait = (holder: string) => waited.push(holder);
  const impatient = lockAt(path, { clock, random, waitMs: 3000, onWait }).acquire();
  impatient.catch((error: unknown) => {
    failure = error;
  });
  await runUntil(clock, () => failure !== undefined);
  await assert.rejects(impatient, new RegExp(`held by process ${process.pid} on `));
  assert.deepEqual(waited, [`process ${process.pid} on ${hostname()}`], 'it was reported, once');
  await release();
});

/** Takes what is silent for a lease, in a time that passes at once. */
async function takeSilent(path: string): Promise<() => Promise<void>> {
  const clock = new FakeClock();
  let isOver = false;
  const taking = lockAt(path, { clock, leaseMs: 1000, waitMs: 30_000 }).acquire();
  const over = () => {
    isOver = true;
  };
  taking.then(over, over);
  await runUntil(clock, () => isOver);
  return await taking;
}

test('a lock of this process id that an earlier process wrote is taken at once, one of a process that runs is not', async (t) => {
  const birth = await birthOf(process.pid);
  if (birth === '') return t.skip('no births of processes here');
  const path = await lockPath(t);
  await writeFile(path, `${process.pid} ${hostname()} ${birth}7 word\n`);
  await (await lockAt(path, { waitMs: 0 }).acquire())();
  // It may be frozen: it gives no sign of life, and holds its lock.
  const frozen = spawn('sleep', ['60']);
  t.after(() => frozen.kill('SIGKILL'));
  const pid = frozen.pid ?? assert.fail();
  await writeFile(path, `${pid} ${hostname()} ${await birthOf(pid)} word\n`);
  await assert.rejects(takeSilent(path), /held by process/);
});

test('a lock of this process that it does not hold any more is let go of after a lease', async (t) => {
  const path = await lockPath(t);
  const release = await lockAt(path).acquire();
  await assert.rejects(takeSilent(path), /held by process/, 'it holds it');
  const text = await readFile(path, 'utf8');
  await release();
  // As where it could not be removed.
  await writeFile(path, text);
  await (await takeSilent(path))();
});

test('a holder that has ended, and that its parent does not collect, holds nothing', {
  timeout: 20_000,
}, async (t) => {
  if ((await birthOf(process.pid)) === '') return t.skip('no births of processes here');
  const path = await lockPath(t);
  // The shell becomes a program that never asks for its children; before that it might ask for this one.
  const parent = spawn('sh', ['-c', 'sh -c "read _" <&3 & echo $!; exec sleep 60'], {
    stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
  });
  t.after(() => parent.kill('SIGKILL'));
  const [said] = (await once(parent.stdout as Readable, 'data')) as [Buffer];
  const pid = Number(said.toString());
  // No event says so; each look reads a file.
  const nameOf = () => readFile(`/proc/${parent.pid}/comm`, 'utf8');
  for (let name = ''; name !== 'sleep\n'; ) name = await nameOf();
  (parent.stdio[3] as Writable).end('\n');
  for (let isEnded = false; !isEnded; ) isEnded = await isZombie(pid);
  await writeFile(path, `${pid} ${hostname()} ${await birthOf(pid)} word\n`);
  await (await lockAt(path, { waitMs: 0 }).acquire())();
});
