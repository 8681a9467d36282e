import assert from 'node:assert/strict';
import { cp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { filesBelow } from '../../../src/archive/cold/folder.js';
import { readColdManifest } from '../../../src/archive/cold/manifest.js';
import { type ColdStorage, FolderStorage } from '../../../src/archive/cold/storage.js';
import { runSql } from '../../support/postgres/postgres.js';
import { runCommand } from '../../support/programs/commands.js';
import { preloadAddress } from '../../support/programs/plain-child.js';
import { Program } from '../../support/programs/program.js';
import { openBucket } from '../../support/s3/bucket-world.js';
import { S3StandIn } from '../../support/s3/s3-stand-in.js';
import { CREDENTIALS } from '../../support/s3/versitygw.js';
import { makeFolder } from '../../support/worlds/export-world.js';
import {
  DAY_MS,
  live,
  openSealingWorld,
  type SealingWorld,
  tradePartitions,
} from '../../support/worlds/sealing-world.js';

/** The command that moves cold files, killed at any step: the next run ends what it began, and nothing is lost. */

const PRELOAD = preloadAddress(
  join(import.meta.dirname, '../../support/programs/fs-steps-child.ts'),
);
const MARKER = 'archive.json';
/** Kills of each world, spread over all steps. */
const KILLS = 8;

interface World extends SealingWorld {
  readonly env: Readonly<Record<string, string>>;
  /** Copy of the cold folder as it was. */
  readonly kept: string;
}

async function openWorld(t: TestContext): Promise<World> {
  const world = await openSealingWorld(t, 10);
  await live(world, { rules: { coldAfterMs: DAY_MS } });
  const kept = join(await makeFolder(t), 'kept');
  await cp(world.coldDir, kept, { recursive: true });
  const env = {
    ...{ TAPEKEEP_DATABASE_URL: world.url, TAPEKEEP_COLD_DIR: world.coldDir },
    ...{ TAPEKEEP_DATA_DIR: await makeFolder(t), ...CREDENTIALS },
  };
  return { ...world, env, kept };
}

/** Puts the source back as it was. */
async function reset({ coldDir, kept }: World): Promise<void> {
  await rm(coldDir, { recursive: true });
  await cp(kept, coldDir, { recursive: true });
}

/** A killed program has lost its locks when the server has noticed. */
async function waitForLocks({ url }: World): Promise<void> {
  await runSql(
    url,
    `SELECT pg_advisory_lock(token), pg_advisory_unlock(token) FROM exclusive_lock
     WHERE name IN ('sealing', 'writer')`,
  );
}

/** Every partition whose files the ledger names is whole in one of the places. */
async function assertKept({ store }: World, places: readonly ColdStorage[]): Promise<void> {
  for (const { name, uri } of await tradePartitions(store)) {
    const found = places.map(async (cold) => {
      const { files } = await readColdManifest(cold, uri ?? '');
      for (const file of files) await cold.check(file.path, file);
    });
    await assert.doesNotReject(Promise.any(found), `${name} is lost`);
  }
}

/**
 * Numbers of the steps at which a program of so many is killed. The last one comes before the end: the number of steps
 * varies by a few.
 */
const killsOf = (steps: number) =>
  Array.from({ length: KILLS }, (_, n) => 1 + Math.floor((n * 0.8 * (steps - 1)) / (KILLS - 1)));

async function assertMoved(world: World, target: ColdStorage): Promise<void> {
  await assertKept(world, [target]);
  assert.deepEqual(await filesBelow(world.coldDir), [MARKER]);
  const marker = await readFile(join(world.coldDir, MARKER), 'utf8');
  assert.equal(JSON.parse(marker).movedTo, target.name);
  assert.doesNotMatch((await target.readText(MARKER)).text, /moved|moving/);
}

test('killed at steps of a move from folder to folder', { timeout: 600_000 }, async (t) => {
  const world = await openWorld(t);
  const target = new FolderStorage(join(await makeFolder(t), 'moved'));
  const args = ['cold', 'move', target.name, '--remove-source', '--json'];
  const start = (steps: string) =>
    new Program(args, {
      env: { ...world.env, NODE_OPTIONS: `--import=${PRELOAD}`, FS_STEPS: steps },
    });
  const whole = start('list');
  assert.equal((await whole.ended()).code, 0, whole.dump());
  const steps = whole.lines.stderr.filter((line) => line.startsWith('step ')).length;
  t.diagnostic(`${steps} steps`);
  await assertMoved(world, target);
  for (const step of killsOf(steps)) {
    await rm(target.name, { recursive: true });
    await reset(world);
    const killed = start(`SIGKILL:${step}`);
    assert.equal((await killed.ended()).signal, 'SIGKILL', killed.dump());
    const source = new FolderStorage(world.coldDir);
    await assertKept(world, [source, target]);
    await waitForLocks(world);
    const next = await runCommand(args, world.env);
    assert.equal(next.code, 0, next.err);
    await assertMoved(world, target);
  }
});

test('killed at requests of a move from folder to bucket, and back', async (t) => {
  const world = await openWorld(t);
  const store = await S3StandIn.start(t);
  const target = await openBucket(t, { endpoint: store.endpoint });
  const source = new FolderStorage(world.coldDir);
  const bucket = ['--endpoint', store.endpoint, '--path-style'];
  const args = ['cold', 'move', target.name, '--remove-source', '--json', ...bucket];
  let requests = 0;
  let fatal = 0;
  let running: Program | undefined;
  store.fault = () => {
    requests += 1;
    if (requests !== fatal) return undefined;
    running?.kill('SIGKILL');
    return 'lost response';
  };
  const whole = await runCommand(args, world.env);
  assert.equal(whole.code, 0, whole.err);
  assert.deepEqual(JSON.parse(whole.out).copied, 6);
  const count = requests;
  t.diagnostic(`${count} requests`);
  await assertMoved(world, target);
  for (const step of killsOf(count)) {
    store.objects.clear();
    await reset(world);
    [requests, fatal] = [0, step];
    running = new Program(args, { env: world.env });
    assert.equal((await running.ended()).signal, 'SIGKILL', running.dump());
    fatal = 0;
    await assertKept(world, [source, target]);
    await waitForLocks(world);
    const next = await runCommand(args, world.env);
    assert.equal(next.code, 0, next.err);
    await assertMoved(world, target);
  }
  const home = ['cold', 'move', '--from', target.name, world.coldDir, '--remove-source'];
  const back = await runCommand([...home, ...bucket], world.env);
  assert.equal(back.code, 0, back.err);
  assert.match(back.out, /6 copied, 0 already there; all match their manifests\./);
  assert.deepEqual([...store.objects.keys()], [`one/${MARKER}`]);
  await assertKept(world, [source]);
});
