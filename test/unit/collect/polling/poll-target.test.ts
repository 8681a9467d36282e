import assert from 'node:assert/strict';
import test from 'node:test';
import { worthOfKnown, worthOfUnknown } from '../../../../src/collect/polling/choice.js';
import { PollTarget } from '../../../../src/collect/polling/poll-target.js';
import type { HeadLook } from '../../../../src/collect/trades/head.js';
import { WalkStalledError } from '../../../../src/collect/trades/walk-errors.js';

function makeLane(largestPage = 0): PollTarget {
  const look: HeadLook = {
    ...{ newRows: 0, newTimesMs: [], asked: 1000, received: 0, isConnected: true, isOpen: false },
  };
  const walker = {
    ...{ market: 'A', endpoint: 'historyResult' as const },
    ...{ isBusy: false, isPushed: false, largestPage },
    pollHead: () => Promise.resolve(look),
  };
  return new PollTarget(walker, () => 0.5, 0);
}

const look = (rows: number, overrides: Partial<HeadLook> = {}): HeadLook => ({
  newRows: rows,
  newTimesMs: [],
  asked: 1000,
  received: rows,
  isConnected: true,
  isOpen: false,
  ...overrides,
});

test('the rate is learnt from polls and follows a change within minutes', () => {
  const target = makeLane();
  const poll = (atMs: number, rows: number) => {
    target.begin(atMs);
    target.succeeded(look(rows));
  };
  for (let at = 0; at <= 100; at += 1) poll(at * 10_000, 20);
  assert.ok(Math.abs(target.perS(1_000_000) - 2) < 0.3, String(target.perS(1_000_000)));
  for (let at = 101; at <= 200; at += 1) poll(at * 10_000, 0);
  assert.ok(target.perS(2_000_000) < 0.1 && target.perS(2_000_000) > 0);
});

test('the first page tells the rate until now, and caps nothing', () => {
  const target = makeLane(3);
  target.begin(0);
  const newTimesMs = Array.from({ length: 101 }, (_, at) => 50_000 - at * 500);
  target.succeeded(look(101, { newTimesMs, isConnected: false, received: 3 }));
  assert.ok(Math.abs(target.perS(0) - 1.26) < 0.1, String(target.perS(0)));
  assert.equal(target.pageRows, 1000);
});

test('a server that caps its pages is seen by a page that is short and does not connect', () => {
  const target = makeLane(100);
  target.begin(0);
  target.succeeded(look(10));
  target.begin(1000);
  target.succeeded(look(40, { isConnected: false }));
  assert.equal(target.pageRows, 1000, 'longer ones were seen');
  target.begin(2000);
  target.succeeded(look(100, { isConnected: false }));
  assert.equal(target.pageRows, 100);
});

test('activity signals that wait raise the rate at once', () => {
  const target = makeLane();
  target.begin(0);
  target.succeeded(look(0));
  for (let atMs = 1000; atMs <= 11_000; atMs += 1000) {
    target.noteTrade({ atMs, source: 'pushed' });
  }
  assert.equal(target.perS(11_000), 1);
  assert.equal(target.traded?.atMs, 1000);
});

test('activity signals that come during a poll wait for the next one; those of a failed poll come back', () => {
  const target = makeLane();
  target.noteTrade({ atMs: 5, source: 'pushed' });
  const waiting = target.begin(10);
  target.noteTrade({ atMs: 12, source: 'swept' });
  target.succeeded(look(1));
  assert.deepEqual(target.traded, { atMs: 12, source: 'swept', more: 0 });
  target.begin(20);
  target.failed(30, waiting);
  assert.equal(target.traded?.atMs, 5);
  assert.ok(target.isFailing && target.retryAtMs >= 30 && target.dueAtMs !== undefined);
});

test('a walk that stands is asked for again within seconds, however often it stood', () => {
  const target = makeLane();
  for (let look = 0; look < 20; look += 1) {
    const waiting = target.begin(look * 100_000);
    target.failed(
      look * 100_000,
      waiting,
      new WalkStalledError('A', 'history', 'the same page twice'),
    );
    assert.ok(target.retryAtMs - look * 100_000 <= 5000);
  }
});

test('rare trades are worth more at first, many trades soon after', () => {
  assert.ok(worthOfKnown(0.01, 0) > worthOfKnown(1, 0));
  assert.ok(worthOfKnown(0.01, 20) < worthOfKnown(1, 20));
  // Polled when equally worth, intervals are in proportion to 1/√λ.
  assert.ok(Math.abs(worthOfUnknown(4, 5) - worthOfUnknown(1, 10)) < 1e-9);
});
