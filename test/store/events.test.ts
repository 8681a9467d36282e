import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { openArchive } from '../../src/archive/events/archive.js';
import type { ArchiveEvent } from '../../src/archive/events/event.js';
import { DuckSession } from '../../src/archive/parquet/session.js';
import { systemClock } from '../../src/kernel/clock.js';
import { seededRandom } from '../../src/kernel/random.js';
import { migrate, startEmbeddedPostgres } from '../../src/store/index.js';
import { openTestStore, runSql } from '../support/postgres/postgres.js';
import { marketOf, trade } from '../support/postgres/postgres-rows.js';
import { makeTempDir, quietStoreEvents } from '../support/postgres/postgres-server.js';
import { archiveDay } from '../support/worlds/cold-world.js';
import {
  EVENT_DAY_MS,
  EVENT_SPAN,
  EVENT_START_MS,
  type EventWorld,
  makeEventWorld,
} from '../support/worlds/event-world.js';
import { makeFolder } from '../support/worlds/export-world.js';

const SEED = 20_260_115;
const KINDS = ['trades', 'candles', 'tickers', 'depth', 'states'] as const;
const dayText = (day: number) =>
  new Date(EVENT_START_MS + day * EVENT_DAY_MS).toISOString().slice(0, 10);

async function collected<T>(events: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const event of events) all.push(event);
  return all;
}

/** The first difference tells more than two lists of a thousand events. */
function sameEvents(found: readonly ArchiveEvent[], expected: readonly ArchiveEvent[]): void {
  for (const [index, event] of expected.entries()) {
    assert.deepEqual(found[index], event, `event ${index} of ${expected.length}, seed ${SEED}`);
  }
  assert.equal(found.length, expected.length);
}

const inSpan = (events: readonly ArchiveEvent[], fromUs: number, toUs: number) =>
  events.filter(({ atUs }) => atUs >= fromUs && atUs < toUs);

async function openWorld(t: TestContext, world: EventWorld, coldDir?: string) {
  const place = coldDir === undefined ? {} : { coldDir };
  const archive = await openArchive({ databaseUrl: world.url, ...place });
  t.after(() => archive.close());
  return archive;
}

test('all kinds and markets come in one order, hot, cold and mixed, as they happened and as they were received', async (t) => {
  const world = await makeEventWorld(seededRandom(SEED));
  const coldDir = await makeFolder(t, 'cold');
  const archive = await openWorld(t, world, coldDir);
  assert.ok(world.happened.length > 700);
  assert.ok(world.received.length > world.happened.length, 'some candles were revised');

  await t.test('hot', async () => {
    sameEvents(await collected(archive.events(EVENT_SPAN)), world.happened);
    const received = archive.events({ ...EVENT_SPAN, order: 'received' });
    sameEvents(await collected(received), world.received);
  });
  await t.test('a choice of them, cut to the microsecond', async () => {
    const midnightUs = (EVENT_START_MS + EVENT_DAY_MS) * 1000;
    const [fromUs, toUs] = [midnightUs - 61_250_000, midnightUs + 120_250_001];
    const found = archive.events({
      ...{ from: fromUs, to: toUs, markets: ['CCC_USD', 'AAA_USD'], kinds: ['trades', 'candles'] },
      intervalsS: [300],
    });
    const expected = inSpan(world.happened, fromUs, toUs).filter(
      (one) =>
        one.market !== 'BBB_USD' &&
        (one.kind === 'trade' || (one.kind === 'candle' && one.intervalS === 300)),
    );
    assert.ok(expected.length > 10);
    sameEvents(await collected(found), expected);
  });
  await t.test('right behind a trade, the whole second of which is read', async () => {
    for (const { atUs } of world.happened.filter(({ kind }) => kind === 'trade').slice(0, 20)) {
      const found = archive.events({ ...EVENT_SPAN, from: atUs + 1, to: atUs + 1001 });
      const expected = inSpan(world.happened, atUs + 1, atUs + 1001);
      sameEvents((await collected(found.batches())).flat(), expected);
    }
  });
  await t.test('the first day in files', async () => {
    for (const kind of KINDS) await archiveDay({ ...world, coldDir }, kind, dayText(0));
    sameEvents(await collected(archive.events(EVENT_SPAN)), world.happened);
    const unaware = await openWorld(t, world);
    const expected = { code: 'bad_option', message: /coldDir/ };
    await assert.rejects(unaware.events(EVENT_SPAN).next(), expected);
    const book = world.happened.find(({ kind }) => kind === 'depth') ?? assert.fail();
    await assert.rejects(unaware.bookAt(book.market, book.atUs), expected);
    assert.equal((await archive.bookAt(book.market, book.atUs))?.atUs, book.atUs);
    const received = archive.events({ ...EVENT_SPAN, order: 'received' });
    sameEvents(await collected(received), world.received);
  });
  await t.test('both days in files, also some at a time', async () => {
    // Candles left by the month, with the first day.
    const rest = KINDS.filter((kind) => kind !== 'candles');
    for (const kind of rest) await archiveDay({ ...world, coldDir }, kind, dayText(1));
    const batches = await collected(archive.events(EVENT_SPAN).batches());
    sameEvents(batches.flat(), world.happened);
    const received = archive.events({ ...EVENT_SPAN, order: 'received' });
    sameEvents(await collected(received), world.received);
  });
  await t.test('what candles were before they were revised in files, too', async () => {
    const files = await archiveDay({ ...world, coldDir }, 'candle_revisions', dayText(0));
    assert.ok(files.length >= 3);
    const received = archive.events({ ...EVENT_SPAN, order: 'received' });
    sameEvents(await collected(received), world.received);
    const some = { markets: ['BBB_USD'], kinds: ['candles'], intervalsS: [60] } as const;
    const versions = archive.events({ ...EVENT_SPAN, ...some, order: 'received' });
    sameEvents(
      await collected(versions),
      world.received.filter(
        (one) => one.kind === 'candle' && one.market === 'BBB_USD' && one.intervalS === 60,
      ),
    );
  });
});

/** More than are read side by side: the small ones of a day are sorted together. */
const MANY = 31;

test('a day of more markets than files are open at once comes in the same order', async (t) => {
  const { store, url } = await openTestStore();
  const name = (at: number) => `M${String((at * 7) % MANY).padStart(2, '0')}_USD`;
  const markets = Array.from({ length: MANY }, (_, at) => marketOf(name(at)));
  const { ids } = await store.ensureMarkets(markets, EVENT_START_MS);
  const random = seededRandom(SEED);
  const startS = EVENT_START_MS / 1000;
  const trades = [...ids].flatMap(([market, marketId], at) =>
    // Few of most, many of some; all within few seconds.
    Array.from({ length: 2 + (at % 5) * 6 }, (_, index) => {
      const tradedAtS = startS + Math.floor(random() * 9);
      const executedAtUs = tradedAtS * 1_000_000 + Math.floor(random() * 3) * 250_000;
      const tid = 1 + index * MANY + at;
      return { market, row: trade(tid, 0, { marketId, tradedAtS, executedAtUs }) };
    }),
  );
  const span = { fromMs: EVENT_START_MS, toMs: EVENT_START_MS + 60_000 };
  const claims = [];
  for (const marketId of ids.values()) {
    const stream = await store.ensureStream({ kind: 'trades', marketId, variant: 0 });
    claims.push({ stream, span, evidence: {} });
  }
  await store.commit({ trades: trades.map(({ row }) => row), claims });
  const expected = trades
    .map(({ market, row }) => ({ market, id: row.tid, atUs: Number(row.executedAtUs) }))
    .sort((a, b) => a.atUs - b.atUs || a.market.localeCompare(b.market) || a.id - b.id);
  const coldDir = await makeFolder(t, 'cold');
  const archive = await openArchive({ databaseUrl: url, coldDir });
  t.after(() => archive.close());
  const read = async () => {
    const events = archive.events({ from: new Date(span.fromMs), to: new Date(span.toMs) });
    const all = await collected(events);
    return all.map((one) => [
      one.kind === 'trade' ? one.id : 0,
      'market' in one ? one.market : '',
      one.atUs,
    ]);
  };
  const order = expected.map(({ id, market, atUs }) => [id, market, atUs]);
  assert.deepEqual(await read(), order);
  assert.equal((await archiveDay({ store, url, coldDir }, 'trades', dayText(0))).length, MANY);
  assert.deepEqual(await read(), order);
});

/** Of each of two markets: a quiet morning, a burst in one second, then one trade every other second. */
const AFTERNOON = 12_000;

test('the first event of a large day waits for few of its rows, and none is lost or told twice behind it', async (t) => {
  const { store, url } = await openTestStore();
  const markets = ['AAA_USD', 'BBB_USD'].map((name) => marketOf(name));
  const { ids } = await store.ensureMarkets(markets, EVENT_START_MS);
  const dayMs = Math.floor(EVENT_START_MS / EVENT_DAY_MS) * EVENT_DAY_MS;
  const span = { fromMs: dayMs, toMs: dayMs + EVENT_DAY_MS };
  await store.makePartitionsAhead(dayMs);
  await runSql(
    url,
    `INSERT INTO trade (market_id, traded_at, tid, executed_at, received_at, side, price, amount, total)
     SELECT m, date_trunc('second', at), n * 2 + m, at, at, 'buy', 1, 1, 1
     FROM (SELECT m, n, to_timestamp($1::float8 / 1000 + CASE WHEN n = 0 THEN 3600
             WHEN n < 300 THEN 28800 + n * 0.003 ELSE 28500 + n * 2 + m * 0.25 END) AS at
           FROM generate_series(0, ${AFTERNOON}) n, unnest($2::int[]) m) made`,
    [dayMs, [...ids.values()]],
  );
  const claims = [];
  for (const marketId of ids.values()) {
    const stream = await store.ensureStream({ kind: 'trades', marketId, variant: 0 });
    claims.push({ stream, span, evidence: {} });
  }
  await store.commit({ claims });
  const coldDir = await makeFolder(t, 'cold');
  const archive = await openArchive({ databaseUrl: url, coldDir });
  t.after(() => archive.close());
  const events = () =>
    archive.trades({ market: 'AAA_USD', from: dayMs * 1000, to: span.toMs * 1000 });
  const both = () => archive.events({ from: dayMs * 1000, to: span.toMs * 1000 });
  const hot = await collected(both());
  assert.equal(hot.length, 2 * (AFTERNOON + 1));
  await archiveDay({ store, url, coldDir }, 'trades', new Date(dayMs).toISOString().slice(0, 10));

  const asked: string[] = [];
  const { vectors } = DuckSession.prototype;
  t.mock.method(
    DuckSession.prototype,
    'vectors',
    function (this: DuckSession, ...args: Parameters<typeof vectors>) {
      asked.push(args[1]);
      return vectors.apply(this, args);
    },
  );
  for (const open of [both, events]) {
    asked.length = 0;
    const stream = open();
    assert.equal((await stream.next()).done, false);
    await stream.return();
    const duck = await DuckSession.open(await makeFolder(t, 'spill'));
    let rows = 0;
    for (const sql of asked) {
      rows += Number((await duck.rows('counting', `SELECT count(*) FROM (${sql})`))[0]?.[0]);
    }
    duck.close();
    assert.ok(rows > 0 && rows < 1000, `${rows} rows were asked for`);
  }
  sameEvents(await collected(both()), hot);
});

test('an archive in the Postgres that comes with tapekeep is opened by its data folder', async (t) => {
  const dir = await makeTempDir();
  const dataDir = join(dir, 'data');
  const telemetry = quietStoreEvents();
  const server = await startEmbeddedPostgres({ dataDir, clock: systemClock, telemetry });
  t.after(async () => {
    await server.stop();
    await rm(dir, { recursive: true, force: true });
  });
  await migrate({ databaseUrl: server.url });
  const archive = await openArchive({ dataDir });
  assert.deepEqual(await archive.markets(), []);
  await archive.close();
});
