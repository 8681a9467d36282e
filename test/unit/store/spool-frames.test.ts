import assert from 'node:assert/strict';
import test from 'node:test';
import { frameOf, readFrames } from '../../../src/store/spool/frames.js';

const PAYLOADS = ['{"first":1}', '', 'ü'.repeat(300)].map((text) => Buffer.from(text));
const FILE = Buffer.concat(PAYLOADS.map(frameOf));

test('a file that is cut at any byte keeps the frames before it', () => {
  const ends = PAYLOADS.map((_, at) =>
    PAYLOADS.slice(0, at + 1).reduce((sum, one) => sum + frameOf(one).length, 0),
  );
  for (let length = 0; length <= FILE.length; length += 1) {
    const { payloads, end, bytes } = readFrames(FILE.subarray(0, length));
    const whole = ends.filter((one) => one <= length).length;
    assert.deepEqual(payloads, PAYLOADS.slice(0, whole), `cut at ${length}`);
    assert.equal(bytes, ends[whole - 1] ?? 0);
    assert.equal(end, bytes === length ? 'whole' : 'torn');
  }
});

test('a changed bit anywhere is never taken for a frame', () => {
  for (let at = 0; at < FILE.length; at += 1) {
    const changed = Buffer.from(FILE);
    changed[at] = (changed[at] ?? 0) ^ 0x10;
    const { payloads, end } = readFrames(changed);
    assert.notEqual(end, 'whole', `bit of byte ${at}`);
    assert.ok(payloads.length < PAYLOADS.length);
    for (const [place, one] of payloads.entries()) assert.deepEqual(one, PAYLOADS[place]);
  }
});
