import assert from 'node:assert/strict';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeFolder } from '../../../src/kernel/folders.js';

describe('makeFolder', () => {
  let base: string;

  before(async () => {
    base = await mkdtemp(join(tmpdir(), 'tapekeep-test-'));
  });

  after(async () => {
    await rm(base, { recursive: true });
  });

  it('makes a folder with its parents, once for all who ask at the same time', async () => {
    const path = join(base, 'a/b/c');
    await Promise.all([makeFolder(path, 0o700), makeFolder(path, 0o700), makeFolder(path, 0o700)]);
    await makeFolder(path);
    const { mode } = await stat(path);
    assert.equal(mode & 0o777, 0o700);
  });

  it('says what is in the way', async () => {
    const path = join(base, 'file');
    await writeFile(path, '');
    await assert.rejects(makeFolder(path), { code: 'EEXIST', path });
    await assert.rejects(makeFolder(join(path, 'x/y')), { code: 'ENOTDIR' });
  });

  const isLinux = process.platform === 'linux';
  it('ends where a file system refuses every folder', {
    skip: !isLinux && 'no /proc',
  }, async () => {
    await assert.rejects(makeFolder('/proc/nope/deeper'), { code: 'ENOENT', path: '/proc/nope' });
  });
});
