import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import test from 'node:test';
import { sleep, startDeadline, systemClock } from '../../../src/kernel/clock.js';
import { FakeClock } from '../../support/fake-clock.js';

const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length;

test('a sleep ends when its time has passed, and not before', async () => {
  const clock = new FakeClock();
  let isOver = false;
  const asleep = sleep(clock, 1000).then(() => {
    isOver = true;
  });
  await clock.run(999);
  assert.equal(isOver, false);
  await clock.run(1);
  assert.equal(isOver, true);
  await asleep;
});

test('a step of the wall clock neither shortens nor lengthens a sleep', async () => {
  const clock = new FakeClock();
  let isOver = false;
  const asleep = sleep(clock, 1000).then(() => {
    isOver = true;
  });
  clock.stepWall(3_600_000);
  await clock.run(999);
  assert.equal(isOver, false);
  clock.stepWall(-7_200_000);
  await clock.run(1);
  await asleep;
});

test('an aborted sleep throws the reason and leaves no timer and no listener', async () => {
  const clock = new FakeClock();
  const owner = new AbortController();
  const asleep = sleep(clock, 1000, owner.signal);
  assert.equal(clock.pendingTimers, 1);
  const reason = new Error('enough');
  owner.abort(reason);
  await assert.rejects(asleep, reason);
  assert.equal(clock.pendingTimers, 0);
  assert.equal(listeners(owner.signal), 0);
});

test('a sleep on a signal that has aborted already sets no timer', async () => {
  const clock = new FakeClock();
  const reason = new Error('too late');
  await assert.rejects(sleep(clock, 1000, AbortSignal.abort(reason)), reason);
  assert.equal(clock.pendingTimers, 0);
});

test('many sleeps on one signal leave no listeners behind', async () => {
  const clock = new FakeClock();
  const owner = new AbortController();
  for (let round = 0; round < 50; round += 1) {
    const asleep = sleep(clock, 10, owner.signal);
    clock.advance(10);
    await asleep;
  }
  assert.equal(listeners(owner.signal), 0);
});

test('a deadline aborts with the error built for it, at its time', () => {
  const clock = new FakeClock();
  let built = 0;
  const deadline = startDeadline(clock, 500, () => {
    built += 1;
    return new Error('the page took over 500 ms');
  });
  clock.advance(499);
  assert.equal(deadline.signal.aborted, false);
  assert.equal(built, 0);
  clock.advance(1);
  assert.equal(deadline.signal.aborted, true);
  assert.match(String(deadline.signal.reason), /took over 500 ms/);
  deadline.clear();
  assert.equal(built, 1);
});

test('a cleared deadline never aborts, whatever the time or its parent does', () => {
  const clock = new FakeClock();
  const parent = new AbortController();
  const deadline = startDeadline(clock, 500, () => new Error('late'), parent.signal);
  deadline.clear();
  deadline.clear();
  assert.equal(clock.pendingTimers, 0);
  assert.equal(listeners(parent.signal), 0);
  clock.advance(1000);
  parent.abort(new Error('stopped'));
  assert.equal(deadline.signal.aborted, false);
});

test('a parent that aborts passes on its reason, and the timer goes', () => {
  const clock = new FakeClock();
  const parent = new AbortController();
  const deadline = startDeadline(clock, 500, () => new Error('late'), parent.signal);
  const reason = new Error('stopped');
  parent.abort(reason);
  assert.equal(deadline.signal.reason, reason);
  assert.equal(clock.pendingTimers, 0);
  const afterwards = startDeadline(clock, 500, () => new Error('late'), parent.signal);
  assert.equal(afterwards.signal.reason, reason);
  assert.equal(clock.pendingTimers, 0);
});

test('what comes first decides: a parent that aborts after the deadline changes nothing', () => {
  const clock = new FakeClock();
  const parent = new AbortController();
  const deadline = startDeadline(clock, 500, () => new Error('late'), parent.signal);
  clock.advance(500);
  assert.equal(listeners(parent.signal), 0);
  parent.abort(new Error('stopped'));
  assert.match(String(deadline.signal.reason), /late/);
});

test('leaving the block that a deadline is declared in frees it', () => {
  const clock = new FakeClock();
  {
    using deadline = startDeadline(clock, 500, () => new Error('late'));
    assert.equal(deadline.signal.aborted, false);
    assert.equal(clock.pendingTimers, 1);
  }
  assert.equal(clock.pendingTimers, 0);
});

test('the machine clock never fires a delay beyond its range at once', async () => {
  let hasFired = false;
  const cancel = systemClock.after(2 ** 33, () => {
    hasFired = true;
  });
  // Real time, because it is the machine's own timer that is judged: Node cuts too long a delay to 1 ms.
  await sleep(systemClock, 5);
  cancel();
  assert.equal(hasFired, false);
});

test('the machine clock takes a negative delay as none, and a cancelled timer stays silent', async () => {
  let hasFired = false;
  systemClock.after(-5, () => {
    hasFired = true;
  })();
  const before = systemClock.monotonicMs();
  await sleep(systemClock, -5);
  assert.equal(hasFired, false);
  assert.ok(systemClock.monotonicMs() >= before);
  assert.ok(systemClock.wallMs() > Date.UTC(2020, 0, 1));
});
