import assert from 'node:assert/strict';
import test from 'node:test';
import { fullDisk } from '../../../src/store/embedded/full-disk.js';

test('a full disk is told in one sentence, whatever else the server wrote; other troubles as they are', () => {
  const log = `LOG:  checkpoint starting
FATAL:  could not write blocks 24..24 in file "base/16384/1249": No space left on device
HINT:  Check free disk space.`;
  assert.match(fullDisk('/data', log) ?? '', /^the disk of \/data is full: .* start again$/);
  assert.equal(fullDisk('/data', 'FATAL:  could not open file: Permission denied'), undefined);
});
