import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { Schedules } from '../../../src/collect/schedule.js';
import type { Clock } from '../../../src/kernel/clock.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../../src/kernel/durations.js';
import { isoMs } from '../../../src/kernel/timestamp.js';
import { FakeClock } from '../../support/fake-clock.js';

const START_MS = Date.UTC(2026, 0, 15, 12, 0, 0);

/** Schedules by a clock, when each of them ran by the wall, and which were reported as missed. */
class World {
  readonly ran = new Map<string, number[]>();
  readonly missed: string[] = [];
  readonly schedules: Schedules;

  constructor(
    t: TestContext,
    readonly clock: Clock,
    readonly expressions: readonly string[],
  ) {
    const scheduleMissed = ({ schedule }: { schedule: string }) => void this.missed.push(schedule);
    this.schedules = new Schedules(clock, { scheduleMissed });
    t.after(() => this.schedules.stop());
    for (const expression of expressions) {
      const times: number[] = [];
      this.ran.set(expression, times);
      this.schedules.start(expression, expression, () => times.push(clock.wallMs()));
    }
  }

  timesOf(expression: string): number[] {
    return this.ran.get(expression) ?? [];
  }
}

/** Changes of the offset: forwards and back, of an hour, and of half an hour. */
const CHANGES = {
  'Europe/Vienna': ['2026-03-29T01:00:00Z', '2026-10-25T01:00:00Z'],
  'America/New_York': ['2026-03-08T07:00:00Z', '2026-11-01T06:00:00Z'],
  'Australia/Lord_Howe': ['2026-10-03T15:30:00Z', '2026-04-04T15:00:00Z'],
} as const;

const PERIODS = {
  '*/5 * * * * *': 5 * SECOND_MS,
  '30 */10 * * * *': 10 * MINUTE_MS,
  '0 * * * *': HOUR_MS,
};

for (const [zone, changes] of Object.entries(CHANGES)) {
  test(`runs on time over both changes of the offset in ${zone}`, async (t) => {
    const before = process.env.TZ;
    process.env.TZ = zone;
    t.after(() => {
      if (before === undefined) delete process.env.TZ;
      else process.env.TZ = before;
    });
    for (const change of changes) {
      const fromMs = Date.parse(change) - 90 * MINUTE_MS;
      const toMs = fromMs + 3 * HOUR_MS;
      const offsets = [fromMs, toMs].map((ms) => new Date(ms).getTimezoneOffset());
      assert.notEqual(offsets[0], offsets[1], 'the process has this zone');
      // The date and the timers of the process itself, which node-cron would use.
      t.mock.timers.enable({ apis: ['Date', 'setTimeout'], now: fromMs });
      const clock: Clock = {
        wallMs: () => Date.now(),
        monotonicMs: () => Date.now() - fromMs,
        after(ms, callback) {
          const timer = setTimeout(callback, ms);
          return () => clearTimeout(timer);
        },
      };
      const world = new World(t, clock, Object.keys(PERIODS));
      while (Date.now() < toMs) {
        t.mock.timers.tick(SECOND_MS);
        await new Promise((resolve) => setImmediate(resolve));
      }
      for (const [expression, periodMs] of Object.entries(PERIODS)) {
        const offsetMs = expression.startsWith('30') ? 30 * SECOND_MS : 0;
        const first = Math.floor(fromMs / periodMs) + (offsetMs > 0 ? 0 : 1);
        const expected = Array.from(
          { length: Math.floor((toMs - offsetMs) / periodMs) - first + 1 },
          (_, at) => (first + at) * periodMs + offsetMs,
        );
        assert.deepEqual(world.timesOf(expression).map(isoMs), expected.map(isoMs), expression);
      }
      assert.deepEqual(world.missed, []);
      world.schedules.stop();
      t.mock.timers.reset();
    }
  });
}

test('runs on in a leap second that the clock repeats', async (t) => {
  const midnightMs = Date.UTC(2017, 0, 1);
  const clock = new FakeClock(midnightMs - 20 * SECOND_MS);
  const world = new World(t, clock, ['* * * * * *', '*/5 * * * * *', '0 0 0 * * *']);
  await clock.run(20 * SECOND_MS);
  clock.stepWall(-SECOND_MS);
  await clock.run(20 * SECOND_MS);
  // The time that comes twice runs once.
  assert.equal(world.timesOf('* * * * * *').length, 39);
  assert.deepEqual(
    world.timesOf('*/5 * * * * *').map((ms) => (ms - midnightMs) / SECOND_MS),
    [-15, -10, -5, 0, 5, 10, 15],
  );
  assert.deepEqual(world.timesOf('0 0 0 * * *'), [midnightMs]);
  assert.deepEqual(world.missed, []);
});

test('runs each time once while the clock is slowed down for a leap second', async (t) => {
  const clock = new FakeClock(Date.UTC(2016, 11, 31, 23, 50));
  const world = new World(t, clock, ['* * * * * *', '0 * * * * *']);
  for (let second = 0; second < 1000; second += 1) {
    await clock.run(SECOND_MS);
    clock.stepWall(-1);
  }
  const times = world.timesOf('* * * * * *').map((ms) => Math.floor(ms / SECOND_MS));
  assert.equal(times.length, 999);
  assert.equal(new Set(times).size, 999);
  assert.equal(world.timesOf('0 * * * * *').length, 16);
  assert.deepEqual(world.missed, []);
});

test('a clock that is set does not let a schedule stand still', async (t) => {
  for (const stepMs of [-HOUR_MS, HOUR_MS, -3 * DAY_MS, 3 * DAY_MS]) {
    const clock = new FakeClock(START_MS);
    const world = new World(t, clock, ['* * * * * *', '0 0 * * * *', '0 0 9-17 * * MON-FRI']);
    clock.stepWall(stepMs);
    await clock.run(2 * SECOND_MS);
    assert.notEqual(world.timesOf('* * * * * *').length, 0);
    await clock.run(HOUR_MS);
    assert.ok(world.timesOf('0 0 * * * *').length >= 1);
    clock.advance(HOUR_MS);
    assert.deepEqual(world.missed, [], 'a clock that is set is no missed run');
    world.schedules.stop();
    assert.equal(clock.pendingTimers, 0);
  }
});

test('a clock that goes right leaves schedules alone', async (t) => {
  const clock = new FakeClock(START_MS);
  const world = new World(t, clock, ['*/30 * * * * *']);
  assert.equal(world.schedules.shortestPeriodMs, 30_000);
  await clock.run(5000);
  clock.stepWall(-900);
  await clock.run(60_000);
  assert.equal(world.timesOf('*/30 * * * * *').length, 2);
  assert.equal(clock.pendingForegroundTimers, 0, 'no process is kept alive by it');
});

test('a schedule that missed two runs is reported and run at once', async (t) => {
  const clock = new FakeClock(START_MS);
  const world = new World(t, clock, ['*/5 * * * * *', '0 * * * * *']);
  await clock.run(60_000);
  clock.standStill(12_000);
  await clock.run(0);
  assert.deepEqual(world.missed, [], 'one run late, and one missed');
  assert.equal(world.timesOf('*/5 * * * * *').length, 13);
  await clock.run(3000);
  clock.standStill(16_000);
  await clock.run(0);
  assert.deepEqual(world.missed, ['*/5 * * * * *']);
  assert.equal(world.timesOf('*/5 * * * * *').length, 15);
  await clock.run(5000);
  assert.equal(world.timesOf('*/5 * * * * *').length, 16);
  assert.deepEqual(world.missed, ['*/5 * * * * *'], 'reported once');
});

test('the watchdog starts schedules again whose timer was lost', async (t) => {
  /** Loses the first timer that is due after 61 seconds, which is not the watchdog's. */
  class LossyClock extends FakeClock {
    lost = 0;
    override after(ms: number, callback: () => void, options?: { background?: boolean }) {
      const lossy = () => {
        if (this.lost === 0 && this.monotonicMs() >= 61_000) this.lost += 1;
        else callback();
      };
      return super.after(ms, lossy, options);
    }
  }
  const clock = new LossyClock(START_MS);
  const world = new World(t, clock, ['*/10 * * * * *']);
  await clock.run(10 * MINUTE_MS);
  assert.equal(clock.lost, 1);
  assert.deepEqual(world.missed, ['*/10 * * * * *']);
  const times = world.timesOf('*/10 * * * * *');
  const longestMs = Math.max(...times.slice(1).map((ms, at) => ms - (times[at] ?? ms)));
  assert.ok(longestMs <= 35_000, `${longestMs}`);
  assert.ok(times.length >= 56, `${times.length}`);
});

test('understands every form of node-cron, in UTC', (t) => {
  const nextRuns = (expression: string) => {
    const clock = new FakeClock(START_MS);
    const world = new World(t, clock, [expression]);
    const days = 400;
    for (let hour = 0; hour < days * 24 && world.timesOf(expression).length < 2; hour += 1) {
      clock.standStill(HOUR_MS);
      clock.advance(0);
    }
    return world.timesOf(expression).map((ms) => isoMs(ms).slice(0, 13));
  };
  assert.deepEqual(nextRuns('@daily'), ['2026-01-16T00', '2026-01-17T00']);
  assert.deepEqual(nextRuns('0 6,18 L * *'), ['2026-01-31T06', '2026-01-31T18']);
  assert.deepEqual(nextRuns('0 12 * FEB MON#2'), ['2026-02-09T12', '2027-02-08T12']);
  assert.deepEqual(nextRuns('0 23 31 12 *'), ['2026-12-31T23']);
  const schedules = new Schedules(new FakeClock(START_MS), { scheduleMissed: () => undefined });
  t.after(() => schedules.stop());
  for (const expression of ['* * *', '61 * * * *', '0 0 30 2 *', '0 0 15W * MON#1']) {
    assert.throws(() => schedules.start('streams.depth.schedule', expression, () => undefined), {
      code: 'bad_schedule',
    });
  }
});
