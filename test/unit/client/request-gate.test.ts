import assert from 'node:assert/strict';
import test from 'node:test';
import { RequestGate } from '../../../src/client/request-gate.js';
import { RequestBudget } from '../../../src/kernel/budget.js';
import { FakeClock } from '../../support/fake-clock.js';

function make(burst: number, connections: number) {
  const clock = new FakeClock();
  const budget = new RequestBudget({ clock, ratePerS: 1, burst, maxWaiting: 10 });
  return { clock, budget, turns: new RequestGate(budget, clock, connections) };
}

test('a call with a reserved turn waits for nothing, and uses it up', async () => {
  const { clock, budget, turns } = make(1, 1);
  const turn = await turns.reserve(0);
  const leave = await turns.take(0, undefined, turn);
  turn.giveBack();
  assert.equal(budget.spare(), 0, 'the token is spent');
  leave();
  let isSent = false;
  void turns.take(0, undefined, turn).then(() => {
    isSent = true;
  });
  await clock.run(900);
  assert.equal(isSent, false, 'the turn is good for one request');
  await clock.run(100);
  assert.equal(isSent, true);
});

test('a turn that is given back frees its token and its connection, once', async () => {
  const { clock, budget, turns } = make(2, 1);
  const turn = await turns.reserve(0);
  const waiting = turns.take(0);
  await clock.run(0);
  turn.giveBack();
  turn.giveBack();
  const leave = await waiting;
  assert.equal(budget.spare(), 1);
  leave();
});

test('a turn waits for the end of a pause, and so does its use', async () => {
  const { clock, budget, turns } = make(2, 2);
  const turn = await turns.reserve(0);
  budget.pause(5000, 'HTTP 429');
  const moments: number[] = [];
  const note = () => moments.push(clock.monotonicMs());
  void turns.take(0, undefined, turn).then(note);
  void turns.reserve(0).then(note);
  await clock.run(4999);
  assert.deepEqual(moments, []);
  await clock.run(1001);
  assert.deepEqual(moments, [5000, 5000]);
});

test('an aborted reservation holds nothing', async () => {
  const { clock, budget, turns } = make(2, 1);
  const held = await turns.take(0);
  const controller = new AbortController();
  const reserved = assert.rejects(turns.reserve(0, controller.signal), { message: 'enough' });
  await clock.run(0);
  controller.abort(new Error('enough'));
  await reserved;
  held();
  await clock.run(2000);
  assert.equal(budget.spare(), 2);
  const leave = await turns.take(0);
  leave();
});
