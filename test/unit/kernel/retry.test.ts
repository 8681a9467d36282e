import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import test from 'node:test';
import { seededRandom } from '../../../src/kernel/random.js';
import { Backoff, type RetryOptions, retry } from '../../../src/kernel/retry.js';
import { FakeClock } from '../../support/fake-clock.js';
import fc from '../../support/properties.js';

const ALMOST_ONE = 1 - 2 ** -32;

test('each wait lies between zero and a ceiling that doubles up to the cap', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5000 }),
      fc.integer({ min: 1, max: 300_000 }),
      fc.integer(),
      (baseMs, capMs, seed) => {
        const backoff = new Backoff({ baseMs, capMs }, seededRandom(seed));
        for (let attempt = 0; attempt < 100; attempt += 1) {
          const ceilingMs = Math.min(capMs, baseMs * 2 ** attempt);
          const waitMs = backoff.nextMs();
          assert.ok(waitMs >= 0 && waitMs < ceilingMs, `${waitMs} of ${ceilingMs}`);
          assert.equal(backoff.attempts, attempt + 1);
        }
      },
    ),
  );
});

test('the jitter is full: it reaches down to zero and up to the ceiling', () => {
  const lowest = new Backoff({ baseMs: 100, capMs: 1000 }, () => 0);
  assert.deepEqual([lowest.nextMs(), lowest.nextMs(), lowest.nextMs()], [0, 0, 0]);
  const highest = new Backoff({ baseMs: 100, capMs: 1000 }, () => ALMOST_ONE);
  const waits = Array.from({ length: 6 }, () => Math.round(highest.nextMs()));
  assert.deepEqual(waits, [100, 200, 400, 800, 1000, 1000]);
});

test('a reset starts over from the base; an endless outage stays at the cap', () => {
  const backoff = new Backoff({ baseMs: 100, capMs: 60_000 }, () => ALMOST_ONE);
  for (let attempt = 0; attempt < 5000; attempt += 1) assert.ok(backoff.nextMs() < 60_000);
  backoff.reset();
  assert.equal(backoff.attempts, 0);
  assert.equal(Math.round(backoff.nextMs()), 100);
});

class Flaky extends Error {}

function make(overrides: Partial<RetryOptions> = {}) {
  const clock = new FakeClock();
  const startedMs: number[] = [];
  const options: RetryOptions = {
    clock,
    random: () => 0.5,
    baseMs: 100,
    capMs: 1000,
    maxAttempts: 4,
    isRetryable: (error) => error instanceof Flaky,
    ...overrides,
  };
  /** Fails with `errors` one after the other, then returns 'done'. */
  const workOf = (errors: readonly Error[]) => async () => {
    startedMs.push(clock.monotonicMs());
    const error = errors[startedMs.length - 1];
    if (error !== undefined) throw error;
    return 'done';
  };
  return { clock, options, startedMs, workOf };
}

test('work that succeeds at once is done once and sets no timer', async () => {
  const { clock, options, startedMs, workOf } = make();
  assert.equal(await retry(options, workOf([])), 'done');
  assert.deepEqual(startedMs, [0]);
  assert.equal(clock.pendingTimers, 0);
});

test('work that fails is repeated after growing waits, each of them told', async () => {
  const told: Array<[unknown, number, number]> = [];
  const { clock, options, startedMs, workOf } = make({
    onRetry: (error, attempt, waitMs) => told.push([error, attempt, waitMs]),
  });
  const errors = [new Flaky('one'), new Flaky('two'), new Flaky('three')];
  const result = retry(options, workOf(errors));
  await clock.run(1000);
  assert.equal(await result, 'done');
  assert.deepEqual(startedMs, [0, 50, 150, 350]);
  assert.deepEqual(told, [
    [errors[0], 1, 50],
    [errors[1], 2, 100],
    [errors[2], 3, 200],
  ]);
});

test('when the tries are used up, the last error is thrown', async () => {
  const { clock, options, startedMs, workOf } = make({ maxAttempts: 3 });
  const errors = [1, 2, 3, 4, 5].map((number) => new Flaky(`number ${number}`));
  const failed = assert.rejects(retry(options, workOf(errors)), errors[2]);
  await clock.run(10_000);
  await failed;
  assert.equal(startedMs.length, 3);
  assert.equal(clock.pendingTimers, 0);
});

test('an error that is not worth repeating is thrown at once', async () => {
  const { clock, options, startedMs, workOf } = make();
  await assert.rejects(retry(options, workOf([new RangeError('final')])), /final/);
  assert.deepEqual(startedMs, [0]);
  assert.equal(clock.pendingTimers, 0);
});

test('an abort ends the wait with its reason, and nothing is tried again', async () => {
  const owner = new AbortController();
  const { clock, options, startedMs, workOf } = make({ signal: owner.signal });
  const result = retry(options, workOf([new Flaky('one'), new Flaky('two')]));
  const failed = assert.rejects(result, /stopped/);
  await clock.timersPending();
  owner.abort(new Error('stopped'));
  await failed;
  await clock.run(10_000);
  assert.deepEqual(startedMs, [0]);
  assert.equal(clock.pendingTimers, 0);
  assert.equal(getEventListeners(owner.signal, 'abort').length, 0);
});

test('work that fails after an abort is not repeated', async () => {
  const owner = new AbortController();
  const { clock, options } = make({ signal: owner.signal });
  const result = retry(options, async () => {
    owner.abort(new Error('stopped'));
    throw new Flaky('cut off');
  });
  await assert.rejects(result, /cut off/);
  assert.equal(clock.pendingTimers, 0);
});
