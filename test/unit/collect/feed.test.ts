import assert from 'node:assert/strict';
import test from 'node:test';
import type { TradeFeedEvent } from '../../../src/client/index.js';
import type { ArchivePort } from '../../../src/collect/ports.js';
import { TradeEvidence } from '../../../src/collect/trades/evidence.js';
import { type FedMarket, TradeFeedCollector } from '../../../src/collect/trades/feed.js';
import { PushedTrades } from '../../../src/collect/trades/pushed.js';
import { toPushed } from '../../../src/collect/trades/source.js';
import { AbortedError } from '../../../src/kernel/errors.js';
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
  /** Markets whose newest trades were asked for. */
  readonly questions: string[] = [];
  readonly collector: TradeFeedCollector;
  readonly #events = new BoundedQueue<TradeFeedEvent>(1000);
  #failure: Error | undefined;

  constructor(commit: ArchivePort['commit'], markets = ['A']) {
    const { record: telemetry, clock } = this.world;
    const time = new FakeTime(clock);
    this.evidence = new TradeEvidence({ market: 'A', time, clock, telemetry });
    for (const market of markets) this.add(market);
    this.collector = new TradeFeedCollector({
      archive: { commit },
      ...{ telemetry, time, markets: this.markets },
      open: () => {
        this.asked.push('open');
        return {
          ask: (market) => this.questions.push(market),
          resubscribe: () => this.asked.push('resubscribe'),
          renew: () => this.asked.push('renew'),
          stop: async () => this.#events.close(),
          [Symbol.asyncIterator]: () => this.#iterate(),
        };
      },
      onClosed: () => {
        this.asked.push('closed');
      },
    });
  }

  async *#iterate() {
    if (this.#failure !== undefined) throw this.#failure;
    yield* this.#events;
  }

  /** The feed is at its end as soon as it is read. */
  failWith(error: Error): void {
    this.#failure = error;
  }

  add(market: string): PushedTrades {
    const pushed = new PushedTrades();
    this.markets.set(market, { marketId: 7, pushed, evidence: this.evidence });
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
  assert.deepEqual(stored.telemetry.pushed[0]?.agesMs, [0, 0]);
  assert.deepEqual(stored.telemetry.outcomesOf('trades'), { rejected: 1, stored: 2 });
  const lost = await collected(told, () => Promise.reject(new Error('no database')));
  assert.deepEqual(lost.telemetry.outcomesOf('trades'), { rejected: 1, lost: 2 });
  assert.equal(lost.telemetry.failures.length, 1);
});

test('a feed that gives up is a failure, and one that is stopped is none', async () => {
  for (const [error, failures] of [
    [new Error('no address'), 1],
    [new AbortedError(), 0],
  ] as const) {
    const feed = new ToldFeed(storesAll);
    feed.failWith(error);
    feed.collector.start();
    await feed.collector.stop();
    assert.equal(feed.world.record.failures.length, failures, error.message);
  }
});

type TradesEvent = Parameters<typeof toPushed>[0];

/** A frame of trades with these ids. */
function frameOf(market: string, exchangeMs: number, ids: readonly number[]): TradesEvent {
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
  collector.unpushed('A', nowMs());
  clock.advance(20_000);
  collector.unpushed('A', nowMs());
  assert.deepEqual(asked, ['open'], 'there is no connection yet');
  feed.tell({ ...OPENED, exchangeMs: nowMs() }, frameOf('A', nowMs(), [1]));
  await taken();
  // Something was pushed after that trade.
  collector.unpushed('A', nowMs() - 1);
  clock.advance(20_000);
  collector.unpushed('A', nowMs() - 20_001);
  assert.deepEqual(asked, ['open']);
  // Twice nothing, and something between.
  collector.unpushed('A', nowMs() - 1);
  feed.tell(frameOf('A', nowMs(), [2]));
  await taken();
  clock.advance(9000);
  collector.unpushed('A', nowMs() - 1);
  clock.advance(9000);
  collector.unpushed('A', nowMs() - 1);
  assert.deepEqual(asked, ['open']);
  clock.advance(2000);
  collector.unpushed('A', nowMs() - 1);
  assert.deepEqual(asked, ['open', 'renew']);
  await collector.stop();
});

test('one market that is not pushed while others are has all subscribed anew, from time to time', async () => {
  const feed = new ToldFeed(storesAll, ['A', 'B']);
  const { collector } = feed;
  const { clock } = feed.world;
  const nowMs = () => clock.wallMs();
  const subscriptions = () => feed.asked.filter((one) => one === 'resubscribe').length;
  /** So many seconds in which pages show trades of A, and those of some markets are pushed. */
  const pass = async (seconds: number, ...pushed: string[]) => {
    for (let at = 0; at < seconds; at += 5) {
      clock.advance(5000);
      collector.unpushed('A', nowMs() - 5000);
      feed.tell(...pushed.map((market) => frameOf(market, nowMs(), [at])));
      await taken();
    }
  };
  collector.start();
  feed.tell({ ...OPENED, exchangeMs: nowMs() }, frameOf('A', nowMs(), [1]));
  await taken();
  await pass(50, 'B');
  await pass(5, 'A', 'B');
  await pass(65, 'B');
  assert.equal(subscriptions(), 0, 'it was pushed meanwhile');
  await pass(5, 'B');
  assert.equal(subscriptions(), 1);
  feed.tell({ ...OPENED, exchangeMs: nowMs() });
  await pass(595, 'B');
  assert.equal(subscriptions(), 1);
  await pass(10, 'B');
  assert.equal(subscriptions(), 2);
  assert.equal(feed.asked.includes('renew'), false, 'the connection lives');
  await collector.stop();
});

test('the newest trades are asked for once something is pushed, until something joins it', async () => {
  const feed = new ToldFeed(storesAll, ['A', 'B']);
  const { collector, questions } = feed;
  const { clock } = feed.world;
  const told = async (...events: readonly TradeFeedEvent[]) => {
    feed.tell(...events);
    await taken();
  };
  collector.start();
  await told(OPENED);
  assert.deepEqual(questions, []);
  await told(frameOf('A', START_MS, [10]), frameOf('A', START_MS, [12]));
  assert.deepEqual(questions, ['A']);
  clock.advance(2000);
  const answerOf = (...ids: readonly number[]) =>
    ({ ...frameOf('A', START_MS, ids), origin: 'answer' }) as TradeFeedEvent;
  await told(answerOf(2, 4));
  assert.equal(questions.length, 1);
  await told(frameOf('A', START_MS, [14]));
  assert.equal(questions.length, 2, 'the answer was an old one');
  clock.advance(2000);
  await told(answerOf(8, 10, 12), frameOf('A', START_MS, [16]));
  assert.equal(questions.length, 2);
  await told({ kind: 'unread', exchangeMs: START_MS });
  for (const id of [18, 20]) await told(frameOf('A', START_MS, [id]), frameOf('B', START_MS, [id]));
  assert.deepEqual(questions.slice(2), ['A', 'B']);
  await collector.stop();
});

test('an answer of which a row cannot be read joins nothing', async () => {
  for (const rejected of [[], [{ at: 1, reason: 'price', payload: {} }]]) {
    const feed = new ToldFeed(storesAll);
    const pushed = feed.markets.get('A')?.pushed;
    feed.collector.start();
    const answer = { ...frameOf('A', START_MS, [8, 10, 12]), rejected, origin: 'answer' } as const;
    feed.tell(OPENED, frameOf('A', START_MS, [10, 12]), answer as TradeFeedEvent);
    await taken();
    assert.equal(pushed?.isLoose, rejected.length > 0);
    await feed.collector.stop();
  }
});

test('a frame, or a row, that cannot be read ends what was pushed before, and opens nothing', async () => {
  const [row] = [{ at: 0, reason: 'price', payload: {} }];
  const lost: Readonly<Record<string, TradeFeedEvent>> = {
    frame: { kind: 'unread', exchangeMs: START_MS },
    row: { ...frameOf('A', START_MS, [3]), rejected: [row] } as TradeFeedEvent,
  };
  for (const [name, event] of Object.entries(lost)) {
    const feed = new ToldFeed(storesAll);
    const pushed = feed.markets.get('A')?.pushed;
    assert.ok(pushed !== undefined);
    feed.collector.start();
    const resubscribing: TradeFeedEvent = { kind: 'resubscribing', exchangeMs: START_MS };
    feed.tell(OPENED, resubscribing, event, frameOf('A', START_MS, [1]));
    await taken();
    assert.equal(pushed.kept, 0, `${name}: between two subscriptions`);
    feed.tell(OPENED, frameOf('A', START_MS, [1, 2]), event);
    for (const id of [4, 5, 6]) feed.tell(frameOf('A', START_MS, [id]));
    await taken();
    const shown = toPushed(frameOf('A', START_MS, [6, 7]));
    const { page } = pushed.join(shown);
    assert.deepEqual(
      page.trades.map(({ tid }) => tid),
      [7, 6, 5],
      name,
    );
    await feed.collector.stop();
  }
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
  const kept = () => names.map((name) => feed.markets.get(name)?.pushed.kept ?? 0);
  feed.collector.start();
  feed.tell(OPENED);
  for (const [at, name] of names.entries()) {
    // The one with most of it is neither the first nor the last.
    feed.tell(frameOf(name, START_MS, upTo(1, 19_000 + ((at + 8) % names.length))));
    await taken();
  }
  await feed.collector.stop();
  const all = kept();
  const total = all.reduce((sum, count) => sum + count, 0);
  assert.ok(total <= 400_000, `${total} trades are kept`);
  assert.deepEqual(
    names.filter((_, at) => all[at] === 0),
    ['M13'],
    JSON.stringify(all),
  );
});
