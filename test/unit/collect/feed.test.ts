import assert from 'node:assert/strict';
import test from 'node:test';
import type { TradeFeedEvent } from '../../../src/client/index.js';
import type { ArchivePort } from '../../../src/collect/ports.js';
import { TradeEvidence } from '../../../src/collect/trades/evidence.js';
import { type FedMarket, TradeFeedCollector } from '../../../src/collect/trades/feed.js';
import { PushedTrades } from '../../../src/collect/trades/pushed.js';
import { BoundedQueue } from '../../../src/kernel/queue.js';
import type { Batch } from '../../../src/model/batch.js';
import { FakeTime } from '../../support/fake-time.js';
import { START_MS, START_S, TradeWorld } from '../../support/worlds/trade-world.js';

/** The connection over which trades are pushed: what of it is stored, and what counts as evidence. */

const upTo = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, at) => from + at);

/** A collector of a feed that tells what it is given. */
class ToldFeed {
  readonly world = new TradeWorld([], 0);
  readonly evidence: TradeEvidence;
  readonly markets = new Map<string, FedMarket>();
  readonly asked: string[] = [];
  readonly collector: TradeFeedCollector;
  /** Markets whose newest trades the feed asks for after a connection, in this order. */
  missed: () => readonly string[] = () => [];
  readonly #events = new BoundedQueue<TradeFeedEvent>(1000);

  constructor(commit: ArchivePort['commit'], markets = ['A']) {
    const { record: telemetry, clock } = this.world;
    const time = new FakeTime(clock);
    this.evidence = new TradeEvidence({ market: 'A', time, clock, telemetry });
    for (const market of markets) this.add(market);
    this.collector = new TradeFeedCollector({
      archive: { commit },
      ...{ telemetry, time, markets: this.markets },
      open: ({ missed }) => {
        this.missed = missed;
        this.asked.push('open');
        return {
          resubscribe: () => this.asked.push('resubscribe'),
          renew: () => this.asked.push('renew'),
          stop: async () => this.#events.close(),
          [Symbol.asyncIterator]: () => this.#events[Symbol.asyncIterator](),
        };
      },
      onClosed: () => {
        this.asked.push('closed');
      },
    });
  }

  add(market: string): PushedTrades {
    const pushed = new PushedTrades();
    this.markets.set(market, { marketId: 7, pushed: [pushed], evidence: this.evidence });
    return pushed;
  }

  tell(...events: readonly TradeFeedEvent[]): void {
    for (const event of events) assert.ok(this.#events.offer(event));
  }
}

/** Follows a feed that tells these events, to its end. */
async function collected(told: readonly TradeFeedEvent[], commit: ArchivePort['commit']) {
  const feed = new ToldFeed(commit);
  feed.tell(...told);
  feed.collector.start();
  await feed.collector.stop();
  const ended = feed.asked.filter((one) => one === 'closed').length;
  return { ended, telemetry: feed.world.record };
}

const storesAll: ArchivePort['commit'] = async ({ trades = [] }) =>
  ({ outcomes: { trade: { stored: trades.length } }, ranges: [] }) as never;

test('a connection that ended has history asked more often once, and one that never opened not at all', async () => {
  const told: TradeFeedEvent[] = [
    { kind: 'closed', code: 1006, reason: 'connect_failed', exchangeMs: START_MS, livedMs: 0 },
    { kind: 'opened', identity: null, exchangeMs: START_MS },
    { kind: 'closed', code: 1006, reason: 'remote', exchangeMs: START_MS, livedMs: 1 },
  ];
  const { ended } = await collected(told, () => assert.fail('nothing came'));
  assert.equal(ended, 1);
});

test('pushed rows are stored at once without a claim, unreadable ones in quarantine; what is lost is counted', async () => {
  const row = { time: START_S, price: '10', amount: '1', total: '10', type: 'buy' as const };
  const rejected = [{ at: 1, reason: 'price', payload: {} }];
  const told: TradeFeedEvent[] = [
    { kind: 'opened', identity: null, exchangeMs: START_MS },
    {
      ...{ kind: 'trades', origin: 'update', market: 'A', receivedAtMs: START_MS },
      ...{
        exchangeMs: START_MS,
        trades: [
          { ...row, id: 4 },
          { ...row, id: 5 },
        ],
        rejected,
      },
    },
  ];
  const batches: Batch[] = [];
  const stored = await collected(told, async (batch) => {
    batches.push(batch);
    return { outcomes: { trade: { stored: 2 } }, ranges: [] } as never;
  });
  const [batch, ...others] = batches;
  assert.deepEqual(others, []);
  assert.deepEqual(
    batch?.trades?.map(({ marketId, tid }) => [marketId, tid]),
    [
      [7, 4],
      [7, 5],
    ],
  );
  assert.equal(batch.quarantine?.length, 1);
  assert.equal(batch.claims, undefined);
  assert.equal(stored.telemetry.pushed[0]?.agesMs.length, 2);
  assert.deepEqual(stored.telemetry.outcomesOf('trades'), { rejected: 1, stored: 2 });
  const lost = await collected(told, () => Promise.reject(new Error('no database')));
  assert.deepEqual(lost.telemetry.outcomesOf('trades'), { rejected: 1, lost: 2 });
  assert.equal(lost.telemetry.failures.length, 1);
});

/** A frame of trades with these ids. */
function frameOf(market: string, exchangeMs: number, ids: readonly number[]): TradeFeedEvent {
  const trades = ids.toReversed().map((id) => ({
    ...{ id, time: START_S + id / 1000, price: '10', amount: '1', total: '10' },
    type: 'buy' as const,
  }));
  const at = { receivedAtMs: START_MS, exchangeMs };
  return { kind: 'trades', origin: 'update', market, trades, rejected: [], ...at };
}

const OPENED: TradeFeedEvent = { kind: 'opened', identity: null, exchangeMs: START_MS };

/** All events that were told are taken up. */
async function taken(): Promise<void> {
  for (let at = 0; at < 200; at += 1) await Promise.resolve();
}

test('a connection over which nothing is pushed while trades happen is renewed, and no other', async () => {
  const feed = new ToldFeed(storesAll);
  const { collector, asked } = feed;
  const { clock } = feed.world;
  const nowMs = () => clock.wallMs();
  collector.start();
  collector.unpushed(nowMs());
  clock.advance(20_000);
  collector.unpushed(nowMs());
  assert.deepEqual(asked, ['open'], 'there is no connection yet');
  feed.tell({ ...OPENED, exchangeMs: nowMs() }, frameOf('A', nowMs(), [1]));
  await taken();
  // Something was pushed after that trade.
  collector.unpushed(nowMs() - 1);
  clock.advance(20_000);
  collector.unpushed(nowMs() - 20_001);
  assert.deepEqual(asked, ['open']);
  // Twice nothing, and something between.
  collector.unpushed(nowMs() - 1);
  feed.tell(frameOf('A', nowMs(), [2]));
  await taken();
  clock.advance(9000);
  collector.unpushed(nowMs() - 1);
  clock.advance(9000);
  collector.unpushed(nowMs() - 1);
  assert.deepEqual(asked, ['open']);
  clock.advance(2000);
  collector.unpushed(nowMs() - 1);
  assert.deepEqual(asked, ['open', 'renew']);
  await collector.stop();
});

test('after a connection the markets with pushed trades that wait for a page are asked for first', async () => {
  const feed = new ToldFeed(storesAll, ['A', 'B', 'C']);
  feed.collector.start();
  feed.tell(OPENED, frameOf('B', START_MS, [1]));
  await taken();
  assert.deepEqual(feed.missed(), ['B', 'A', 'C']);
  await feed.collector.stop();
});

test('the feed opens with the first market, and what comes while markets change proves nothing', async () => {
  const feed = new ToldFeed(storesAll, []);
  const { collector, asked } = feed;
  collector.start();
  assert.deepEqual(asked, []);
  const pushed = feed.add('A');
  collector.changed();
  assert.deepEqual(asked, ['open']);
  feed.tell(OPENED, frameOf('A', START_MS, [1]));
  await taken();
  feed.add('B');
  collector.changed();
  assert.deepEqual(asked, ['open', 'resubscribe']);
  const resubscribing: TradeFeedEvent = { kind: 'resubscribing', exchangeMs: START_MS };
  feed.tell(frameOf('A', START_MS, [2]), resubscribing, frameOf('A', START_MS, [3]));
  feed.tell(OPENED, frameOf('A', START_MS, [4]));
  await taken();
  assert.equal(pushed.kept, 3, 'the third was stored only');
  assert.equal(feed.world.record.pushed.flatMap(({ agesMs }) => agesMs).length, 4);
  await collector.stop();
});

test('where too much waits for pages, the market with most of it gives up its proofs', async () => {
  const names = Array.from({ length: 22 }, (_, at) => `M${at}`);
  const feed = new ToldFeed(storesAll, names);
  const kept = () => names.map((name) => feed.markets.get(name)?.pushed[0]?.kept ?? 0);
  feed.collector.start();
  feed.tell(OPENED);
  for (const [at, name] of names.entries()) {
    feed.tell(frameOf(name, START_MS, upTo(1, 19_000 + at)));
    await taken();
  }
  await feed.collector.stop();
  const all = kept();
  const total = all.reduce((sum, count) => sum + count, 0);
  assert.ok(total <= 400_000, `${total} trades are kept`);
  assert.equal(all.filter((count) => count === 0).length, 1, JSON.stringify(all));
});
