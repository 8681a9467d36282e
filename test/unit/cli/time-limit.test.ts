import assert from 'node:assert/strict';
import test from 'node:test';
import {
  QueryTimeoutError,
  StuckStatementError,
  TimeLimit,
  unlessStuck,
} from '../../../src/cli/query/time-limit.js';
import { FakeClock } from '../../support/fake-clock.js';

test('the time that a reader takes is none of the statement', async () => {
  const clock = new FakeClock();
  using limit = new TimeLimit(clock, 1_000);
  await clock.run(600);
  let read: () => void = () => undefined;
  const reading = limit.without(
    new Promise<void>((resolve) => {
      read = resolve;
    }),
  );
  await clock.run(3_600_000);
  assert.equal(limit.signal.aborted, false);
  read();
  await reading;
  await clock.run(399);
  assert.equal(limit.signal.aborted, false);
  await clock.run(1);
  assert.ok(limit.signal.reason instanceof QueryTimeoutError);
  assert.match(limit.signal.reason.message, /longer than 1 s.*--timeout/);
});

test('what ends when it is asked to is waited for, what does not is given up', async () => {
  const clock = new FakeClock();
  const limit = new TimeLimit(clock, 1_000);
  const obedient = new Promise<never>((_, reject) => {
    limit.signal.addEventListener('abort', () => reject(limit.signal.reason as Error));
  });
  const ends = assert.rejects(unlessStuck(clock, limit.signal, obedient), QueryTimeoutError);
  const deaf = unlessStuck(clock, limit.signal, new Promise<never>(() => undefined));
  const stuck = assert.rejects(deaf, StuckStatementError);
  await clock.run(1_000);
  await ends;
  await clock.run(5_000);
  await stuck;
  assert.equal(clock.pendingTimers, 0);
});
