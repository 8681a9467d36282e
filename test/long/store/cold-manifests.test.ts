import assert from 'node:assert/strict';
import { cp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { filesBelow } from '../../../src/archive/cold/folder.js';
import { parseColdManifest } from '../../../src/archive/cold/manifest.js';
import { FolderStorage } from '../../../src/archive/cold/storage.js';
import { openReading } from '../../../src/archive/reading.js';
import { askRows } from '../../support/worlds/asking.js';
import { archiveDay, type ColdPlace } from '../../support/worlds/cold-world.js';
import { DAYS, openDaysWorld } from '../../support/worlds/days-world.js';
import { makeFolder } from '../../support/worlds/export-world.js';
import { bringBack, DAY_MS, live, openSealingWorld } from '../../support/worlds/sealing-world.js';

/**
 * What becomes of cold files whose manifest is lost or altered: an error that names it, never an
 * answer with less in it. The folder alone is asked, as `query --cold` does.
 */

/** Counts the rows of a kind in the folder alone; returns what was noted beside. */
async function count(coldDir: string, kind: string) {
  const { rows, notes } = await askRows(`SELECT count(*) FROM ${kind}`, null, coldDir);
  return { rows: Number(rows[0]?.[0]), notes };
}

async function openCold(t: TestContext): Promise<ColdPlace> {
  const place = await openDaysWorld(await makeFolder(t));
  for (const day of DAYS) await archiveDay(place, 'trades', day);
  await archiveDay(place, 'depth', DAYS[1]);
  return place;
}

const manifestsOf = async (coldDir: string) =>
  (await filesBelow(coldDir))
    .filter((path) => path.startsWith('manifests/'))
    .sort()
    .reverse();

test('files that no manifest names are an error, whichever manifest is lost', async (t) => {
  const { coldDir } = await openCold(t);
  const whole = await count(coldDir, 'trades');
  assert.equal(whole.rows, 72);
  const manifests = await manifestsOf(coldDir);
  assert.equal(manifests.length, 4);
  for (const manifest of manifests) {
    const [from, aside] = [join(coldDir, manifest), join(coldDir, 'aside')];
    const { files } = JSON.parse(await readFile(from, 'utf8')) as { files: { path: string }[] };
    await rename(from, aside);
    // Also where another kind is asked for: what is missing may be what was asked.
    await assert.rejects(count(coldDir, 'trades'), (error: Error & { code: string }) => {
      assert.equal(error.code, 'cold_missing');
      for (const { path } of files) assert.ok(error.message.includes(path), error.message);
      return true;
    });
    await rename(aside, from);
  }
  assert.deepEqual(await count(coldDir, 'trades'), whole);
});

test('a manifest that is there twice is named in both places', async (t) => {
  const { coldDir } = await openCold(t);
  const [first = ''] = await manifestsOf(coldDir);
  await cp(join(coldDir, first), join(coldDir, `${first}.copy.json`));
  await assert.rejects(count(coldDir, 'trades'), {
    code: 'cold_damaged',
    message: /trade_20260116\.json and .*trade_20260116\.json\.copy\.json are both of trade/,
  });
});

test('no bit of a manifest can change without its being noticed', async (t) => {
  const { coldDir } = await openCold(t);
  const [first = ''] = await manifestsOf(coldDir);
  const path = join(coldDir, first);
  const bytes = await readFile(path);
  parseColdManifest(bytes.toString('utf8'), path);
  for (const [at, byte] of bytes.entries()) {
    const damaged = Buffer.from(bytes);
    damaged[at] = byte ^ (1 << (at % 8));
    assert.throws(
      () => parseColdManifest(damaged.toString('utf8'), path),
      (error: Error & { code: string }) =>
        error.code === 'cold_damaged' && error.message.startsWith(`${path} is damaged`),
      `byte ${at}`,
    );
  }
  for (const length of [0, 1, bytes.length - 1, bytes.length - 2, bytes.length - 80]) {
    assert.throws(() => parseColdManifest(bytes.toString('utf8', 0, length), path), {
      code: 'cold_damaged',
    });
  }
  // Where a flip in a file's path once blamed that file.
  const text = bytes.toString('utf8');
  await writeFile(path, text.replace('kind=trades', 'kind=tradfs'));
  await assert.rejects(count(coldDir, 'trades'), {
    code: 'cold_damaged',
    message: new RegExp(first),
  });
});

test('a manifest of the same partition from another time does not pass for the one that counts', async (t) => {
  const world = await openSealingWorld(t);
  const cold = { rules: { coldAfterMs: DAY_MS } };
  await live(world, cold);
  const path = join(world.coldDir, 'manifests/trade/trade_20260113.json');
  const earlier = await readFile(path);
  await bringBack(world, { isChosen: ({ name }) => name === 'trade_20260113' }, true);
  await live(world, cold);
  assert.notDeepEqual(await readFile(path), earlier);
  await rm(path);
  await writeFile(path, earlier);
  const reading = await openReading(world.store, { cold: new FolderStorage(world.coldDir) });
  const span = { fromMs: Date.UTC(2026, 0, 13), toMs: Date.UTC(2026, 0, 14) };
  await assert.rejects(reading.coldFiles('trades', span), {
    code: 'cold_damaged',
    message: /trade_20260113\.json is a manifest of this partition, but not the one/,
  });
  await reading.close();
});

test('a manifest of another partition does not pass for the one that counts', async (t) => {
  const place = await openCold(t);
  const { store, coldDir } = place;
  const manifests = await manifestsOf(coldDir);
  const ofDay = (day: string) =>
    manifests
      .filter((path) => path.includes(day.replaceAll('-', '')))
      .map((path) => join(coldDir, path));
  const [mine = ''] = ofDay(DAYS[1]).filter((path) => path.includes('trade_'));
  const others = [...ofDay(DAYS[0]), ...ofDay(DAYS[1])].filter((path) => path !== mine);
  assert.equal(others.length, 2, 'of another day, and of depth');
  const fromMs = Date.parse(DAYS[1]);
  for (const other of others) {
    await cp(other, mine);
    const reading = await openReading(store, { cold: new FolderStorage(place.coldDir) });
    await assert.rejects(reading.coldFiles('trades', { fromMs, toMs: fromMs + DAY_MS }), {
      code: 'cold_damaged',
      message: /is of \w+ from .* to .*, which is another partition/,
    });
    await reading.close();
  }
});
