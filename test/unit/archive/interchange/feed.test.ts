import assert from 'node:assert/strict';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import fc from 'fast-check';
import {
  BookChanges,
  type BookSides,
  FEED,
  type FeedEvent,
  feedContent,
  type Latency,
  sealEvents,
  stageEvents,
  zipOne,
} from '../../../../src/archive/interchange/feed.js';
import { makeFolder } from '../../../support/worlds/export-world.js';
import {
  batches,
  type ReadEvent,
  readEvents,
  unzipOne,
} from '../../../support/worlds/interchange.js';

const side = fc.uniqueArray(
  fc.tuple(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 3 })),
  {
    ...{ selector: ([price]) => price, maxLength: 6 },
  },
);
const book = fc.tuple(side, side).map(([bids, asks]): BookSides => {
  const down = bids.sort(([a], [b]) => b - a);
  const up = asks.sort(([a], [b]) => a - b);
  return {
    bidPrices: down.map(([price]) => `${price}.50`),
    bidAmounts: down.map(([, amount]) => `0.${amount}`),
    askPrices: up.map(([price]) => `${price + 20}.50`),
    askAmounts: up.map(([, amount]) => `0.${amount}`),
  };
});

/** The book of a reader that follows the events. */
class FollowedBook {
  readonly bids = new Map<number, number>();
  readonly asks = new Map<number, number>();

  follow({ ev, price, amount }: Pick<FeedEvent, 'ev' | 'price' | 'amount'>): void {
    const kind = ev % 256;
    const levels = ev - kind === FEED.buy ? this.bids : this.asks;
    if (kind === FEED.depthClear) levels.clear();
    else if (Number(amount) === 0) assert.ok(levels.delete(Number(price)), 'it was there');
    else levels.set(Number(price), Number(amount));
  }
}

const sides = (prices: readonly string[], amounts: readonly string[]) =>
  new Map(prices.map((price, index) => [Number(price), Number(amounts[index])]));

test('who follows the changes has every observed book, level by level', () => {
  fc.assert(
    fc.property(fc.array(book, { minLength: 1, maxLength: 8 }), (books) => {
      const changes = new BookChanges();
      const reader = new FollowedBook();
      for (const [index, one] of books.entries()) {
        const events = changes.of(one);
        for (const event of events) {
          assert.equal(event.ev % 256 === FEED.depth, index > 0, 'only the first is a snapshot');
          reader.follow(event);
        }
        assert.deepEqual(
          new Map([...reader.bids].sort()),
          new Map([...sides(one.bidPrices, one.bidAmounts)].sort()),
        );
        assert.deepEqual(
          new Map([...reader.asks].sort()),
          new Map([...sides(one.askPrices, one.askAmounts)].sort()),
        );
        assert.deepEqual(changes.of(one), [], 'the same book again changes nothing');
      }
    }),
  );
});

async function sealed(t: TestContext, events: readonly FeedEvent[], latency: Latency) {
  const folder = await makeFolder(t);
  const scratch = (name: string) => join(folder, name);
  await stageEvents(scratch, batches(events, 3));
  const { signal } = new AbortController();
  const { rows, facts } = await sealEvents(scratch, latency, () => undefined, signal);
  const pieces: Uint8Array[] = [];
  for await (const piece of zipOne('data.npy', feedContent(scratch, rows), new Date(0)))
    pieces.push(piece);
  const { name, content } = unzipOne(Buffer.concat(pieces));
  assert.equal(name, 'data.npy');
  const read = readEvents(content);
  assert.equal(read.events.length, rows);
  return { ...read, facts };
}

const hasFlag =
  (flag: number) =>
  ({ ev }: ReadEvent) =>
    Math.floor(ev / flag) % 2 === 1;
const isAscending = (times: readonly bigint[]) =>
  times.every((time, index) => index === 0 || (times[index - 1] ?? 0n) <= time);
const BASE_US = 1_768_478_400_000_000;

test('each side sees every event once and in the order of its own time', async (t) => {
  const event = fc.record({
    exchUs: fc.integer({ min: 0, max: 20 }).map((us) => BASE_US + us),
    localUs: fc.integer({ min: -3, max: 60 }).map((us) => BASE_US + us),
    price: fc.integer({ min: 1, max: 9 }).map((digit) => `0.${digit}00000000000000000${digit}`),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(event, { maxLength: 40 }), async (made) => {
      const events = made.map((one, index) => ({
        ...{ ev: FEED.trade + FEED.buy, amount: String(index + 1) },
        ...one,
      }));
      const { head, events: read, facts } = await sealed(t, events, { kind: 'received' });
      assert.match(head, new RegExp(`'shape': \\(${read.length},\\), }\\s*\\n$`));
      const shift = BigInt(Math.max(0, -facts.leastLatencyUs)) * 1000n;
      for (const flag of [FEED.exchange, FEED.local]) {
        const seen = read.filter(hasFlag(flag));
        const times = seen.map(({ exchNs, localNs }) =>
          flag === FEED.exchange ? exchNs : localNs,
        );
        assert.ok(isAscending(times));
        assert.deepEqual(
          seen
            .map(({ exchNs, localNs, px, qty, rest }) => [
              qty,
              exchNs,
              localNs - shift,
              px,
              ...rest,
            ])
            .sort(([a], [b]) => Number(a) - Number(b)),
          events.map(({ exchUs, localUs, price, amount }) => [
            ...[Number(amount), BigInt(exchUs) * 1000n, BigInt(localUs) * 1000n, Number(price)],
            ...[0, 0, 0],
          ]),
        );
      }
      assert.ok(
        read.every(({ exchNs, localNs }) => localNs >= exchNs),
        'nothing is seen before it happens',
      );
    }),
    { numRuns: 15 },
  );
});

test('a latency of choice: one row an event, trades before the book of the same moment', async (t) => {
  const at = (exchUs: number, ev: number, amount: string): FeedEvent => ({
    ...{ ev, exchUs: BASE_US + exchUs, localUs: 0, price: '61837.63000000', amount },
  });
  const trade = FEED.trade + FEED.sell;
  const events = [at(5, trade, '1'), at(9, trade, '2'), at(5, FEED.depth + FEED.buy, '3')];
  const { events: read, facts } = await sealed(t, events, { kind: 'fixed', latencyUs: 100_000 });
  const both = FEED.exchange + FEED.local;
  assert.deepEqual(
    read.map(({ ev, qty, exchNs, localNs, px }) => [ev, qty, localNs - exchNs, px]),
    [
      [trade + both, 1, 100_000_000n, 61_837.63],
      [FEED.depth + FEED.buy + both, 3, 100_000_000n, 61_837.63],
      [trade + both, 2, 100_000_000n, 61_837.63],
    ],
  );
  assert.equal(facts.farOff, 3, 'received decades before it happened');
});

test('a failure of what is packed is a failure of the archive', async () => {
  async function* failing() {
    yield Buffer.from('begin');
    throw new Error('the disk is gone');
  }
  await assert.rejects(async () => {
    for await (const piece of zipOne('a', failing(), new Date(0))) void piece;
  }, /the disk is gone/);
});
