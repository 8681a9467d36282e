import assert from 'node:assert/strict';
import test from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { Mutex } from '../../../src/kernel/mutex.js';

test('pieces of work run one at a time, in the order in which they were asked for', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 12 }), async (turns) => {
      const mutex = new Mutex();
      const order: number[] = [];
      let running = 0;
      const work = turns.map((count, index) =>
        mutex.run(async () => {
          running += 1;
          assert.equal(running, 1);
          order.push(index);
          for (let waited = 0; waited < count; waited += 1) await turn();
          running -= 1;
          return index;
        }),
      );
      const indexes = turns.map((_, index) => index);
      assert.deepEqual(await Promise.all(work), indexes);
      assert.deepEqual(order, indexes);
    }),
    { numRuns: 30 },
  );
});

test('an error reaches the one who asked and does not hold up those behind', async () => {
  const mutex = new Mutex();
  const failing = mutex.run(async () => {
    throw new Error('mine alone');
  });
  const next = mutex.run(async () => 'fine');
  await assert.rejects(failing, /mine alone/);
  assert.equal(await next, 'fine');
});

test('work that throws before its first await is an error like any other', async () => {
  const mutex = new Mutex();
  const failing = mutex.run(() => {
    throw new Error('at once');
  });
  await assert.rejects(failing, /at once/);
  assert.equal(await mutex.run(async () => 1), 1);
});

test('it is busy for as long as some work runs or waits, also where it fails', async () => {
  const mutex = new Mutex();
  assert.equal(mutex.isBusy, false);
  const failing = mutex.run(() => Promise.reject(new Error('in vain')));
  const next = mutex.run(async () => mutex.isBusy);
  assert.equal(mutex.isBusy, true);
  await assert.rejects(failing);
  assert.equal(await next, true);
  await mutex.run(async () => undefined);
  await turn();
  assert.equal(mutex.isBusy, false);
});
