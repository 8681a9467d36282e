import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ArchiveGapsError } from '../../src/archive/errors.js';
import { openArchive } from '../../src/archive/events/archive.js';
import { seededRandom } from '../../src/kernel/random.js';
import { StoreError } from '../../src/store/index.js';
import { runSql } from '../support/postgres/postgres.js';
import { PostgresProxy } from '../support/postgres/postgres-proxy.js';
import { marketOf } from '../support/postgres/postgres-rows.js';
import { EVENT_SPAN, type EventWorld, makeEventWorld } from '../support/worlds/event-world.js';

const SPAN_MS = EVENT_SPAN.to.getTime() - EVENT_SPAN.from.getTime();
const after = (ms: number) => new Date(EVENT_SPAN.from.getTime() + ms);

async function openWorld(t: TestContext, { url }: EventWorld) {
  const archive = await openArchive({ databaseUrl: url });
  t.after(() => archive.close());
  return archive;
}

/** Waits until no reader is left: the server ends one that was cut off when it notices. */
const assertNothingOpen = (url: string) =>
  runSql(
    url,
    `BEGIN; SET LOCAL lock_timeout = '10s'; LOCK TABLE reader_lock IN ACCESS EXCLUSIVE MODE; ROLLBACK`,
  );

test('questions that the archive cannot answer, and readers that leave', async (t) => {
  const world = await makeEventWorld(seededRandom(7));
  const archive = await openWorld(t, world);
  const refused = async (query: Parameters<typeof archive.events>[0], expected: object) => {
    await assert.rejects(archive.events(query).next(), expected);
  };

  await t.test(
    'spans, markets, kinds and lengths that are none are named with what there is',
    async () => {
      const { from, to } = EVENT_SPAN;
      await refused({ from: to, to: from }, { code: 'bad_span', message: /ends before it begins/ });
      await refused({ from, to: from }, { code: 'bad_span', message: /is empty/ });
      await refused({ from: 'yesterday', to }, { code: 'bad_moment' });
      await refused({ from: from.getTime(), to }, { code: 'bad_moment', message: /microseconds/ });
      const longAgo = { from: '2020-01-01', to: '2020-01-02' };
      await refused(longAgo, {
        code: 'span_outside_archive',
        message: /reaches from 2026-01-15T23:/,
      });
      const trades = { markets: ['AAA_USD'], kinds: ['trades'] } as const;
      const contents = await archive.markets();
      const { series } = contents.find(({ market }) => market === 'AAA_USD') ?? { series: [] };
      const { oldestUs, newestUs } = series.find(({ kind }) => kind === 'trades') ?? assert.fail();
      const [oldest, newest] = [oldestUs, newestUs].map((us) => new Date((us ?? 0) / 1000));
      const outside = { code: 'span_outside_archive' };
      await refused({ ...trades, from: longAgo.from, to: oldest ?? to }, outside);
      await runSql(
        world.url,
        `INSERT INTO stream (kind, market_id, variant)
         SELECT 'candles', market_id, unnest(ARRAY[86400, 30]) FROM market WHERE name = 'AAA_USD'`,
      );
      await refused(
        { ...EVENT_SPAN, markets: ['AAA_USD'], kinds: ['candles'], intervalsS: [86_400] },
        {
          ...outside,
          message: /no candles of 1d are complete yet; there are candles of .*trades/,
        },
      );
      await refused(
        { ...EVENT_SPAN, markets: ['AAA_USD'], kinds: ['candles'], intervalsS: [900] },
        { code: 'not_collected', message: /900 seconds of AAA_USD .* 30, 60, 300, 86400/ },
      );
      await runSql(
        world.url,
        "DELETE FROM stream WHERE kind = 'candles' AND variant IN (86400, 30)",
      );
      const next = new Date((newest ?? to).getTime() + 1);
      await refused({ ...trades, from: next, to: '2030-01-01' }, outside);
      await refused(
        { ...EVENT_SPAN, markets: ['ZZZ_USD'] },
        { code: 'unknown_market', message: /ZZZ_USD; the archive has AAA_USD, BBB_USD, CCC_USD/ },
      );
      await refused({ ...EVENT_SPAN, markets: [] }, { code: 'bad_option' });
      await refused(
        { ...EVENT_SPAN, kinds: ['klines' as 'candles'] },
        { code: 'unknown_kind', message: /candles, trades/ },
      );
      await assert.rejects(openArchive({}), { code: 'bad_option' });
      // From programs without types.
      const untyped: ReadonlyArray<readonly [() => unknown, RegExp]> = [
        [
          () => openArchive(undefined as never),
          /^nothing was given; expected an object with only databaseUrl, dataDir, coldDir, bucket$/,
        ],
        [
          () => openArchive('postgres://u:canary@h/d' as never),
          /^a string was given; expected an o/,
        ],
        [() => openArchive({ databaseUrl: 5 } as never), /^databaseUrl 5 is/],
        [() => openArchive({ dataDir: 5 } as never), /^dataDir 5 is/],
        [
          () => archive.events(undefined as never),
          /^nothing was given; .* only markets, kinds, order/,
        ],
        [
          () => archive.events({ from: EVENT_SPAN.from } as never),
          /^to is missing; expected a Date/,
        ],
        [() => archive.events({ ...trades, markets: 'AAA_USD' } as never), /^markets "AAA_USD" is/],
        [() => archive.trades({ ...trades } as never), /^market is missing; expected the name/],
        [
          () => archive.candles({ ...EVENT_SPAN, market: 'AAA_USD', interval: '1m' } as never),
          /^intervalS is missing; expected a length/,
        ],
        [
          () => archive.candles({ ...EVENT_SPAN, market: 'AAA_USD', intervalS: 60, x: 1 } as never),
          /^x is not allowed; expected only market, intervalS, from/,
        ],
        [() => archive.coverage({ market: 5 } as never), /^market 5 is/],
        [() => archive.bookAt('AAA_USD', undefined as never), /^at is missing; expected a Date/],
        [() => archive.bookAt(undefined as never, EVENT_SPAN.from), /^market is missing; /],
      ];
      for (const [call, message] of untyped) {
        await assert.rejects(async () => await call(), { code: 'bad_option', message });
      }
      await assert.rejects(openArchive({ dataDir: '/nowhere' }), { code: 'no_archive' });
    },
  );

  await t.test('gaps are refused, marked or passed over, as it was said', async () => {
    const query = { ...EVENT_SPAN, to: after(SPAN_MS + 60_000), markets: ['AAA_USD'] } as const;
    const trades = { ...query, kinds: ['trades'] } as const;
    const error = await archive
      .events(trades)
      .next()
      .catch((one: unknown) => one);
    assert.ok(error instanceof ArchiveGapsError);
    assert.equal(error.gapCount, 1);
    assert.match(error.message, /trades of AAA_USD from .* not collected/);
    // Candles are asked for by their close, and named by the time at which they open, as gaps are.
    const candles = { ...query, to: after(SPAN_MS + 120_000), kinds: ['candles'] } as const;
    const late = await archive
      .events({ ...candles, intervalsS: [60] })
      .next()
      .catch((one: unknown) => one);
    assert.ok(late instanceof ArchiveGapsError);
    assert.match(late.message, /candles of AAA_USD of 60 s that open from /);
    const endUs = EVENT_SPAN.to.getTime() * 1000;
    const [{ fromUs: openUs, toUs: openToUs } = { fromUs: 0, toUs: 0 }] = late.gaps;
    assert.deepEqual([openUs, openToUs], [endUs, endUs + 60_000_000]);
    const marked = [];
    for await (const event of archive.events({ ...trades, gaps: 'mark' })) {
      if (event.kind === 'gap') marked.push([event.of, event.edge, event.atUs, event.toUs]);
    }
    const [fromUs, toUs] = [EVENT_SPAN.to.getTime() * 1000, query.to.getTime() * 1000];
    assert.deepEqual(marked, [
      ['trades', 'begin', fromUs, null],
      ['trades', 'end', toUs, toUs],
    ]);
    let ignored = 0;
    for await (const event of archive.events({ ...trades, gaps: 'ignore' })) {
      assert.equal(event.kind, 'trade');
      ignored += 1;
    }
    assert.equal(ignored, 120);
  });

  await t.test('a second loop over events that have ended is refused', async () => {
    const [read, left, some] = [1, 2, 3].map(() => archive.events(EVENT_SPAN));
    assert.ok(read !== undefined && left !== undefined && some !== undefined);
    // Looking at the first one before the loop is no second loop.
    await read.next();
    for await (const _ of read);
    for await (const _ of left) break;
    for await (const _ of some.batches());
    const again = [
      async () => {
        for await (const _ of read);
      },
      async () => {
        for await (const _ of left);
      },
      async () => {
        for await (const _ of some.batches());
      },
    ];
    for (const loop of again) await assert.rejects(loop, { code: 'events_ended' });
  });

  await t.test('a reader that leaves, or whose signal aborts, leaves nothing open', async () => {
    for await (const _ of archive.events(EVENT_SPAN)) break;
    await assertNothingOpen(world.url);
    const controller = new AbortController();
    const events = archive.events({ ...EVENT_SPAN, signal: controller.signal });
    await events.next();
    controller.abort(new Error('enough'));
    await assert.rejects(events.next(), { message: 'enough' });
    assert.deepEqual(await events.next(), { done: true, value: undefined });
    await assertNothingOpen(world.url);
    const aborted = archive.events({ ...EVENT_SPAN, signal: controller.signal });
    await assert.rejects(aborted.next(), { message: 'enough' });
  });

  await t.test(
    'a reader may pause; when its connection is lost meanwhile, it is told to read again',
    async () => {
      const proxy = new PostgresProxy(world.url);
      const throughWire = await openArchive({ databaseUrl: await proxy.start() });
      const timeouts: string[] = [];
      proxy.onSent = (data) => {
        const set = data.toString('latin1').matchAll(/SET (idle_in_transaction_\w+) = (\S+?);/g);
        for (const [, , value = ''] of set) timeouts.push(value);
        return true;
      };
      const events = throughWire.events({ ...EVENT_SPAN, kinds: ['trades', 'depth'] });
      await events.next();
      // One connection for each kind, and that which showed them the moment; none may end while it waits.
      assert.deepEqual(timeouts.slice(-1), ['0']);
      assert.equal(timeouts.filter((one) => one === '0').length, 3);
      await runSql(
        world.url,
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE pid <> pg_backend_pid() AND datname = current_database() AND state LIKE 'idle in%'`,
      );
      const readOn = async () => {
        for await (const _ of events);
      };
      await assert.rejects(readOn(), (error) => {
        assert.ok(error instanceof StoreError, String(error));
        assert.equal(error.action, 'retry');
        return true;
      });
      await throughWire.close();
      await proxy.stop();
    },
  );

  await t.test('questions beside the events', async () => {
    const { from, to } = EVENT_SPAN;
    const book = await archive.bookAt('BBB_USD', after(10 * 60_000));
    const expected = world.happened.findLast(
      (one) =>
        one.kind === 'depth' &&
        one.market === 'BBB_USD' &&
        one.atUs <= after(600_000).getTime() * 1000,
    );
    assert.deepEqual(book, { ...expected, ageUs: 0 });
    const last = world.happened.findLast((one) => one.kind === 'depth' && one.market === 'BBB_USD');
    const { ageUs, ...newest } = (await archive.bookAt('BBB_USD', new Date())) ?? assert.fail();
    assert.deepEqual(newest, last);
    assert.ok(ageUs > 0);
    assert.equal(await archive.bookAt('BBB_USD', after(-1)), null);
    const coverage = await archive.coverage({ market: 'AAA_USD', kind: 'trades', from, to });
    assert.deepEqual(coverage.covered, [
      { fromUs: from.getTime() * 1000, toUs: to.getTime() * 1000 },
    ]);
    assert.ok(coverage.isComplete);
    // What was never asked for is no gap that filling works on, in the words of a replay.
    const early = { market: 'AAA_USD', kind: 'depth', from: after(-60_000), to: from } as const;
    const { missing } = await archive.coverage(early);
    assert.deepEqual(
      missing.map(({ reason }) => reason),
      ['before collecting'],
    );
    const markets = await archive.markets();
    assert.deepEqual(
      markets.map(({ market }) => market),
      ['AAA_USD', 'BBB_USD', 'CCC_USD'],
    );
    const trades = markets[0]?.series.find(({ kind }) => kind === 'trades');
    assert.ok((trades?.oldestUs ?? Infinity) <= from.getTime() * 1000, 'in microseconds');
    assert.ok((trades?.newestUs ?? 0) >= to.getTime() * 1000, 'in microseconds');
  });

  await t.test('an archive that is closed tells the readers of its events', async () => {
    const events = archive.events({ ...EVENT_SPAN, order: 'happened' });
    await events.next();
    const second = await openArchive({ databaseUrl: world.url });
    const left = second.events(EVENT_SPAN);
    await left.next();
    await second.close();
    await assert.rejects(left.next(), { code: 'archive_closed' });
    assert.throws(() => second.events(EVENT_SPAN), { code: 'archive_closed' });
    await events.return();
    await assertNothingOpen(world.url);
  });
});

test('no book is known within a gap, nor once a market has left; after a stop it is the last', async (t) => {
  const world = await makeEventWorld(seededRandom(8));
  const { store, streams, url } = world;
  const archive = await openWorld(t, world);
  const endMs = EVENT_SPAN.to.getTime();
  const afterEnd = (seconds: number) => new Date(endMs + seconds * 1000);
  /** Ages in seconds, of the library and of SQL; null where there is no book. */
  const agesOf = async (market: string, at: Date) => {
    const book = await archive.bookAt(market, at);
    const [row] = await runSql<{ age: number | null }>(
      url,
      `SELECT extract(epoch FROM min(age))::float8 AS age
       FROM analytics.depth_at('${market}', '${at.toISOString()}')`,
    );
    return [book === null ? null : book.ageUs / 1e6, row?.age];
  };
  assert.deepEqual(await agesOf('AAA_USD', afterEnd(30)), [30, 30]);

  const [of] = await runSql<{ market_id: number }>(
    url,
    `SELECT market_id FROM market WHERE name = 'AAA_USD'`,
  );
  const stream = streams.find((one) => one.kind === 'depth' && one.marketId === of?.market_id);
  await store.recordGap({
    ...{ stream: stream ?? assert.fail(), state: 'unfillable', reason: 'not observed' },
    ...{ span: { fromMs: endMs + 60_000, toMs: endMs + 120_000 }, atMs: endMs + 120_000 },
  });
  const none = [null, null];
  assert.deepEqual(await agesOf('AAA_USD', afterEnd(-1)), [0, 0]);
  assert.deepEqual(await agesOf('AAA_USD', afterEnd(30)), none, 'what is older than it is no lag');
  assert.deepEqual(await agesOf('AAA_USD', afterEnd(119)), none);
  assert.deepEqual(await agesOf('AAA_USD', afterEnd(120)), [120, 120], 'newer is lag');

  assert.deepEqual(await agesOf('CCC_USD', afterEnd(30)), [30, 30]);
  const left = ['AAA_USD', 'BBB_USD'].map((name) => marketOf(name, { stock: 'X', moneyPrec: 8 }));
  await store.ensureMarkets(left, endMs + 60_000);
  assert.deepEqual(await agesOf('CCC_USD', afterEnd(-1)), [0, 0]);
  for (const seconds of [0, 30, 60, 86_400]) {
    assert.deepEqual(await agesOf('CCC_USD', afterEnd(seconds)), none);
  }
  assert.deepEqual(await agesOf('BBB_USD', afterEnd(30)), [30, 30]);
});
