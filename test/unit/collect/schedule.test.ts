import assert from 'node:assert/strict';
import { once } from 'node:events';
import test from 'node:test';
import { Schedules } from '../../../src/collect/schedule.js';
import { FakeClock } from '../../support/fake-clock.js';

/** The library reads the date by itself and waits by real timers: the former is moved by hand here. */
const START_MS = Date.UTC(2026, 0, 15, 12, 0, 0);

test('a clock that is set does not let a schedule stand still', { timeout: 20_000 }, async (t) => {
  for (const stepMs of [-3_600_000, 3_600_000]) {
    t.mock.timers.enable({ apis: ['Date'], now: START_MS });
    const clock = new FakeClock(START_MS);
    const runs = new EventTarget();
    const schedules = new Schedules(clock);
    schedules.start('streams.depth.schedule', '* * * * * *', () => {
      runs.dispatchEvent(new Event('run'));
    });
    // It waits for the next second of a time that comes in an hour, or was an hour ago.
    t.mock.timers.setTime(START_MS + stepMs);
    clock.stepWall(stepMs);
    const ran = once(runs, 'run');
    await clock.run(1000);
    t.mock.timers.setTime(START_MS + stepMs + 1000);
    await ran;
    schedules.stop();
    assert.equal(clock.pendingTimers, 0);
    t.mock.timers.reset();
  }
});

test('a clock that goes right leaves schedules alone', async (t) => {
  const clock = new FakeClock(START_MS);
  // A schedule that begins waits for its next time by one.
  const begun = t.mock.method(globalThis, 'setTimeout');
  const schedules = new Schedules(clock);
  t.after(() => schedules.stop());
  assert.equal(
    schedules.start('streams.markets.schedule', '*/30 * * * * *', () => undefined),
    30_000,
  );
  assert.equal(schedules.shortestPeriodMs, 30_000);
  const timers = begun.mock.callCount();
  assert.notEqual(timers, 0);
  await clock.run(5000);
  clock.stepWall(-900);
  await clock.run(5000);
  assert.equal(begun.mock.callCount(), timers, 'none begins anew');
  assert.equal(clock.pendingForegroundTimers, 0, 'no process is kept alive by it');
});
