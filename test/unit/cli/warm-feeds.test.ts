import assert from 'node:assert/strict';
import test from 'node:test';
import { KeptFeed } from '../../../src/cli/daemon/warm-feeds.js';
import type { StateEvent, StateFeed } from '../../../src/client/index.js';
import { BoundedQueue } from '../../../src/kernel/queue.js';

/** Feeds that a standby keeps: what they bring once they are taken. */

const FIGURES = { period: 60, last: '1', open: '1', close: '1', high: '1', low: '1' };
const opened = (exchangeMs: number): StateEvent => {
  return { kind: 'opened', identity: null, atMs: 0, exchangeMs };
};
const pushed = (exchangeMs: number, origin: 'update' | 'query' = 'update') => {
  const record = { ...FIGURES, volume: '1', deal: '1' };
  return { kind: 'record', origin, record, receivedAtMs: 0, exchangeMs } as StateEvent;
};
const CLOSED: StateEvent = {
  ...{ kind: 'closed', code: 1006, reason: 'remote', lastAliveExchangeMs: null },
  ...{ exchangeMs: 0, livedMs: 0 },
};

/** A feed that brings what a test says, kept from its beginning. */
function keep(nowMs: number) {
  const queue = new BoundedQueue<StateEvent>(10_000);
  const time = { jumps: 0, nowMs: () => nowMs };
  const feed: StateFeed = {
    ...{ market: 'BTC_USDT', periodS: 60, ask: () => undefined },
    stop: async () => queue.close(),
    [Symbol.asyncIterator]: () => queue[Symbol.asyncIterator](),
  };
  const kept = new KeptFeed(feed, time);
  /** Brings events, and lets the feed be read. */
  const bring = async (...events: StateEvent[]) => {
    for (const event of events) queue.offer(event);
    while (queue.size > 0) await new Promise(setImmediate);
    await new Promise(setImmediate);
  };
  /** Events in words that it has brought when it is taken and ends. */
  const taken = async (coveredUntilMs?: number) => {
    const feedTaken = kept.take(coveredUntilMs);
    queue.close();
    const all: string[] = [];
    for await (const event of feedTaken) {
      const proven = event.kind === 'opened' ? (event.provenMs ?? '-') : '';
      all.push(`${event.kind} ${'exchangeMs' in event ? event.exchangeMs : ''} ${proven}`.trim());
    }
    return all;
  };
  return { bring, taken, time };
}

test('goes on where the former holder ended, with what was pushed since', async () => {
  const { bring, taken } = keep(100_000);
  await bring(opened(80_000), pushed(81_000), pushed(90_000), pushed(99_500));
  // Two machines may read the time 2 s apart.
  assert.deepEqual(await taken(98_000), ['opened 80000 96000', 'record 99500']);
});

test('a feed without an update from before is proven by its first one', async () => {
  const { bring, taken } = keep(100_000);
  await bring(opened(80_000), pushed(80_500, 'query'), pushed(99_000));
  assert.deepEqual(await taken(98_000), ['opened 80000 -', 'record 99000']);
});

test('keeps half a minute, and one update from before', async () => {
  const { bring, taken } = keep(100_000);
  await bring(opened(1000), ...[10, 20, 60, 80, 90].map((s) => pushed(s * 1000)));
  assert.deepEqual(await taken(), [
    ...['opened 1000 -', 'record 60000', 'record 80000', 'record 90000'],
  ]);
});

test('keeps a bounded number of events, without a hole', async () => {
  const { bring, taken } = keep(100_000);
  await bring(opened(80_000), ...Array.from({ length: 2500 }, (_, n) => pushed(90_000 + n)));
  const all = await taken();
  assert.equal(all[0], 'opened 91999 -');
  assert.equal(all[1], 'record 91999');
  assert.equal(all.length, 502);
});

test('drops what came before the connection ended, and before the time jumped', async () => {
  const first = keep(100_000);
  await first.bring(opened(80_000), pushed(90_000), CLOSED, opened(95_000), pushed(96_000));
  assert.deepEqual(await first.taken(99_000), ['opened 95000 97000']);
  const second = keep(100_000);
  await second.bring(opened(80_000), pushed(90_000));
  second.time.jumps = 1;
  await second.bring(pushed(50_000));
  assert.deepEqual(await second.taken(), ['opened 50000 -', 'record 50000']);
});
