import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import test from 'node:test';
import { BoundedOutput } from '../../../src/observe/bounded-output.js';

const LINE = `${'x'.repeat(9)}\n`;

/** A stream whose reader reads when it is asked to. */
function heldStream() {
  const taken: string[] = [];
  let give: (() => void) | undefined;
  const stream = new Writable({
    ...{ highWaterMark: 1, decodeStrings: false },
    write: (text: string, _, done) => {
      give = () => {
        taken.push(text);
        done();
      };
    },
  });
  const readAll = async () => {
    while (stream.writableLength > 0) {
      give?.();
      await new Promise(setImmediate);
    }
  };
  return { stream, taken, readAll };
}

test('what a reader leaves waiting is bounded; the rest is counted and told when it is back', async () => {
  const { stream, taken, readAll } = heldStream();
  const output = new BoundedOutput('stderr', stream, 100);
  const told: [string, number][] = [];
  output.reportTo({
    outputDropped: ({ lines }) => {
      told.push(['dropped', lines]);
      // Words about it find no room either, and ask for no more of them.
      if (told.length === 1) output.write('about it\n');
    },
    outputResumed: ({ lines }) => told.push(['resumed', lines]),
  });
  for (let line = 1; line <= 12; line += 1) output.write(LINE);
  assert.equal(stream.writableLength, 100);
  await readAll();
  assert.deepEqual(told, [
    ['dropped', 1],
    ['dropped', 1],
    ['dropped', 1],
    ['resumed', 3],
  ]);
  output.write('again\n');
  await readAll();
  assert.deepEqual(taken, [...Array.from({ length: 10 }, () => LINE), 'again\n']);
  // One text longer than the bound is written where nothing waits.
  output.write(`${'y'.repeat(200)}\n`);
  assert.equal(stream.writableLength, 201);
  await readAll();
});
