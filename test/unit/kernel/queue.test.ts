import assert from 'node:assert/strict';
import test from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { AbortedError } from '../../../src/kernel/errors.js';
import { BoundedQueue } from '../../../src/kernel/queue.js';
import fc from '../../support/properties.js';

/** Tells whether work has ended, without waiting for it. */
function follow(work: Promise<unknown>): { hasEnded: boolean } {
  const state = { hasEnded: false };
  const end = () => {
    state.hasEnded = true;
  };
  work.then(end, end);
  return state;
}

test('a queue without a sensible limit is refused', () => {
  for (const limit of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
    assert.throws(() => new BoundedQueue(limit), RangeError);
  }
});

test('items leave in the order in which they came', async () => {
  const queue = new BoundedQueue<number>(10);
  for (const item of [1, 2, 3, 4, 5]) await queue.put(item);
  assert.deepEqual(await queue.takeUpTo(2), [1, 2]);
  assert.deepEqual(await queue.takeUpTo(10), [3, 4, 5]);
  assert.equal(queue.size, 0);
});

test('put waits at the limit until a reader makes room', async () => {
  const queue = new BoundedQueue<string>(2);
  await queue.put('a');
  await queue.put('b');
  const third = queue.put('c');
  const fourth = queue.put('d');
  const [seenThird, seenFourth] = [follow(third), follow(fourth)];
  await turn();
  assert.equal(queue.size, 2);
  assert.equal(seenThird.hasEnded, false);

  assert.deepEqual(await queue.takeUpTo(1), ['a']);
  await third;
  await turn();
  assert.equal(seenFourth.hasEnded, false);
  assert.equal(queue.size, 2);

  assert.deepEqual(await queue.takeUpTo(5), ['b', 'c']);
  await fourth;
  assert.deepEqual(await queue.takeUpTo(5), ['d']);
});

test('as many writers go on as places came free at once', async () => {
  const queue = new BoundedQueue<string>(3);
  for (const item of ['a', 'b', 'c']) await queue.put(item);
  const writers = ['d', 'e', 'f'].map((item) => queue.put(item));
  assert.deepEqual(await queue.takeUpTo(3), ['a', 'b', 'c']);
  await Promise.all(writers);
  assert.deepEqual(await queue.takeUpTo(3), ['d', 'e', 'f']);
});

test('offer never waits: it refuses at the limit and after the close', async () => {
  const queue = new BoundedQueue<string>(1);
  assert.equal(queue.offer('a'), true);
  assert.equal(queue.offer('b'), false);
  assert.deepEqual(await queue.takeUpTo(5), ['a']);
  assert.equal(queue.offer('c'), true);
  queue.close();
  await queue.takeUpTo(5);
  assert.equal(queue.offer('d'), false);
});

test('a reader of an empty queue waits for the first item', async () => {
  const queue = new BoundedQueue<number>(4);
  const taken = queue.takeUpTo(3);
  const seen = follow(taken);
  await turn();
  assert.equal(seen.hasEnded, false);
  queue.offer(7);
  assert.deepEqual(await taken, [7]);
});

test('each of several readers that wait gets its item', async () => {
  const queue = new BoundedQueue<number>(4);
  const readers = [queue.takeUpTo(1), queue.takeUpTo(1), queue.takeUpTo(1)];
  for (const item of [1, 2, 3]) queue.offer(item);
  assert.deepEqual(await Promise.all(readers), [[1], [2], [3]]);
});

test('after the close readers drain what is left and then end', async () => {
  const queue = new BoundedQueue<number | undefined>(4);
  for (const item of [1, undefined, 3]) await queue.put(item);
  queue.close();
  queue.close();
  const drained: Array<number | undefined> = [];
  for await (const item of queue) drained.push(item);
  assert.deepEqual(drained, [1, undefined, 3]);
  assert.deepEqual(await queue.takeUpTo(5), []);
});

test('the close refuses writers that wait, and releases readers that wait', async () => {
  const full = new BoundedQueue<number>(1);
  await full.put(1);
  const waiting = assert.rejects(full.put(2), AbortedError);
  full.close();
  await waiting;
  await assert.rejects(full.put(3), AbortedError);
  assert.deepEqual(await full.takeUpTo(5), [1]);

  const empty = new BoundedQueue<number>(1);
  const readers = [empty.takeUpTo(1), empty.takeUpTo(1)];
  empty.close();
  assert.deepEqual(await Promise.all(readers), [[], []]);
});

test('nothing is lost, doubled or reordered, and the limit always holds', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 5 }),
      fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 30 }),
      fc.integer({ min: 1, max: 60 }),
      async (limit, takes, count) => {
        const queue = new BoundedQueue<number>(limit);
        const produce = async () => {
          for (let item = 0; item < count; item += 1) {
            await queue.put(item);
            assert.ok(queue.size <= limit);
          }
          queue.close();
        };
        const received: number[] = [];
        const consume = async () => {
          for (let round = 0; ; round += 1) {
            const max = takes[round % takes.length] ?? 1;
            const taken = await queue.takeUpTo(max);
            assert.ok(taken.length <= max);
            if (taken.length === 0) return;
            received.push(...taken);
          }
        };
        await Promise.all([produce(), consume()]);
        assert.deepEqual(
          received,
          Array.from({ length: count }, (_, item) => item),
        );
      },
    ),
  );
});

test('rival writers and readers lose nothing: what was accepted is what was read', async () => {
  const action = fc.constantFrom('put', 'offer', 'take', 'turn');
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 3 }),
      fc.array(action, { maxLength: 60 }),
      async (limit, actions) => {
        const queue = new BoundedQueue<number>(limit);
        const accepted: number[] = [];
        const received: number[] = [];
        const work: Array<Promise<unknown>> = [];
        for (const [item, kind] of actions.entries()) {
          if (kind === 'turn') await turn();
          else if (kind === 'take') {
            work.push(queue.takeUpTo(2).then((taken) => received.push(...taken)));
          } else if (kind === 'offer') {
            if (queue.offer(item)) accepted.push(item);
          } else {
            const putting = queue.put(item).then(
              () => accepted.push(item),
              (error: unknown) => assert.ok(error instanceof AbortedError),
            );
            work.push(putting);
          }
          assert.ok(queue.size <= limit);
        }
        await turn();
        queue.close();
        for await (const item of queue) received.push(item);
        await Promise.all(work);
        const ascending = (a: number, b: number) => a - b;
        assert.deepEqual(received.sort(ascending), accepted.sort(ascending));
      },
    ),
  );
});
