import assert from 'node:assert/strict';
import { appendFile, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { filesBelow } from '../../src/archive/cold/folder.js';
import { readColdManifest } from '../../src/archive/cold/manifest.js';
import { type MoveReport, moveColdFiles } from '../../src/archive/cold/moving.js';
import { type ColdStorage, FolderStorage } from '../../src/archive/cold/storage.js';
import { runCommand } from '../support/programs/commands.js';
import { openBucket } from '../support/s3/bucket-world.js';
import { S3StandIn } from '../support/s3/s3-stand-in.js';
import { startVersitygw } from '../support/s3/versitygw.js';
import { mountSmallDisk } from '../support/small-disk.js';
import { makeFolder } from '../support/worlds/export-world.js';
import {
  allTrades,
  bringBack,
  DAY_MS,
  FIRST_MS,
  live,
  openSealingWorld,
  type SealingWorld,
  tradePartitions,
} from '../support/worlds/sealing-world.js';

/** Cold files that change their place, and an archive that changes its place with them. */

const COLD = { coldAfterMs: DAY_MS };
const MARKER = 'archive.json';

interface World extends SealingWorld {
  readonly source: ColdStorage;
  readonly target: ColdStorage;
  readonly rows: readonly object[];
}

async function openWorld(t: TestContext): Promise<World> {
  const world = await openSealingWorld(t, 10);
  const rows = await allTrades(world.url);
  await live(world, { rules: COLD });
  const target = new FolderStorage(join(await makeFolder(t), 'moved'));
  return { ...world, source: new FolderStorage(world.coldDir), target, rows };
}

interface Choice {
  readonly from?: ColdStorage;
  readonly to?: ColdStorage;
  readonly isRemoving?: boolean;
  readonly onProgress?: () => void;
  readonly signal?: AbortSignal;
}

async function move(world: World, choice: Choice = {}): Promise<MoveReport> {
  const { from = world.source, to = world.target, isRemoving = false } = choice;
  return await moveColdFiles({
    ...{ store: world.store, source: from, target: to, isRemoving },
    signal: choice.signal ?? new AbortController().signal,
    onProgress: choice.onProgress ?? (() => undefined),
  });
}

const filesOf = async ({ name }: ColdStorage) =>
  (await filesBelow(name)).filter((path) => path !== MARKER).sort();
const markerOf = async ({ name }: ColdStorage) =>
  JSON.parse(await readFile(join(name, MARKER), 'utf8'));

/** All files that the ledger names are whole in a place, and bring all rows back. */
async function assertWhole({ store }: World, cold: ColdStorage): Promise<void> {
  for (const { uri } of await tradePartitions(store)) {
    const { files } = await readColdManifest(cold, uri ?? '');
    for (const file of files) await cold.check(file.path, file);
  }
}

const at = (world: World, cold: ColdStorage) => ({ ...world, coldDir: cold.name });
const codesOf = ({ failures }: Awaited<ReturnType<typeof live>>) =>
  failures.map(({ error }) => error.code);

test('moves there and back, and the archive follows', async (t) => {
  const world = await openWorld(t);
  const { source, target, rows } = world;
  const there = await filesOf(source);
  const first = await move(world);
  assert.deepEqual(
    [first.partitions, first.copied, first.found, first.wrong, first.removed],
    [3, 6, 0, [], 0],
  );
  assert.deepEqual(await filesOf(target), there);
  assert.deepEqual(await filesOf(source), there);
  await assertWhole(world, target);

  // The old place is only read, and says where the files are.
  const old = await live(world, { rules: COLD });
  assert.deepEqual(codesOf(old), ['cold_refused']);
  assert.match(
    old.failures[0]?.error.message ?? '',
    /moved from .* to .*moved; nothing was written or deleted there: set cold\.dir \(TAPEKEEP_COLD_DIR\) to .*moved, without cold\.url$/,
  );
  assert.deepEqual(await bringBack(at(world, target)).then(codesOf), []);
  assert.deepEqual(await allTrades(world.url), rows);
  assert.deepEqual(await live(at(world, target), { rules: COLD }).then(codesOf), []);

  const back = await move(world, { from: target, to: source, isRemoving: true });
  assert.deepEqual([back.copied, back.found, back.removed], [0, 6, there.length]);
  assert.deepEqual(await filesOf(target), []);
  assert.equal((await markerOf(target)).movedTo, source.name);
  assert.equal((await markerOf(source)).movedTo, undefined);
  assert.deepEqual(await live(world, { rules: COLD }).then(codesOf), []);
});

test('another run copies what is missing or damaged in the target', async (t) => {
  const world = await openWorld(t);
  await move(world);
  const [first = '', second = ''] = await filesOf(world.target);
  await appendFile(join(world.target.name, first), 'x');
  await rm(join(world.target.name, second));
  const again = await move(world, { isRemoving: true });
  assert.deepEqual([again.copied, again.found], [2, 4]);
  await assertWhole(world, world.target);
  assert.deepEqual(await filesOf(world.source), []);
  // The target is where the files are: a source without them is no reason to fail.
  const last = await move(world, { isRemoving: true });
  assert.deepEqual([last.copied, last.found, last.removed, last.wrong], [0, 6, 0, []]);
});

test('a partition that was archived after the move is found in the target', async (t) => {
  const world = await openSealingWorld(t, 10);
  const isOf = (n: number) => (one: { span: { fromMs: number } }) =>
    one.span.fromMs === FIRST_MS + n * DAY_MS;
  await live(world, { rules: COLD, isChosen: isOf(0) });
  const target = new FolderStorage(await makeFolder(t));
  const moved = { ...world, source: new FolderStorage(world.coldDir), target, rows: [] };
  await move(moved);
  await live(at(moved, target), { rules: COLD, isChosen: isOf(1) });
  const removing = await move(moved, { isRemoving: true });
  assert.deepEqual([removing.wrong, removing.found, removing.removed], [[], 4, 3]);
});

test('a damaged source is named, keeps its place, and loses nothing', async (t) => {
  const world = await openWorld(t);
  const { source, target } = world;
  const there = await filesOf(source);
  const damaged = there.find((path) => path.startsWith('kind=')) ?? '';
  const missing = there.find((path) => path.startsWith('manifests/')) ?? '';
  const kept = {
    damaged: await readFile(join(source.name, damaged)),
    missing: await readFile(join(source.name, missing)),
  };
  await writeFile(join(source.name, damaged), kept.damaged.fill(0, 8, 16));
  await rm(join(source.name, missing));
  const first = await move(world, { isRemoving: true });
  const wrong = first.wrong.join('\n');
  assert.match(wrong, /^trade_20260113: .*manifests\/trade\/trade_20260113\.json is not there/m);
  assert.ok(first.removed === 0 && (await filesOf(source)).length === there.length - 1);
  assert.equal((await markerOf(source)).movedTo, undefined);
  assert.equal((await markerOf(target)).movingFrom, source.name);
  const early = await live(at(world, target), { rules: COLD });
  assert.match(
    early.failures[0]?.error.message ?? '',
    /has not ended; .*run "tapekeep cold move --from /,
  );
  await writeFile(join(source.name, missing), kept.missing);
  const second = await move(world, { isRemoving: true });
  assert.deepEqual(second.wrong.length, 1);
  assert.ok(second.wrong[0]?.includes(damaged), wrong);
  assert.match(second.wrong[0] ?? '', /is not what was written: its sha256 is/);
  assert.equal(second.removed, 0);
  assert.deepEqual(await filesOf(source), there);
});

test('a copy of rows that are in the database is left behind when damaged', async (t) => {
  const world = await openWorld(t);
  const { source, target } = world;
  await bringBack(world, { isChosen: ({ span }) => span.fromMs === FIRST_MS });
  const [spare] = await tradePartitions(world.store);
  const { files } = await readColdManifest(source, spare?.uri ?? '');
  await appendFile(join(source.name, files[0]?.path ?? ''), 'x');
  const report = await move(world, { isRemoving: true });
  assert.deepEqual([report.partitions, report.wrong], [2, []]);
  assert.match(report.passedOver.join(), /^trade_20260113: .* bytes and not /);
  // The ledger still names them.
  assert.deepEqual(
    await filesOf(source),
    [spare?.uri ?? '', ...files.map(({ path }) => path)].sort(),
  );
  assert.deepEqual(await live(at(world, target), { rules: COLD }).then(codesOf), []);
  await assertWhole(world, target);
});

test('places that are not for this archive are refused', async (t) => {
  const world = await openWorld(t);
  const { source } = world;
  const other = await openWorld(t);
  const files = await filesOf(other.source);
  await assert.rejects(move(world, { to: other.source }), {
    code: 'cold_refused',
    message: /belongs to the database .*; nothing was copied: name an empty place/,
  });
  assert.deepEqual(await filesOf(other.source), files);
  assert.equal((await markerOf(other.source)).movingFrom, undefined);

  const strange = new FolderStorage(await makeFolder(t));
  await mkdir(join(strange.name, 'kind=trades'), { recursive: true });
  await writeFile(join(strange.name, 'kind=trades/x.parquet'), '');
  await assert.rejects(move(world, { to: strange }), { code: 'cold_refused' });
  const link = new FolderStorage(join(await makeFolder(t), 'link'));
  await symlink(source.name, link.name);
  await assert.rejects(move(world, { to: link, isRemoving: true }), {
    code: 'cold_refused',
    message: /link is .*, where the cold files are: name another place/,
  });
  assert.deepEqual((await filesBelow(source.name)).includes('.move'), false);
  await assertWhole(world, source);
  // Files of another archive may be copied by the ledger's names, and not deleted.
  await assert.rejects(move(world, { from: other.source, isRemoving: true }), {
    code: 'cold_refused',
    message: /does not belong to this database, and nothing is deleted there/,
  });
  assert.deepEqual(await filesOf(other.source), files);
});

test('a move waits for no other work on partitions, and keeps it out', async (t) => {
  const world = await openWorld(t);
  const admin = await world.store.sealing.open(new AbortController().signal);
  await assert.rejects(move(world), { code: 'sealing_busy' });
  await admin.close();
  const tries: Promise<unknown>[] = [];
  const onProgress = () => {
    if (tries.length > 0) return;
    tries.push(assert.rejects(live(world, { rules: COLD }), { code: 'sealing_busy' }));
  };
  // The last marker waits until the other work was refused.
  await move(world, { onProgress, to: heldBack(world.target, () => Promise.all(tries)) });
  assert.equal((await Promise.all(tries)).length, 1);
});

/** A place whose marker comes after something else. */
function heldBack(cold: ColdStorage, first: () => Promise<unknown>): ColdStorage {
  const held = Object.create(cold) as ColdStorage;
  held.putText = async (path, text, condition) => {
    if (path === MARKER) await first();
    await cold.putText(path, text, condition);
  };
  return held;
}

test('a move that is stopped continues', async (t) => {
  const world = await openWorld(t);
  const stopping = new AbortController();
  let calls = 0;
  const onProgress = () => {
    calls += 1;
    if (calls === 2) stopping.abort(new Error('enough'));
  };
  await assert.rejects(move(world, { signal: stopping.signal, onProgress }), /enough/);
  const copied = (await filesOf(world.target)).filter((path) => path.startsWith('kind=')).length;
  assert.ok(copied > 0 && copied < 6, String(copied));
  const report = await move(world);
  assert.deepEqual([report.found, report.copied], [copied, 6 - copied]);
  await assertWhole(world, world.target);
});

test('a full target leaves the source in use', async (t) => {
  const disk = await mountSmallDisk(t, 1);
  if (disk === undefined) return;
  const world = await openWorld(t);
  const target = new FolderStorage(join(disk.path, 'cold'));
  await mkdir(target.name);
  await disk.fill();
  await assert.rejects(move(world, { to: target, isRemoving: true }), {
    code: 'cold_disk_full',
    message: /no space is left for the move to .*nothing was deleted\. Free some/,
  });
  await disk.free();
  assert.deepEqual(await live(world, { rules: COLD }).then(codesOf), []);
  const report = await move(world, { to: target, isRemoving: true });
  assert.deepEqual([report.wrong, report.copied + report.found], [[], 6]);
  await assertWhole(world, target);
});

test('moves into a bucket and on to a folder', async (t) => {
  const store = await S3StandIn.start(t);
  const world = await openWorld(t);
  const bucket = await openBucket(t, { endpoint: store.endpoint });
  const first = await move(world, { to: bucket, isRemoving: true });
  assert.deepEqual([first.copied, first.wrong, first.removed], [6, [], 9]);
  await assertWhole(world, bucket);
  const manifests = store.done.findIndex((line) => line.startsWith('PUT one/manifests/'));
  assert.ok(manifests > store.done.findIndex((line) => line.startsWith('PUT one/kind=')));
  assert.match(store.done.findLast((line) => line.startsWith('PUT')) ?? '', /archive\.json$/);
  const [lost = ''] = [...store.objects.keys()].filter((key) => key.startsWith('one/kind='));
  store.fault = ({ method, key }) => (method === 'GET' && key === lost ? 'other bytes' : undefined);
  // The cache of the first one has a whole copy.
  const cold = await openBucket(t, { endpoint: store.endpoint });
  const stopped = await move(world, { from: cold, isRemoving: true });
  assert.equal(stopped.wrong.length, 1, stopped.wrong.join('\n'));
  assert.ok(stopped.wrong[0]?.includes(lost.slice('one/'.length)), stopped.wrong.join());
  assert.ok(store.objects.has(lost));
  store.fault = () => undefined;
  const again = await move(world, { from: cold, isRemoving: true });
  assert.deepEqual([again.copied, again.found, again.wrong, again.removed], [1, 5, [], 9]);
  await assertWhole(world, world.target);
});

test('moves between prefixes of versitygw', async (t) => {
  const endpoint = await startVersitygw(t);
  if (endpoint === undefined) return;
  const world = await openWorld(t);
  const cacheDir = await makeFolder(t, 'cold-cache');
  const one = await openBucket(t, { endpoint, cacheDir });
  const two = await openBucket(t, { endpoint, cacheDir, prefix: 'two/deep' });
  const places = [world.source, one, two, world.target, world.source];
  for (const [at, to] of places.entries()) {
    const from = places[at - 1];
    if (from === undefined) continue;
    const { copied, found, wrong, removed } = await move(world, { from, to, isRemoving: true });
    assert.deepEqual([copied, found, wrong, removed], [6, 0, [], 9], `${from.name} to ${to.name}`);
    await assertWhole(world, to);
  }
  assert.deepEqual(await live(world, { rules: COLD }).then(codesOf), []);
  assert.deepEqual(await live(world, { rules: COLD, cold: two }).then(codesOf), ['cold_refused']);
});

test('files that a daemon may read are not deleted', async (t) => {
  const world = await openWorld(t);
  const { source, target } = world;
  await world.store.acquireWriterLock();
  const env = { TAPEKEEP_DATABASE_URL: world.url, TAPEKEEP_COLD_DIR: source.name };
  const removing = ['cold', 'move', target.name, '--remove-source'];
  const early = await runCommand(removing, env);
  assert.equal(early.code, 3, early.err);
  assert.match(
    early.err,
    /a daemon reads the files in .*, and nothing was copied or deleted: stop/,
  );
  const moved = await runCommand(['cold', 'move', target.name], env);
  assert.equal(moved.code, 0, moved.err);
  assert.match(moved.out, /^Cold files of 3 partitions from .* are in .*moved: 6 files, 1 MB\.$/m);
  assert.match(
    moved.out,
    /^Next: set cold\.dir \(TAPEKEEP_COLD_DIR\) to .*, and restart the daemon/m,
  );
  const next = /then delete the files in .*: tapekeep (.*)\.$/m.exec(moved.out)?.[1] ?? '';
  const last = await runCommand(next.split(' '), { ...env, TAPEKEEP_COLD_DIR: target.name });
  assert.equal(last.code, 0, last.err);
  assert.match(last.out, /^9 files deleted in /m);
  assert.doesNotMatch(last.out, /Next/);
  const wrong = await runCommand(['cold', 'move', 'http://x/y'], env);
  assert.equal(wrong.code, 2);
  assert.match(wrong.err, /<target>: "http:\/\/x\/y" is not allowed; name a folder, or s3:/);
});
