import assert from 'node:assert/strict';
import test from 'node:test';
import { BudgetOverrunError, RequestBudget } from '../../../src/kernel/budget.js';
import { FakeClock } from '../../support/fake-clock.js';
import fc from '../../support/properties.js';

function make(overrides: Partial<ConstructorParameters<typeof RequestBudget>[0]> = {}) {
  const clock = new FakeClock();
  const pauses: Array<{ reason: string; waitMs: number }> = [];
  const budget = new RequestBudget({
    clock,
    ratePerS: 5,
    burst: 1,
    maxWaiting: 100,
    onPause: (event) => pauses.push(event),
    ...overrides,
  });
  return { clock, budget, pauses };
}

/** Takes `count` tokens and notes the time at which each was given. */
function takeMany(clock: FakeClock, budget: RequestBudget, count: number, priority = 0): number[] {
  const times: number[] = [];
  for (let taken = 0; taken < count; taken += 1) {
    void budget.take(priority).then(() => times.push(clock.monotonicMs()));
  }
  return times;
}

test('requests start at the configured rate, and no timer is left when nobody waits', async () => {
  const { clock, budget } = make({ burst: 2 });
  const times = takeMany(clock, budget, 5);
  await clock.run(1000);
  assert.deepEqual(times, [0, 0, 200, 400, 600]);
  assert.equal(clock.pendingTimers, 0);
});

test('who waits is looked at again when the token is whole, not before and not after', async () => {
  const { clock, budget } = make();
  await budget.take(0);
  clock.advance(50);
  const times = takeMany(clock, budget, 1);
  assert.equal(clock.nextTimerMs, 150);
  await clock.run(150);
  assert.deepEqual(times, [200]);
});

test('background work goes behind the others, equals in their order', async () => {
  const { clock, budget } = make();
  const order: string[] = [];
  await budget.take(0);
  for (const [name, priority] of [
    ['late', 9],
    ['first', 1],
    ['later', 5],
    ['second', 1],
  ] as const) {
    void budget.take(priority).then(() => order.push(name));
  }
  await clock.run(1000);
  assert.deepEqual(order, ['first', 'second', 'late', 'later']);
});

test('one waiter too many is refused with a typed error', async () => {
  const { clock, budget } = make({ maxWaiting: 2 });
  takeMany(clock, budget, 3);
  await assert.rejects(budget.take(0), BudgetOverrunError);
  await clock.run(1000);
  assert.equal(budget.state().waiting, 0);
});

test('a waiter that is aborted leaves without a token, and its timer goes too', async () => {
  const { clock, budget } = make();
  await budget.take(0);
  const controller = new AbortController();
  const waiting = budget.take(0, controller.signal);
  controller.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  assert.equal(clock.pendingTimers, 0);
  await assert.rejects(budget.take(0, controller.signal), /enough/);
  clock.advance(200);
  assert.equal(budget.spare(), 1);
});

test('no request starts inside a pause; a shorter one does not end a longer one', async () => {
  const { clock, budget, pauses } = make({ burst: 3 });
  budget.pause(5000, 'Retry-After');
  budget.pause(1000, 'Retry-After');
  const times = takeMany(clock, budget, 3);
  assert.equal(budget.spare(), 0);
  await clock.run(4999);
  assert.deepEqual(times, []);
  await clock.run(1);
  assert.deepEqual(times, [5000, 5000, 5000]);
  assert.deepEqual(pauses, [{ reason: 'Retry-After', waitMs: 5000 }]);
});

test('one answer can stop all for a minute; for longer only when a second one agrees', async () => {
  const { clock, budget, pauses } = make();
  budget.pause(Number.NaN, 'nonsense');
  budget.pause(-5, 'nonsense');
  assert.deepEqual(pauses, []);
  budget.pause(1e7, 'huge');
  // One that was under way with the first is no second one.
  clock.advance(500);
  budget.pause(1e7, 'huge');
  const times = takeMany(clock, budget, 1);
  await clock.run(400_000);
  assert.deepEqual(times, [60_500]);
  budget.pause(1e7, 'huge');
  const later = takeMany(clock, budget, 1);
  await clock.run(400_000);
  assert.deepEqual(later, [400_500 + 300_000]);
});

test('after an answer that asks for no wait, a long one must be agreed on anew', async () => {
  const { clock, budget } = make();
  budget.pause(1e7, 'huge');
  await clock.run(70_000);
  budget.served();
  budget.pause(1e7, 'huge');
  const times = takeMany(clock, budget, 1);
  await clock.run(400_000);
  assert.deepEqual(times, [130_000]);
});

test('headers slow the rate to what remains, until their window ends', async () => {
  const { clock, budget } = make();
  budget.observeHeaders({ limit: 500, remaining: 10, resetS: 10 });
  assert.equal(budget.state().ratePerS, 1);
  const times = takeMany(clock, budget, 15);
  await clock.run(10_000);
  assert.equal(times.length, 11);
  await clock.run(1000);
  assert.equal(times.length, 15);
  assert.equal(budget.state().ratePerS, 5);
});

test('nothing remaining pauses until the reset; beyond a minute only when said twice', async () => {
  const { clock, budget, pauses } = make();
  const usedUp = { limit: 500, remaining: 0, resetS: 1e7 };
  budget.observeHeaders(usedUp);
  const times = takeMany(clock, budget, 1);
  await clock.run(100_000);
  assert.deepEqual(times, [60_000]);
  budget.observeHeaders(usedUp);
  const later = takeMany(clock, budget, 1);
  await clock.run(4_000_000);
  assert.deepEqual(later, [3_700_000]);
  assert.equal(pauses.length, 2);
});

test('one answer whose headers leave next to nothing slows all for a minute, not for an hour', async () => {
  const { clock, budget } = make();
  await budget.take(0);
  budget.observeHeaders({ limit: 500, remaining: 1, resetS: 3600 });
  const times = takeMany(clock, budget, 5);
  await clock.run(62_000);
  assert.equal(times.length, 5);
});

test('header values that make no sense change nothing', () => {
  const { budget, pauses } = make();
  for (const headers of [
    { limit: 500, remaining: -1, resetS: 60 },
    { limit: 500, remaining: 501, resetS: 60 },
    { limit: 0, remaining: 0, resetS: 60 },
    { remaining: Number.NaN, resetS: 60 },
    { remaining: 0, resetS: Number.POSITIVE_INFINITY },
    { remaining: 1, resetS: -3 },
    { remaining: 0, resetS: 0 },
  ]) {
    budget.observeHeaders(headers);
  }
  assert.deepEqual(budget.state(), { ratePerS: 5, tokens: 1, waiting: 0 });
  assert.deepEqual(pauses, []);
});

test('single refusals hardly cut the rate, and answers give it back', () => {
  const { clock, budget } = make({ ratePerS: 40 });
  let least = 40;
  for (let answer = 1; answer <= 3000; answer += 1) {
    clock.advance(25);
    if (answer % 150 === 0) budget.refused();
    else budget.served();
    least = Math.min(least, budget.state().ratePerS);
  }
  assert.ok(least > 0.97 * 40, `the rate fell to ${least}`);
});

test('one refusal in fifty leaves the most of the rate, however slow it is', () => {
  for (const ratePerS of [1, 5, 40]) {
    const { clock, budget } = make({ ratePerS });
    let sum = 0;
    for (let answer = 1; answer <= 2000; answer += 1) {
      clock.advance(1000 / budget.state().ratePerS);
      if (answer % 50 === 0) budget.refused();
      else budget.served();
      sum += budget.state().ratePerS;
    }
    assert.ok(sum / 2000 > 0.9 * ratePerS, `${sum / 2000} of ${ratePerS} a second`);
  }
});

test('a storm of refusals cuts the rate to next to nothing, and a minute later all of it is back', () => {
  const { clock, budget } = make({ ratePerS: 40 });
  for (let second = 0; second < 30; second += 1) {
    clock.advance(1000);
    budget.refused();
    budget.refused();
  }
  assert.ok(budget.state().ratePerS < 1, `${budget.state().ratePerS} a second`);
  clock.advance(30_000);
  const halfway = budget.state().ratePerS;
  assert.ok(halfway > 3 && halfway < 20, `${halfway} a second`);
  clock.advance(30_000);
  assert.equal(budget.state().ratePerS, 40);
});

test('refusals of requests that were under way together cut once', () => {
  const { clock, budget } = make();
  for (let answer = 0; answer < 20; answer += 1) budget.refused();
  const after = budget.state().ratePerS;
  clock.advance(1000);
  budget.refused();
  assert.ok(after > 4.9 && budget.state().ratePerS < 0.6 * after);
});

test('what was cut does not come back while nothing may be sent', async () => {
  const { clock, budget } = make();
  for (let second = 0; second < 30; second += 1) {
    clock.advance(1000);
    budget.refused();
  }
  budget.pause(60_000, 'Retry-After');
  await clock.run(60_000);
  assert.ok(budget.state().ratePerS < 1);
  await clock.run(60_000);
  assert.equal(budget.state().ratePerS, 5, 'a minute of sending brings it back');
});

test('a refusal leaves what may start at once in proportion to what it cut', () => {
  const { clock, budget } = make({ burst: 10 });
  budget.refused();
  const { tokens } = budget.state();
  assert.ok(tokens > 5 && tokens <= 10, `${tokens} after one refusal`);
  for (let second = 0; second < 30; second += 1) {
    clock.advance(1000);
    budget.refused();
  }
  assert.equal(budget.state().tokens, 1);
});

test('a limit below the configured rate is found, and met with few refusals', async () => {
  const { clock, budget } = make({ ratePerS: 40, burst: 10 });
  const limitPerS = 10;
  let [allowed, served, refused] = [limitPerS, 0, 0];
  let isOver = false;
  const ask = async () => {
    while (!isOver) {
      await budget.take(0);
      if (allowed >= 1) {
        allowed -= 1;
        served += 1;
        budget.served();
      } else {
        refused += 1;
        budget.refused();
        budget.pause(1000, 'Retry-After');
      }
    }
  };
  const asking = ask();
  const pass = async (seconds: number) => {
    for (let step = 0; step < seconds * 10; step += 1) {
      await clock.run(100);
      allowed = Math.min(limitPerS, allowed + limitPerS / 10);
    }
  };
  await pass(120);
  [served, refused] = [0, 0];
  await pass(300);
  assert.ok(served / 300 > 0.8 * limitPerS, `${served / 300} a second`);
  assert.ok(refused / (served + refused) < 0.08, `${refused} of ${served + refused} refused`);
  isOver = true;
  await clock.run(60_000);
  await asking;
});

test('over any span no more requests start than burst and rate allow', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 50 }),
      fc.integer({ min: 1, max: 10 }),
      fc.array(fc.integer({ min: 0, max: 400 }), { minLength: 1, maxLength: 40 }),
      async (ratePerS, burst, arrivalsMs) => {
        const { clock, budget } = make({ ratePerS, burst });
        const times: number[] = [];
        for (const gapMs of arrivalsMs) {
          await clock.run(gapMs);
          void budget.take(0).then(() => times.push(clock.monotonicMs()));
        }
        await clock.run(60_000);
        assert.equal(times.length, arrivalsMs.length);
        for (const [from, startMs] of times.entries()) {
          for (const [until, endMs] of times.slice(from).entries()) {
            const allowed = burst + ((endMs - startMs) / 1000) * ratePerS;
            assert.ok(until + 1 <= allowed + 1e-6, `${until + 1} starts in ${endMs - startMs} ms`);
          }
        }
        assert.equal(clock.pendingTimers, 0);
      },
    ),
    { numRuns: 50 },
  );
});

test('more work than turns: trades have half of them, background work a tenth', async () => {
  const clock = new FakeClock();
  let shared = 0;
  const onShared = () => {
    shared += 1;
  };
  const budget = new RequestBudget({
    ...{ clock, ratePerS: 5, burst: 1, maxWaiting: 10_000, onShared },
  });
  const served = new Map<number, number>();
  const count = (priority: number) => served.set(priority, (served.get(priority) ?? 0) + 1);
  // Trades reserve one turn at a time, and come back once they have had it.
  const lead = () => {
    void budget.take(-1).then(() => {
      count(-1);
      lead();
    });
  };
  lead();
  for (let second = 0; second < 60; second += 1) {
    for (const priority of [1, 1, 1, 1, 1, 1, 2, 3]) {
      void budget.take(priority).then(() => count(priority));
    }
    await clock.run(1000);
  }
  const turns = [-1, 1, 2, 3].map((priority) => served.get(priority));
  assert.deepEqual(turns, [151, 120, 15, 15]);
  assert.equal(shared, 30);
});

test('work that leads does not wait for what came before it', async () => {
  const { clock, budget } = make();
  await budget.take(0);
  const order: string[] = [];
  for (const [priority, name, count] of [
    [1, 'other', 4],
    [3, 'background', 1],
    [-1, 'lead', 4],
  ] as const) {
    for (let one = 0; one < count; one += 1) {
      void budget.take(priority).then(() => order.push(name));
    }
  }
  await clock.run(3000);
  assert.equal(order[0], 'lead');
  const leads = order.slice(0, 8).filter((one) => one === 'lead');
  assert.equal(leads.length, 4, order.join());
  assert.equal(order.length, 9);
});

test('a token that is given back serves the next one, and never makes more than a burst', async () => {
  const { clock, budget } = make();
  await budget.take(0);
  const times = takeMany(clock, budget, 1);
  budget.giveBack();
  await clock.run(0);
  assert.deepEqual(times, [0]);
  clock.advance(200);
  budget.giveBack();
  assert.equal(budget.spare(), 1);
});

test('a budget that would let nothing through, or all at once, cannot be made', () => {
  for (const ratePerS of [0, -1, Number.NaN, Infinity]) {
    assert.throws(() => make({ ratePerS }), { name: 'RangeError', message: /rate must be above/ });
  }
  for (const options of [{ burst: 0 }, { maxWaiting: 0 }, { burst: Number.NaN }]) {
    assert.throws(() => make(options), { name: 'RangeError', message: /must be 1 or more/ });
  }
  assert.doesNotThrow(() => make({ ratePerS: 0.001, burst: 1, maxWaiting: 1 }));
});
