import assert from 'node:assert/strict';
import test from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Mutex, Slots } from '../../../src/kernel/mutex.js';
import fc from '../../support/properties.js';

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

test('slots let so many run, make some wait in order, and refuse the others', async () => {
  const slots = new Slots(2, 2, () => new Error('full'));
  const never = new AbortController().signal;
  const ends: (() => void)[] = [];
  const begun: number[] = [];
  const work = (n: number) => () =>
    new Promise<number>((resolve) => {
      begun.push(n);
      ends.push(() => resolve(n));
    });
  const leaving = new AbortController();
  const running = [1, 2].map((n) => slots.run(never, work(n)));
  const left = slots.run(leaving.signal, work(3));
  const waits = slots.run(never, work(4));
  await assert.rejects(slots.run(never, work(5)), /full/);
  leaving.abort(new Error('gone'));
  await assert.rejects(left, /gone/);
  ends.shift()?.();
  assert.equal(await running[0], 1);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(begun, [1, 2, 4]);
  for (const end of ends) end();
  assert.deepEqual([await running[1], await waits], [2, 4]);
  await assert.rejects(
    slots.run(never, async () => {
      throw new Error('failed');
    }),
    /failed/,
  );
  assert.equal(await slots.run(never, async () => 6), 6);
});
