import assert from 'node:assert/strict';
import test from 'node:test';
import { RequestGate } from '../../../src/client/request-gate.js';
import { type EndpointLimit, paceWithin } from '../../../src/contract/dialects.js';
import { RequestBudget } from '../../../src/kernel/budget.js';
import { FakeClock } from '../../support/fake-clock.js';

function make(burst: number, connections: number, limit?: EndpointLimit) {
  const clock = new FakeClock();
  const budget = new RequestBudget({ clock, ratePerS: 1, burst, maxWaiting: 10 });
  return { clock, budget, turns: new RequestGate(budget, clock, connections, limit) };
}

test('a call with a reserved turn waits for nothing, and uses it up', async () => {
  const { clock, budget, turns } = make(1, 1);
  const turn = await turns.reserve('history', 0);
  const leave = await turns.take('history', 0, undefined, turn);
  turn.giveBack();
  assert.equal(budget.spare(), 0, 'the token is spent');
  leave();
  let isSent = false;
  void turns.take('history', 0, undefined, turn).then(() => {
    isSent = true;
  });
  await clock.run(900);
  assert.equal(isSent, false, 'the turn is good for one request');
  await clock.run(100);
  assert.equal(isSent, true);
});

test('a turn that is given back frees its token and its connection, once', async () => {
  const { clock, budget, turns } = make(2, 1);
  const turn = await turns.reserve('history', 0);
  const waiting = turns.take('history', 0);
  await clock.run(0);
  turn.giveBack();
  turn.giveBack();
  const leave = await waiting;
  assert.equal(budget.spare(), 1);
  leave();
});

test('a turn waits for the end of a pause, and so does its use', async () => {
  const { clock, budget, turns } = make(2, 2);
  const turn = await turns.reserve('history', 0);
  budget.pause(5000, 'HTTP 429');
  const moments: number[] = [];
  const note = () => moments.push(clock.monotonicMs());
  void turns.take('history', 0, undefined, turn).then(note);
  void turns.reserve('history', 0).then(note);
  await clock.run(4999);
  assert.deepEqual(moments, []);
  await clock.run(1001);
  assert.deepEqual(moments, [5000, 5000]);
});

test('an aborted reservation holds nothing', async () => {
  const { clock, budget, turns } = make(2, 1);
  const held = await turns.take('history', 0);
  const controller = new AbortController();
  const reserved = assert.rejects(turns.reserve('history', 0, controller.signal), {
    message: 'enough',
  });
  await clock.run(0);
  controller.abort(new Error('enough'));
  await reserved;
  held();
  await clock.run(2000);
  assert.equal(budget.spare(), 2);
  const leave = await turns.take('history', 0);
  leave();
});

const LIMIT = { perSecond: 5, perMinute: 100 };

test('no second and no minute has more requests to one endpoint than its limit', async () => {
  for (const limit of [LIMIT, { perSecond: 1, perMinute: 30 }, { perSecond: 50, perMinute: 90 }]) {
    const { clock, turns } = make(1000, 1000, limit);
    const moments: number[] = [];
    const ask = async (): Promise<void> => {
      const leave = await turns.take('history', 0);
      moments.push(clock.monotonicMs());
      leave();
    };
    for (let at = 0; at < 400; at += 1) void ask();
    await clock.run(150_000);
    const most = (spanMs: number) =>
      Math.max(
        ...moments.map((from) => moments.filter((at) => at >= from && at < from + spanMs).length),
      );
    const pace = JSON.stringify(paceWithin(limit));
    assert.ok(most(1000) <= limit.perSecond, `${most(1000)} in a second, ${pace}`);
    assert.ok(most(60_000) <= limit.perMinute, `${most(60_000)} in a minute, ${pace}`);
    assert.ok(moments.length > 2 * limit.perMinute * 0.8, `only ${moments.length} went, ${pace}`);
  }
});

test('who waits for the limit of one endpoint keeps nothing from another', async () => {
  const { clock, turns } = make(1000, 2, LIMIT);
  for (let at = 0; at < 20; at += 1) {
    void turns.take('history', 0).then((leave) => leave());
    void turns.reserve('history', 0).then((turn) => turn.giveBack());
  }
  await clock.run(0);
  const leave = await turns.take('depth', 1);
  leave();
});

test('a turn that is given up, given back or used for another endpoint gives its own back', async () => {
  const { clock, turns } = make(1000, 10, { perSecond: 2, perMinute: 10 });
  const controller = new AbortController();
  const given = await turns.reserve('history', 0);
  const waiting = assert.rejects(turns.reserve('history', 0, controller.signal), {
    message: 'enough',
  });
  controller.abort(new Error('enough'));
  await waiting;
  given.giveBack();
  const used = await turns.reserve('history', 0);
  (await turns.take('depth', 0, undefined, used))();
  (await turns.take('history', 0))();
  let isAsked = false;
  void turns.take('depth', 0).then(() => {
    isAsked = true;
  });
  await clock.run(5000);
  assert.equal(isAsked, false, 'the request was one to depth');
});
