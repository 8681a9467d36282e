import assert from 'node:assert/strict';
import test from 'node:test';
import {
  BACKGROUND_PRIORITY,
  LEAD_PRIORITY,
  sharesOf,
  WaitingLine,
} from '../../../src/kernel/waiting-line.js';

/** The order in which waiters that came one after the other are served. */
async function servedOf(...priorities: readonly number[]): Promise<string[]> {
  const line = new WaitingLine();
  const served: string[] = [];
  for (const [at, priority] of priorities.entries()) {
    void line.join(priority).then(() => served.push(`${at}:${priority}`));
  }
  while (line.admitNext()) await Promise.resolve();
  await Promise.resolve();
  assert.equal(line.size, 0);
  return served;
}

const [LEAD, BACK] = [LEAD_PRIORITY, BACKGROUND_PRIORITY];
const SWEEP = 0;
const SNAPSHOT = 1;
const FILL = 3;

const many = (priority: number, count: number) => Array.from({ length: count }, () => priority);
const countOf = (served: readonly string[], priority: number) =>
  served.filter((one) => one.endsWith(`:${priority}`)).length;

test('equals go in the order of their arrival', async () => {
  assert.deepEqual(await servedOf(LEAD, LEAD, LEAD), ['0:-1', '1:-1', '2:-1']);
  assert.deepEqual(await servedOf(BACK, BACK), ['0:2', '1:2']);
  assert.deepEqual(await servedOf(10, 3, 7), ['0:10', '1:3', '2:7'], 'all that is last is alike');
});

test('of ten turns trades have five, what follows four and background work one', async () => {
  const served = await servedOf(
    ...many(SNAPSHOT, 300),
    ...many(BACK, 300),
    ...many(FILL, 300),
    ...many(LEAD, 300),
  );
  const first = served.slice(0, 200);
  assert.deepEqual(
    [LEAD, SNAPSHOT, BACK, FILL].map((priority) => countOf(first, priority)),
    [100, 80, 10, 10],
  );
});

test('one request for all markets does not wait for all that is one for each', async () => {
  const served = await servedOf(...many(SNAPSHOT, 400), ...many(LEAD, 400), SWEEP);
  assert.ok(served.findIndex((one) => one.endsWith(`:${SWEEP}`)) < 5, served.slice(0, 9).join());
  const swept = await servedOf(...many(SNAPSHOT, 100), ...many(SWEEP, 100));
  assert.equal(countOf(swept.slice(0, 100), SNAPSHOT), 50, 'nor the other way round');
});

test('what one kind does not need is left to the others, and nothing is saved up', async () => {
  const line = new WaitingLine();
  const served: string[] = [];
  const join = (priority: number, count: number) => {
    for (let one = 0; one < count; one += 1) {
      void line.join(priority).then(() => served.push(`:${priority}`));
    }
  };
  join(SNAPSHOT, 200);
  for (let turn = 0; turn < 100; turn += 1) line.admitNext();
  join(LEAD, 100);
  join(FILL, 100);
  for (let turn = 0; turn < 20; turn += 1) line.admitNext();
  await Promise.resolve();
  const later = served.slice(100);
  assert.deepEqual(
    [LEAD, SNAPSHOT, FILL].map((priority) => countOf(later, priority)),
    [10, 8, 2],
  );
});

test('background work says ahead of how many it went, also once it has joined again', async () => {
  let ahead = 0;
  const line = new WaitingLine((others) => {
    ahead = others;
  });
  for (let count = 0; count < 20; count += 1) void line.join(LEAD);
  void line.join(BACK);
  for (let count = 0; count < 10; count += 1) line.admitNext();
  assert.equal(ahead, 11);
  const first = new AbortController();
  const given = assert.rejects(line.join(BACK, first.signal));
  for (let count = 0; count < 8; count += 1) line.admitNext();
  first.abort(new Error('given up'));
  await given;
  const again = line.join(BACK);
  line.admitNext();
  line.admitNext();
  await again;
  assert.equal(ahead, 2, 'what its kind has waited is not lost');
});

test('the shares that are foretold are those that are had', () => {
  const shares = (rate: number, ...asked: readonly (readonly [number, number])[]) =>
    [...sharesOf(rate, new Map(asked))].map(([, share]) => Math.round(share * 100) / 100);
  const flood = [
    [LEAD, 80],
    [SWEEP, 0.5],
    [SNAPSHOT, 80],
    [BACK, 30],
  ] as const;
  assert.deepEqual(shares(5, ...flood), [2.5, 0.5, 1.5, 0.5, 0]);
  assert.deepEqual(shares(500, ...flood), [80, 0.5, 80, 30, 0], 'all of it where there is enough');
  assert.deepEqual(shares(10, [LEAD, 2], [SNAPSHOT, 80], [FILL, 80]), [2, 0, 7, 0, 1]);
});

test('a waiter that is aborted leaves, and no signal holds on to one that was served', async () => {
  const line = new WaitingLine();
  const aborted = new AbortController();
  let left = 0;
  const waiting = line.join(1, aborted.signal, () => {
    left += 1;
  });
  aborted.abort(new Error('stopped'));
  await assert.rejects(waiting, /stopped/);
  assert.deepEqual([line.size, left, line.admitNext()], [0, 1, false]);
  await assert.rejects(line.join(1, aborted.signal), /stopped/);
  const later = new AbortController();
  const served = line.join(1, later.signal, () => {
    left += 1;
  });
  assert.equal(line.admitNext(), true);
  await served;
  later.abort();
  assert.equal(left, 1);
});
