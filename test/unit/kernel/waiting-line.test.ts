import assert from 'node:assert/strict';
import test from 'node:test';
import {
  BACKGROUND_PRIORITY,
  LEAD_PRIORITY,
  queueKeyOf,
  WaitingLine,
} from '../../../src/kernel/waiting-line.js';

/** The order in which waiters that came one after the other are served, a millisecond apart. */
async function servedOf(...priorities: readonly number[]): Promise<string[]> {
  const line = new WaitingLine();
  const served: string[] = [];
  for (const [at, priority] of priorities.entries()) {
    void line.join(queueKeyOf(priority, at)).then(() => served.push(`${at}:${priority}`));
  }
  while (line.admitNext()) await Promise.resolve();
  await Promise.resolve();
  assert.equal(line.size, 0);
  return served;
}

const [LEAD, BACK] = [LEAD_PRIORITY, BACKGROUND_PRIORITY];

test('work that leads keeps its own order, and waits for no background work', async () => {
  assert.deepEqual(await servedOf(LEAD, LEAD, LEAD, LEAD), ['0:-1', '1:-1', '2:-1', '3:-1']);
  assert.deepEqual(await servedOf(BACK, LEAD, LEAD, LEAD), ['1:-1', '2:-1', '3:-1', '0:3']);
});

test('after one that leads the first of the others goes, then one that leads again', async () => {
  const served = await servedOf(LEAD, LEAD, LEAD, 1, 0, BACK);
  assert.deepEqual(served, ['0:-1', '4:0', '1:-1', '3:1', '2:-1', '5:3']);
});

test('background work has one admission in ten while others would take all, also once it has joined anew', async () => {
  const others = Array.from({ length: 30 }, () => LEAD);
  const served = await servedOf(BACK, BACK, BACK, ...others);
  const at = served.flatMap((one, index) => (one.endsWith(`:${BACK}`) ? [index] : []));
  assert.deepEqual(at, [9, 19, 29]);

  // A waiter that is given up and comes back has not lost what its kind has waited.
  let ahead = 0;
  const line = new WaitingLine((others) => {
    ahead = others;
  });
  for (let count = 0; count < 12; count += 1) void line.join(queueKeyOf(LEAD, count));
  const first = new AbortController();
  const given = assert.rejects(line.join(queueKeyOf(BACK, 0), first.signal));
  for (let count = 0; count < 8; count += 1) line.admitNext();
  first.abort(new Error('given up'));
  await given;
  const again = line.join(queueKeyOf(BACK, 0));
  line.admitNext();
  line.admitNext();
  await again;
  assert.equal(ahead, 3);
});

test('equals go in the order of their arrival, whatever joined between', async () => {
  assert.deepEqual(await servedOf(1, 0, 1, 0), ['1:0', '3:0', '0:1', '2:1']);
});

test('a step of priority is worth two seconds; background waits for all others', () => {
  assert.equal(queueKeyOf(2, 10_000) - queueKeyOf(0, 10_000), 4000);
  assert.ok(queueKeyOf(BACK, 0) > queueKeyOf(0, 1e12));
  assert.ok(queueKeyOf(LEAD, 1e12) < queueKeyOf(0, 0));
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
