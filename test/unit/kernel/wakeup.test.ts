import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import test from 'node:test';
import { Wakeup } from '../../../src/kernel/clock.js';
import { FakeClock } from '../../support/fake-clock.js';
import fc from '../../support/properties.js';

const FOREVER_MS = 1e9;

function make() {
  const clock = new FakeClock();
  return { clock, wakeup: new Wakeup(clock), owner: new AbortController() };
}

test('a wait ends with its time when nothing happens', async () => {
  const { clock, wakeup, owner } = make();
  const waiting = wakeup.wait(1000, owner.signal);
  assert.equal(clock.pendingTimers, 1);
  clock.advance(1000);
  await waiting;
  assert.equal(clock.pendingTimers, 0);
});

test('a notification ends the wait, and its timer goes', async () => {
  const { clock, wakeup, owner } = make();
  const waiting = wakeup.wait(FOREVER_MS, owner.signal);
  wakeup.notify();
  await waiting;
  assert.equal(clock.pendingTimers, 0);
  assert.equal(clock.monotonicMs(), 0);
});

test('a notification that nobody waited for ends the next wait, and only that', async () => {
  const { clock, wakeup, owner } = make();
  wakeup.notify();
  wakeup.notify();
  await wakeup.wait(FOREVER_MS, owner.signal);
  let isOver = false;
  const second = wakeup.wait(1000, owner.signal).then(() => {
    isOver = true;
  });
  await clock.run(999);
  assert.equal(isOver, false);
  await clock.run(1);
  await second;
});

test('an abort ends the wait without an error, also one that came before', async () => {
  const { clock, wakeup, owner } = make();
  const waiting = wakeup.wait(FOREVER_MS, owner.signal);
  owner.abort(new Error('stopped'));
  await waiting;
  await wakeup.wait(FOREVER_MS, owner.signal);
  assert.equal(clock.pendingTimers, 0);
});

test('waits leave no listeners on the signal of their owner', async () => {
  const { clock, wakeup, owner } = make();
  for (let round = 0; round < 20; round += 1) {
    const waiting = wakeup.wait(10, owner.signal);
    if (round % 2 === 0) wakeup.notify();
    else clock.advance(10);
    await waiting;
  }
  assert.equal(getEventListeners(owner.signal, 'abort').length, 0);
});

test('no notification is lost, at whatever moment of the loop it comes', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 12 }), { minLength: 1, maxLength: 20 }),
      fc.integer({ min: 0, max: 5 }),
      async (gaps, lookTakes) => {
        const { clock, wakeup, owner } = make();
        let made = 0;
        let seen = 0;
        const loop = async () => {
          while (!owner.signal.aborted) {
            seen = made;
            for (let step = 0; step < lookTakes; step += 1) await Promise.resolve();
            // Never ends by time: the clock stands still until all has been notified.
            await wakeup.wait(FOREVER_MS, owner.signal);
          }
        };
        const looping = loop();
        for (const gap of gaps) {
          for (let step = 0; step < gap; step += 1) await Promise.resolve();
          made += 1;
          wakeup.notify();
        }
        await clock.run(0);
        assert.equal(seen, gaps.length);
        owner.abort();
        await looping;
      },
    ),
  );
});
