import assert from 'node:assert/strict';
import test from 'node:test';
import { syncMethodOf } from '../../../src/store/embedded/server.js';

test('the whole file system is synced at once where its errors are told, else file by file', () => {
  for (const release of [
    '5.8.0-63-generic',
    '5.15.167.4-microsoft-standard-WSL2',
    '6.1.0',
    '10.0',
  ]) {
    assert.equal(syncMethodOf(release), 'syncfs', release);
  }
  for (const release of ['', '5.7.19', '4.4.0', '3.10.0-1160.el7.x86_64', 'unknown']) {
    assert.equal(syncMethodOf(release), 'fsync', release);
  }
});
