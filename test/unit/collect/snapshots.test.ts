import assert from 'node:assert/strict';
import test from 'node:test';
import { StreamLedger } from '../../../src/collect/ledger.js';
import { DepthCollector, sortedDepth } from '../../../src/collect/snapshot.js';
import { type MarketTicker, TickerCollector } from '../../../src/collect/tickers.js';
import { obtain } from '../../../src/kernel/bounded.js';
import { TapekeepError } from '../../../src/kernel/errors.js';
import type { Batch, StreamRef } from '../../../src/model/batch.js';
import { ScriptedExchange } from '../../support/exchanges/scripted-exchange.js';
import { FakeClock } from '../../support/fake-clock.js';
import { FakeTime } from '../../support/fake-time.js';
import { ModelArchive } from '../../support/models/model-archive.js';
import { CollectRecord } from '../../support/worlds/collect-record.js';

const START_MS = Date.UTC(2026, 0, 1);
const { signal } = new AbortController();

class World {
  readonly clock = new FakeClock(START_MS);
  readonly time = new FakeTime(this.clock);
  readonly archive = new ModelArchive();
  readonly record = new CollectRecord();
  readonly ids = new Map([['BTC_USDT', 1]]);
  /** Where an earlier run ended. */
  coveredUntilMs: number | undefined;
  /** What kept the tickers of single markets from being stored. */
  readonly failed: [string, unknown][] = [];
  /** Markets of which answers showed what was so then. */
  readonly shown: string[][] = [];
  /** Markets that answers showed to be away. */
  readonly gone: string[] = [];
  /** Why answers proved nothing. */
  readonly unproven: string[] = [];
  bid = '10';
  tickers: Record<string, unknown> = {};
  readonly exchange = new ScriptedExchange(this.clock, {
    depth: () => ({
      asks: [['12', '1']],
      bids: [
        ['9', '1'],
        [this.bid, '1'],
      ],
    }),
    tickers: () => this.tickers,
  });

  /** A new process: what was covered is read from the archive. */
  #shared(market: string, stream: StreamRef) {
    const ports = { archive: this.archive, time: this.time, clock: this.clock };
    const ledger = new StreamLedger({ ...ports, telemetry: this.record }, market, stream);
    const ranges = this.archive.allRanges(stream.streamId);
    ledger.covered.replace(ranges);
    if (this.coveredUntilMs !== undefined) ledger.missedUntil(this.coveredUntilMs);
    const { unproven } = ledger;
    ledger.unproven = (why, reason) => {
      this.unproven.push(why);
      unproven.call(ledger, why, reason);
    };
    return {
      market,
      ledger,
      exchange: this.exchange,
      clock: this.clock,
      telemetry: this.record,
      onGone: (gone: string) => void this.gone.push(gone),
      toleranceMs: 20_000,
    };
  }

  depth(coveredUntilMs?: number): DepthCollector {
    const stream = {
      streamId: 1,
      kind: 'depth',
      marketId: 1,
      variant: 0,
      collectFromMs: null,
    } as const;
    const shared = this.#shared('BTC_USDT', stream);
    if (coveredUntilMs !== undefined) shared.ledger.missedUntil(coveredUntilMs);
    return new DepthCollector({ ...shared, marketId: 1, levels: 50 });
  }

  /** Follows the markets of {@link ids}; the stream of each has the number of its market. */
  ticker(): { poll(signal: AbortSignal): Promise<void>; flush(): Promise<unknown> } {
    const followed = new Map<string, MarketTicker>();
    const streamOf = (marketId: number) =>
      ({ streamId: marketId, kind: 'tickers', marketId, variant: 0, collectFromMs: null }) as const;
    const onFailed = (market: string, error: unknown) => void this.failed.push([market, error]);
    const onTickers = (entries: object) => void this.shown.push(Object.keys(entries));
    const shared = this.#shared('*', streamOf(1));
    const collector = new TickerCollector({ ...shared, onFailed, onTickers });
    const follow = (market: string, marketId: number) => {
      const { ledger } = this.#shared(market, streamOf(marketId));
      return collector.follow({ market, marketId, ledger });
    };
    return {
      poll: (stop) => {
        for (const name of followed.keys()) if (!this.ids.has(name)) followed.delete(name);
        for (const [name, id] of this.ids) obtain(followed, name, () => follow(name, id));
        return collector.poll([...followed.values()], stop);
      },
      flush: () => Promise.all([...followed.values()].map((one) => one.flush())),
    };
  }

  async look(collector: { poll(signal: AbortSignal): Promise<void> }, afterMs = 0): Promise<void> {
    this.clock.advance(afterMs);
    await collector.poll(signal);
  }

  /** Covered spans in milliseconds after the start, newest first. */
  covered(streamId = 1): Array<[number, number]> {
    return this.archive
      .allRanges(streamId)
      .map(({ span }) => [span.fromMs - START_MS, span.toMs - START_MS]);
  }

  gaps(): unknown[] {
    return this.archive.gaps.map(({ span, state, reason }) => [
      span.fromMs - START_MS,
      span.toMs - START_MS,
      state,
      reason,
    ]);
  }
}

const entry = (last: string, at = START_MS / 1000) => ({
  at,
  ticker: {
    name: 'X',
    bid: '1',
    ask: '2',
    open: '1',
    high: '2',
    low: '1',
    last,
    vol: '5',
    deal: '5',
    change: '0',
  },
});

test('an unchanged depth is not stored twice and extends coverage', async () => {
  const world = new World();
  const depth = world.depth();
  await world.look(depth);
  for (let count = 0; count < 4; count += 1) await world.look(depth, 3000);
  assert.equal(world.archive.depths.length, 1);
  assert.ok(world.archive.commits <= 3, 'coverage alone is not written at every look');
  world.bid = '11';
  await world.look(depth, 3000);
  assert.equal(world.archive.depths.length, 2);
  assert.deepEqual(world.covered(), [[0, 15_001]]);
  assert.deepEqual(world.record.outcomesOf('depth'), { stored: 2, unchanged: 4 });
  world.record.assertAccounted('depth');
});

test('both sides of the depth are best first, however they are sent', async () => {
  const world = new World();
  await world.look(world.depth());
  assert.deepEqual(world.archive.depths[0]?.bidPrices, ['10', '9']);
  const { asks, bids } = sortedDepth({
    asks: [
      ['10.5', '1'],
      ['9.5', '2'],
    ],
    bids: [
      ['9', '3'],
      ['10', '4'],
    ],
  });
  assert.deepEqual(asks, [
    ['9.5', '2'],
    ['10.5', '1'],
  ]);
  assert.deepEqual(bids, [
    ['10', '4'],
    ['9', '3'],
  ]);
});

test('looks within the tolerance are one span; an outage is a gap that nothing fills', async () => {
  const world = new World();
  const depth = world.depth();
  await world.look(depth);
  await world.look(depth, 20_000);
  await world.look(depth, 20_001);
  await world.look(depth, 20_000);
  assert.deepEqual(world.covered(), [
    [40_001, 60_002],
    [0, 20_001],
  ]);
  assert.deepEqual(world.gaps(), [[20_001, 40_001, 'unfillable', 'not observed']]);
});

test('time in which a look waited for the database is missed for that reason', async () => {
  const world = new World();
  const depth = world.depth();
  await world.look(depth);
  world.archive.before = (method) => {
    if (method === 'commit' && world.clock.wallMs() < START_MS + 60_000)
      world.clock.advance(55_000);
  };
  await world.look(depth, 5000);
  await world.look(depth, 1000);
  assert.deepEqual(world.gaps(), [[5001, 61_000, 'unfillable', 'not observed']]);
  assert.equal(
    world.archive.memories.get(1)?.[0]?.note,
    'the look before it waited 55s for the database to store it',
  );
});

test('what was observed shortly before an outage stays covered, though it was not written yet', async () => {
  const world = new World();
  const depth = world.depth();
  await world.look(depth);
  await world.look(depth, 4000);
  assert.deepEqual(world.covered(), [[0, 1]]);
  await world.look(depth, 60_000);
  assert.deepEqual(world.covered(), [
    [64_000, 64_001],
    [0, 4001],
  ]);
  assert.deepEqual(world.gaps(), [[4001, 64_000, 'unfillable', 'not observed']]);
});

test('the time in which no process ran is a gap', async () => {
  const world = new World();
  await world.look(world.depth());
  await world.look(world.depth(), 5000);
  assert.deepEqual(world.covered(), [
    [5000, 5001],
    [0, 1],
  ]);
  assert.deepEqual(world.gaps(), [[1, 5000, 'unfillable', 'not observed']]);
});

for (const beforeMs of [10_000, 30_000]) {
  test(`a look whose commit failed after ${beforeMs} ms is not covered, is counted, and is missed`, async () => {
    const world = new World();
    const depth = world.depth();
    await world.look(depth);
    world.bid = '11';
    world.archive.before = (method) => {
      if (method === 'commit') throw new Error('no database');
    };
    await assert.rejects(world.look(depth, beforeMs), /no database/);
    world.archive.before = () => undefined;
    await world.look(depth, 1000);
    assert.deepEqual(world.covered(), [
      [beforeMs + 1000, beforeMs + 1001],
      [0, 1],
    ]);
    assert.deepEqual(world.gaps().at(-1), [1, beforeMs + 1000, 'unfillable', 'not observed']);
    assert.deepEqual(world.archive.depths.at(-1)?.bidPrices, ['11', '9']);
    assert.deepEqual(world.record.outcomesOf('depth'), { stored: 2, lost: 1 });
    world.record.assertAccounted('depth');
  });
}

test('tickers that did not change are not stored twice; their time alone is no change', async () => {
  const world = new World();
  world.ids.set('ETH_USDT', 2);
  world.tickers = { BTC_USDT: entry('1'), ETH_USDT: entry('7'), OTHER: entry('3') };
  const ticker = world.ticker();
  await world.look(ticker);
  world.tickers = { BTC_USDT: entry('2'), ETH_USDT: entry('7', START_MS / 1000 + 5) };
  await world.look(ticker, 5000);
  assert.deepEqual(
    world.archive.tickers.map(({ marketId, last }) => [marketId, last]),
    [
      [1, '1'],
      [2, '7'],
      [1, '2'],
    ],
  );
  assert.deepEqual(world.covered(), [[0, 5001]]);
  assert.deepEqual(world.record.outcomesOf('tickers'), { stored: 3, unchanged: 1 });
  world.record.assertAccounted('tickers');
});

test('a refused ticker of a collected market is quarantined and counted, that of another is not', async () => {
  const world = new World();
  const bad = { ...entry('1'), at: 'yesterday' };
  world.tickers = { BTC_USDT: bad, OTHER: bad };
  await world.look(world.ticker());
  assert.deepEqual(
    world.archive.quarantine.map(({ market }) => market),
    ['BTC_USDT'],
  );
  assert.deepEqual(world.covered(), []);
  assert.deepEqual(world.record.outcomesOf('tickers'), { rejected: 1 });
  world.record.assertAccounted('tickers');
});

test('a market that appears later is stored from its first look on', async () => {
  const world = new World();
  world.tickers = { BTC_USDT: entry('1'), ETH_USDT: entry('7') };
  const ticker = world.ticker();
  await world.look(ticker);
  world.ids.set('ETH_USDT', 2);
  await world.look(ticker, 1000);
  assert.deepEqual(
    world.archive.tickers.map(({ marketId }) => marketId),
    [1, 2],
  );
});

test('a ticker that could not be committed is stored with the next look', async () => {
  const world = new World();
  world.tickers = { BTC_USDT: entry('1') };
  const ticker = world.ticker();
  world.archive.before = () => {
    throw new Error('no database');
  };
  await assert.rejects(world.look(ticker), /no database/);
  world.archive.before = () => undefined;
  await world.look(ticker, 1000);
  assert.equal(world.archive.tickers.length, 1);
  assert.deepEqual(world.covered(), [[1000, 1001]]);
  world.record.assertAccounted('tickers');
});

for (const [trouble, broken] of [
  ['refused', { ...entry('7'), ticker: 'none' }],
  ['gone', undefined],
] as const) {
  test(`while a ticker that was there is ${trouble}, the others are covered and it is not`, async () => {
    const world = new World();
    world.ids.set('ETH_USDT', 2);
    const ticker = world.ticker();
    world.tickers = { BTC_USDT: entry('1'), ETH_USDT: entry('7') };
    await world.look(ticker);
    for (let count = 1; count <= 5; count += 1) {
      const later = broken === undefined ? {} : { ETH_USDT: { ...broken, at: count } };
      world.tickers = { BTC_USDT: entry(`1${count}`), ...later };
      await world.look(ticker, 10_000);
    }
    assert.deepEqual(world.covered(), [[0, 50_001]]);
    assert.deepEqual(world.covered(2), [[0, 1]]);
    const said = broken === undefined ? /ETH_USDT is not in the answer/ : /ETH_USDT.*in quarantine/;
    assert.equal(world.unproven.filter((why) => said.test(why)).length, 5);
    assert.equal(world.archive.tickers.length, 7);
    assert.equal(world.archive.quarantine.length, broken === undefined ? 0 : 1);
    assert.deepEqual(
      world.record.failures.map(({ market, code, action }) => [market, code, action]),
      [['ETH_USDT', broken === undefined ? 'no_ticker' : 'ticker_refused', 'skip']],
    );
    world.tickers = { BTC_USDT: entry('1'), ETH_USDT: entry('7') };
    await world.look(ticker, 10_000);
    assert.deepEqual(world.covered(), [[0, 60_001]]);
    assert.deepEqual(world.covered(2), [
      [60_000, 60_001],
      [0, 1],
    ]);
    assert.deepEqual(world.gaps(), [[1, 60_000, 'unfillable', 'not observed']]);
    assert.match(world.archive.memories.get(2)?.[0]?.note ?? '', said);
    // What it was in between is not known: it is stored again, though it is as before.
    assert.deepEqual(
      world.archive.tickers.filter(({ marketId }) => marketId === 2).map(({ last }) => last),
      ['7', '7'],
    );
    world.record.assertAccounted('tickers');
  });
}

test('a gap is not put down to an unread answer where requests failed after it', async () => {
  const world = new World();
  const ticker = world.ticker();
  const { tickers: answer } = world.exchange.answers;
  assert.ok(answer !== undefined);
  world.tickers = { BTC_USDT: entry('7') };
  await world.look(ticker);
  world.tickers = { BTC_USDT: { ...entry('7'), ticker: 'none' } };
  await world.look(ticker, 10_000);
  world.exchange.answers.tickers = () => {
    throw new Error('no answer came');
  };
  await assert.rejects(world.look(ticker, 60_000), { message: 'no answer came' });
  world.exchange.answers.tickers = answer;
  world.tickers = { BTC_USDT: entry('7') };
  await world.look(ticker, 10_000);
  assert.deepEqual(world.gaps(), [[1, 80_000, 'unfillable', 'not observed']]);
  assert.equal(world.archive.memories.get(1)?.[0]?.note, 'no answer came');
});

test('a market that is gone from an answer is away before anything of it is stored, and once', async () => {
  const world = new World();
  world.ids.set('ETH_USDT', 2);
  const ticker = world.ticker();
  world.tickers = { BTC_USDT: entry('1'), ETH_USDT: entry('7') };
  await world.look(ticker);
  const goneBefore: string[][] = [];
  world.archive.before = (method) => {
    if (method === 'commit') goneBefore.push([...world.gone]);
  };
  for (const last of ['2', '3']) {
    world.tickers = { BTC_USDT: entry(last) };
    await world.look(ticker, 10_000);
  }
  assert.deepEqual(goneBefore[0], ['ETH_USDT']);
  assert.deepEqual(world.gone, ['ETH_USDT']);
});

test('a market that never had a ticker is reported once, and is expected from its first one on', async () => {
  const world = new World();
  world.ids.set('NEW_USDT', 2);
  world.tickers = { BTC_USDT: entry('1') };
  const ticker = world.ticker();
  for (const last of ['1', '2', '3']) {
    world.tickers = { BTC_USDT: entry(last) };
    await world.look(ticker, 5000);
  }
  assert.deepEqual(world.covered(), [[5000, 15_001]]);
  assert.deepEqual(
    world.record.failures.map(({ market, code, action }) => [market, code, action]),
    [['NEW_USDT', 'no_ticker', 'skip']],
  );
  assert.deepEqual(world.covered(2), []);
  assert.equal(world.archive.floorOf(2), START_MS + 15_000);
  world.tickers = { BTC_USDT: entry('3'), NEW_USDT: entry('1') };
  await world.look(ticker, 5000);
  assert.deepEqual(world.covered(2), [[20_000, 20_001]]);
  assert.equal(world.archive.floorOf(2), START_MS + 20_000);
  assert.deepEqual(world.gaps(), []);
});

test('a first ticker that cannot be read is missing from then on, also where it is gone again', async () => {
  const world = new World();
  const ticker = world.ticker();
  world.tickers = { BTC_USDT: { ...entry('7'), ticker: 'none' } };
  await world.look(ticker);
  world.tickers = {};
  await world.look(ticker, 10_000);
  assert.equal(world.archive.floorOf(1), null, 'it was there to be seen');
  assert.match(world.unproven.at(-1) ?? '', /is not in the answer/);
});

test('time without looks at a market that has no ticker yet stays expected', async () => {
  const world = new World();
  const ticker = world.ticker();
  await world.look(ticker);
  await world.look(ticker, 10_000);
  assert.equal(world.archive.floorOf(1), START_MS + 10_000);
  // What was listed in this hour was not seen.
  await world.look(ticker, 3_600_000);
  await world.look(ticker, 10_000);
  assert.equal(world.archive.floorOf(1), START_MS + 10_000);
  world.tickers = { BTC_USDT: entry('1') };
  await world.look(ticker, 1000);
  assert.deepEqual(world.gaps(), [[10_000, 3_621_000, 'unfillable', 'not observed']]);
});

test('what was seen and is not written yet is stored at the end', async () => {
  for (const kind of ['ticker', 'depth'] as const) {
    const world = new World();
    world.tickers = { BTC_USDT: entry('1') };
    const collector = world[kind]();
    await world.look(collector);
    await world.look(collector, 4000);
    assert.deepEqual(world.covered(), [[0, 1]]);
    await collector.flush();
    assert.deepEqual(world.covered(), [[0, 4001]]);
  }
});

test('what keeps one ticker from being stored is not said of the others', async () => {
  const world = new World();
  world.ids.set('ETH_USDT', 2);
  world.tickers = { BTC_USDT: entry('1'), ETH_USDT: entry('7') };
  const commit = world.archive.commit.bind(world.archive);
  world.archive.commit = async (batch: Batch) => {
    if (batch.tickers?.[0]?.marketId === 2) throw new Error('refused');
    return await commit(batch);
  };
  await world.look(world.ticker());
  assert.deepEqual(world.covered(), [[0, 1]]);
  assert.deepEqual(
    world.failed.map(([market, error]) => [market, String(error)]),
    [['ETH_USDT', 'Error: refused']],
  );
});

test('answers from a cache that is not renewed let all tickers stand', async () => {
  const world = new World();
  world.ids.set('ETH_USDT', 2);
  world.tickers = { BTC_USDT: entry('1'), ETH_USDT: entry('7') };
  const ticker = world.ticker();
  world.exchange.told = { cachedAtMs: START_MS };
  await world.look(ticker);
  await world.look(ticker, 21_000);
  assert.equal(world.unproven.filter((why) => /come from a cache/.test(why)).length, 2);
});

test('what was not there at one look is no coverage, though the looks around it are in time', async () => {
  for (const kind of ['ticker', 'depth'] as const) {
    const world = new World();
    const collector = world[kind]();
    const there = { BTC_USDT: entry('1') };
    const { depth: book } = world.exchange.answers;
    assert.ok(book !== undefined);
    world.tickers = there;
    await world.look(collector);
    world.tickers = {};
    world.exchange.answers.depth = () => {
      throw new TapekeepError('market_unavailable', 'no such market');
    };
    const refused = world.look(collector, 4000);
    if (kind === 'depth') await assert.rejects(refused, { code: 'market_unavailable' });
    else await refused;
    world.tickers = there;
    world.exchange.answers.depth = book;
    await world.look(collector, 4000);
    assert.deepEqual(world.gaps(), [[1, 8000, 'unfillable', 'not observed']], kind);
    const note = world.archive.memories.get(1)?.[0]?.note ?? '';
    assert.match(note, kind === 'depth' ? /^no such market$/ : /is not in the answer/);
  }
});

test('a request that waited for its turn is why the time before its answer is missed', async () => {
  const world = new World();
  const ticker = world.ticker();
  world.tickers = { BTC_USDT: entry('1') };
  await world.look(ticker);
  const { tickers: answer } = world.exchange.answers;
  assert.ok(answer !== undefined);
  world.exchange.answers.tickers = async (...args) => {
    await Promise.resolve();
    world.clock.advance(25_000);
    return answer(...args);
  };
  await world.look(ticker, 2000);
  assert.deepEqual(world.gaps(), [[1, 27_000, 'unfillable', 'not observed']]);
  assert.match(
    world.archive.memories.get(1)?.[0]?.note ?? '',
    /^a request waited 25s for its turn/,
  );
});

test('a refused ticker that was well in between is kept again', async () => {
  const world = new World();
  const ticker = world.ticker();
  const bad = { ...entry('7'), ticker: 'none' };
  for (const one of [bad, bad, entry('1'), bad]) {
    world.tickers = { BTC_USDT: one };
    await world.look(ticker, 1000);
  }
  assert.equal(world.archive.quarantine.length, 2);
});

test('a market that joins is not troubled by what troubled others before', async () => {
  const world = new World();
  const ticker = world.ticker();
  world.tickers = { BTC_USDT: entry('1'), ETH_USDT: entry('7') };
  await world.look(ticker);
  const { tickers: answer } = world.exchange.answers;
  assert.ok(answer !== undefined);
  world.exchange.answers.tickers = () => {
    throw new Error('no answer came');
  };
  await assert.rejects(world.look(ticker, 1000));
  world.exchange.answers.tickers = answer;
  world.coveredUntilMs = START_MS;
  world.ids.set('ETH_USDT', 2);
  await world.look(ticker, 20_000);
  assert.deepEqual(world.gaps(), [
    [1, 21_000, 'unfillable', 'not observed'],
    [0, 21_000, 'unfillable', 'not observed'],
  ]);
  const notes = [1, 2].map((id) => world.archive.memories.get(id)?.[0]?.note ?? null);
  assert.deepEqual(notes, ['no answer came', null]);
});

test('a market is covered from where it joins, and no longer when it is collected no more', async () => {
  const world = new World();
  world.tickers = { BTC_USDT: entry('1'), ETH_USDT: entry('7') };
  const ticker = world.ticker();
  await world.look(ticker);
  world.ids.set('ETH_USDT', 2);
  await world.look(ticker, 5000);
  world.ids.delete('ETH_USDT');
  await world.look(ticker, 5000);
  await world.look(ticker, 5000);
  world.ids.set('ETH_USDT', 2);
  await world.look(ticker, 5000);
  assert.deepEqual(world.covered(), [[0, 20_001]]);
  assert.deepEqual(world.covered(2), [
    [20_000, 20_001],
    [5000, 5001],
  ]);
  assert.deepEqual(
    world.archive.tickers.map(({ marketId }) => marketId),
    [1, 2, 2],
  );
});

test('a refused ticker of the same text is kept once for each market, and again if it changes', async () => {
  const world = new World();
  world.ids.set('ETH_USDT', 2);
  const bad = { at: 1, ticker: null };
  world.tickers = { BTC_USDT: bad, ETH_USDT: bad };
  const ticker = world.ticker();
  world.archive.before = () => {
    throw new Error('no database');
  };
  await assert.rejects(world.look(ticker), /no database/);
  world.archive.before = () => undefined;
  await world.look(ticker);
  await world.look(ticker, 1000);
  assert.equal(world.archive.commits, 2);
  world.tickers = { BTC_USDT: bad, ETH_USDT: { at: 1, ticker: {} } };
  await world.look(ticker, 1000);
  assert.deepEqual(
    world.archive.quarantine.map(({ market }) => market),
    ['BTC_USDT', 'ETH_USDT', 'ETH_USDT'],
  );
  assert.deepEqual(world.record.outcomesOf('tickers'), { rejected: 8 });
  world.record.assertAccounted('tickers');
});

test('what passed between the start of a stream and its first look is a gap', async () => {
  const world = new World();
  const depth = world.depth(START_MS);
  await world.look(depth, 7000);
  assert.deepEqual(world.covered(), [[7000, 7001]]);
  assert.deepEqual(world.gaps(), [[0, 7000, 'unfillable', 'not observed']]);
  const atOnce = new World();
  await atOnce.look(atOnce.depth(START_MS));
  assert.deepEqual(atOnce.gaps(), []);
});

test('a look has the time at which its answer arrived, however late that is read', async () => {
  const world = new World();
  world.tickers = { BTC_USDT: entry('10') };
  world.clock.advance(1000);
  world.exchange.told = { answeredAtMs: START_MS + 846 };
  await world.depth(START_MS).poll(signal);
  await world.ticker().poll(signal);
  for (const [row] of [world.archive.depths, world.archive.tickers]) {
    assert.equal(row?.observedAtMs, START_MS + 846);
  }
});

test('a cached answer is a look at the moment of the cache, and only once', async () => {
  const world = new World();
  const depth = world.depth(START_MS);
  const cachedAt = (ms: number) => {
    world.exchange.told = { cachedAtMs: START_MS + ms };
  };
  world.clock.advance(10_000);
  cachedAt(4000);
  await depth.poll(signal);
  world.clock.advance(5000);
  world.bid = '11';
  // The cache still has the old one, and says so.
  await depth.poll(signal);
  assert.equal(world.archive.depths.length, 1);
  assert.deepEqual(world.unproven, []);
  cachedAt(13_000);
  await depth.poll(signal);
  assert.deepEqual(
    world.archive.depths.map(({ observedAtMs }) => observedAtMs - START_MS),
    [4000, 13_000],
  );
  assert.deepEqual(
    world.archive.allRanges(1).map(({ span }) => [span.fromMs - START_MS, span.toMs - START_MS]),
    [[4000, 13_001]],
  );
  // A time that has not come is no moment that could be shown.
  cachedAt(99_000_000);
  world.clock.advance(1000);
  world.bid = '12';
  await depth.poll(signal);
  assert.equal(world.archive.depths.at(-1)?.observedAtMs, START_MS + 16_000);
  // One that is not renewed in time lets the stream stand.
  cachedAt(16_000);
  world.clock.advance(21_000);
  await depth.poll(signal);
  assert.match(world.unproven.join(), /^its answers come from a cache/);
});

test('what was observed without news before a jump back is not claimed after it', async () => {
  const world = new World();
  const depth = world.depth(START_MS);
  world.clock.advance(3_600_000);
  await depth.poll(signal);
  world.clock.advance(1000);
  await depth.poll(signal);
  world.clock.stepWall(-3_590_000);
  world.time.jumps = 1;
  world.bid = '11';
  await depth.poll(signal);
  assert.deepEqual(
    world.archive.allRanges(1).map(({ span }) => [span.fromMs - START_MS, span.toMs - START_MS]),
    [
      [3_600_000, 3_600_001],
      [11_000, 11_001],
    ],
  );
});

test('after a jump back of the time cached answers are looks again', async () => {
  const world = new World();
  const depth = world.depth(START_MS);
  const look = async (atMs: number, bid: string) => {
    world.exchange.told = { cachedAtMs: START_MS + atMs };
    world.bid = bid;
    await depth.poll(signal);
    return world.archive.depths.at(-1)?.observedAtMs;
  };
  world.clock.advance(3_600_000);
  assert.equal(await look(3_599_000, '11'), START_MS + 3_599_000);
  world.clock.stepWall(-3_590_000);
  world.time.jumps = 1;
  assert.equal(await look(8000, '12'), START_MS + 8000);
});
