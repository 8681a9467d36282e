import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Scratch, sweep } from '../../../src/archive/files.js';

function makeFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'scratch-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test('folders that killed programs left are taken away, those of others are not', async (t) => {
  // The pid of a program that has ended: nobody has it for now.
  const { pid: ended } = spawnSync(process.execPath, ['--version']);
  const own = await Scratch.make('test');
  const [, space = ''] = /-\d+\.(\d+)-\w{6}$/.exec(own.path) ?? [];
  assert.notEqual(space, '');
  const folder = makeFolder(t);
  const left = join(folder, `tapekeep-events-${ended}.${space}-abcdef`);
  const kept = [
    // Of a program that runs; of one that is counted elsewhere; no scratch folder at all.
    `tapekeep-events-${process.pid}.${space}-abcdef`,
    `tapekeep-events-${ended}.1${space}-abcdef`,
    `tapekeep-sandbox-${ended}`,
  ].map((name) => join(folder, name));
  for (const path of [left, ...kept]) mkdirSync(join(path, 'spilled'), { recursive: true });
  await sweep(folder);
  assert.equal(existsSync(left), false);
  for (const path of kept) assert.ok(existsSync(path), path);
  assert.ok(existsSync(own.path));
  await own.remove();
  await own.remove();
  assert.equal(existsSync(own.path), false);
  await sweep(join(folder, 'no such folder'));
});
