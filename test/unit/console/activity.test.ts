import assert from 'node:assert/strict';
import test from 'node:test';
import { Activity } from '../../../src/console/activity.js';
import { ACTIVITY } from '../../../src/console/api/documents.js';
import { RunCounts } from '../../../src/observe/run-counts.js';
import { FakeClock } from '../../support/fake-clock.js';

test('an hour of steps is kept, in columns of equal length', () => {
  const clock = new FakeClock();
  const counts = new RunCounts();
  const startMs = clock.wallMs();
  const activity = new Activity({
    ...{ clock, snapshot: () => counts.snapshot(), exchangeNowMs: () => clock.wallMs() },
  });
  assert.equal(activity.newest(), undefined);
  clock.advance(10_000);
  counts.received('trades', 25);
  counts.settled('trades', 'stored', 25);
  counts.settled('trades', 'duplicate', 5);
  counts.progressed('trades', 'A', startMs + 18_000);
  counts.requestEnded('history', 'ok', '');
  counts.committed();
  counts.openSockets.add('A 1');
  clock.advance(10_000);
  assert.deepEqual(activity.answer(), {
    ...{ stepS: 10, atMs: [startMs + 10_000, startMs + 20_000] },
    ...{ rowsPerS: { trades: [null, 2.5] }, lagS: [null, 2], requestsPerS: [0, 0.1] },
    ...{ commitsPerS: [0, 0.1], sockets: [0, 1] },
  });
  // The process was stopped for a while: the rate is that of the whole time.
  counts.settled('trades', 'stored', 60);
  clock.standStill(50_000);
  clock.advance(0);
  assert.deepEqual(activity.newest()?.rowsPerS.trades, [1.2]);
  for (let at = 0; at < 500; at += 1) clock.advance(10_000);
  const all = ACTIVITY.parse(activity.answer());
  const { rowsPerS, atMs, lagS, requestsPerS, commitsPerS, sockets } = all;
  const columns = [atMs, rowsPerS.trades ?? [], lagS, requestsPerS, commitsPerS, sockets];
  assert.deepEqual(new Set(columns.map(({ length }) => length)), new Set([360]));
  assert.equal(clock.pendingForegroundTimers, 0);
  activity.stop();
  assert.equal(clock.pendingTimers, 0);
});
