import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { Copying } from '../../../src/archive/backup/copying.js';
import { findBackup, readBackup, writeBackup } from '../../../src/archive/backup/document.js';
import { FolderBackup } from '../../../src/archive/backup/folder-place.js';
import { withOwnSum } from '../../../src/archive/own-sum.js';
import { systemClock } from '../../../src/kernel/clock.js';

async function makeDir(t: TestContext): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'tapekeep-backup-test-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

const SUM = 'ab'.repeat(32);
const DOCUMENT: Parameters<typeof writeBackup>[1] = {
  ...{ tapekeep: '1.2.3', postgres: '18.4', madeAt: '2026-01-31T00:00:00.000Z' },
  archive: {
    ...{ archive: 'sandbox', database: 'tapekeep', system: '77', databaseOid: 5, tableOid: 17 },
    copy: null,
  },
  folder: 'tapekeep-0123456789ab',
  journal: { start: '0/2000028', stop: '0/2000158' },
  folders: ['base', 'pg_wal'],
  files: [{ path: 'postgres/PG_VERSION', bytes: 3, sha256: SUM }],
  cold: { isCopied: false, manifests: [], files: 0, bytes: 0 },
};

test('a document is read as it was written, and takes the place of the earlier one', async (t) => {
  const dir = await makeDir(t);
  const place = new FolderBackup(dir, systemClock);
  assert.equal(await findBackup(place), null);
  await writeBackup(place, { ...DOCUMENT, tapekeep: '1.2.2' }, null);
  await writeFile(join(dir, 'backup.json.new'), 'of a run that was killed');
  await writeBackup(place, DOCUMENT, '');
  assert.equal(await findBackup(place), '');
  assert.deepEqual(await readBackup(place), { format: 1, ...DOCUMENT });
  assert.deepEqual(await readdir(dir), ['backup.json']);
});

test('a document that is missing, altered, newer or leads elsewhere is refused', async (t) => {
  const dir = await makeDir(t);
  const place = new FolderBackup(dir, systemClock);
  const path = join(dir, 'backup.json');
  const refused = async (message: RegExp) =>
    await assert.rejects(readBackup(place), { code: 'backup_damaged', message });
  await refused(/is no backup, or one that was interrupted/);
  await writeBackup(place, DOCUMENT, null);
  const text = await readFile(path, 'utf8');
  await writeFile(path, text.replace('"bytes": 3', '"bytes": 4'));
  await refused(/does not match its own checksum/);
  await writeFile(path, text.slice(0, -20));
  await refused(/backup\.json cannot be read/);
  await writeFile(path, withOwnSum({ ...DOCUMENT, format: 2 }).text);
  await refused(/has the format 2 of a newer tapekeep/);
  for (const bad of ['../postgres', '/etc/passwd', 'a//b', 'a/../../b']) {
    const files = [{ path: bad, bytes: 1, sha256: SUM }];
    await writeFile(path, withOwnSum({ format: 1, ...DOCUMENT, files }).text);
    await refused(/files\.0\.path: leads out of the folder/);
  }
  await writeFile(path, withOwnSum({ format: 1, ...DOCUMENT, folder: '..' }).text);
  await refused(/is damaged \(folder: /);
});

test('a known file gets its name only when its copy is right', async (t) => {
  const dir = await makeDir(t);
  const [from, to] = [join(dir, 'from'), join(dir, 'below/to')];
  await writeFile(from, 'abc');
  const seen: string[] = [];
  const copying = new Copying(new AbortController().signal, (bytes, name) =>
    seen.push(`${bytes} ${name}`),
  );
  const sha256 = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad';
  assert.equal(await copying.copyKnown(from, to, { bytes: 3, sha256: SUM }), 'is altered');
  assert.equal(await copying.copyKnown(`${from}.gone`, to, { bytes: 3, sha256 }), 'is missing');
  assert.deepEqual(await readdir(join(dir, 'below')), []);
  assert.equal(await copying.copyKnown(from, to, { bytes: 3, sha256 }), null);
  await copying.sync();
  assert.equal(await readFile(to, 'utf8'), 'abc');
  assert.deepEqual(seen, ['3 from', '3 from']);
});
