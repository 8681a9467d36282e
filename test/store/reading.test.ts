import assert from 'node:assert/strict';
import { appendFile, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { readColdManifest, writeColdManifest } from '../../src/archive/cold/manifest.js';
import { FolderStorage } from '../../src/archive/cold/storage.js';
import { ColdError } from '../../src/archive/errors.js';
import { type ArchiveReader, openReading } from '../../src/archive/reading.js';
import { rowMaker } from '../../src/archive/row-blocks.js';
import { AbortedError } from '../../src/kernel/errors.js';
import { seededRandom } from '../../src/kernel/random.js';
import type { RowForm, SeriesSlice } from '../../src/store/index.js';
import { runSql } from '../support/postgres/postgres.js';
import { archiveDay } from '../support/worlds/cold-world.js';
import { DAYS, KINDS, openDaysWorld, VARIANTS, WHOLE } from '../support/worlds/days-world.js';
import { makeFolder } from '../support/worlds/export-world.js';
import { FIRST_MS, live, openSealingWorld } from '../support/worlds/sealing-world.js';

const DAY_MS = 86_400_000;
const FORMS: readonly RowForm[] = ['csv', 'json'];
const dayMs = (day: string) => Date.parse(`${day}T00:00:00Z`);

async function linesOf(pieces: AsyncIterable<Buffer>): Promise<string[]> {
  const parts: Buffer[] = [];
  for await (const piece of pieces) parts.push(piece);
  const text = Buffer.concat(parts).toString();
  assert.ok(text === '' || text.endsWith('\n'));
  return text.split('\n').slice(0, -1);
}

async function rowsOf(batches: AsyncIterable<readonly object[]>): Promise<string[]> {
  const rows: string[] = [];
  for await (const batch of batches) rows.push(...batch.map((row) => normal(JSON.stringify(row))));
  return rows;
}

/** A line with the zeros at the ends of its decimals taken off, as cold rows have them. */
function normal(line: string): string {
  return line.replaceAll(/(?<![\d:.])-?\d+\.\d*?0+(?=["\],]|$)/g, (text) =>
    text.replace(/\.?0+$/, ''),
  );
}

/** Slices of all kinds, over spans that begin and end anywhere, at edges above all. */
function slices(seed: number, count: number): SeriesSlice[] {
  const random = seededRandom(seed);
  const moment = () => {
    const edge = WHOLE.fromMs + Math.floor(random() * 4) * DAY_MS;
    const [beside] = [0, 1, -1, 1000, -1000, 43_200_000, 43_200_001].slice(random() * 7);
    return edge + (beside ?? 0);
  };
  const all = KINDS.flatMap((kind) =>
    VARIANTS[kind].flatMap((variantS) => [1, 2].map((marketId) => ({ kind, variantS, marketId }))),
  );
  return Array.from({ length: count }, (_, index) => {
    const [a, b] = [moment(), moment()].sort((one, other) => one - other);
    const span = index < all.length ? WHOLE : { fromMs: a ?? 0, toMs: b ?? 0 };
    const { kind, variantS, marketId } = all[index % all.length] ?? all[0] ?? assert.fail();
    return { kind, variantS, marketId, span };
  });
}

const SEED = 20_260_115;

const newestOf = (reading: ArchiveReader, slice: SeriesSlice, limit: number) =>
  reading.newestAs(slice, limit, rowMaker(slice.kind, [slice.marketId], slice.variantS));

test('the same rows come in the same order, wherever each of them is', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  const asked = slices(SEED, 28);
  const read = async (reading: ArchiveReader, slice: SeriesSlice, index: number) => {
    const form = FORMS[index % FORMS.length] ?? 'csv';
    const limit = 1 + (index % 9);
    return [
      (await linesOf(reading.rows(slice, form))).map(normal),
      await rowsOf(reading.typed(slice)),
      await rowsOf(newestOf(reading, slice, limit)),
    ];
  };
  const readAll = async () => {
    const reading = await openReading(place.store, { cold: new FolderStorage(place.coldDir) });
    const found: string[][][] = [];
    for (const [index, slice] of asked.entries()) found.push(await read(reading, slice, index));
    await reading.close();
    return found;
  };
  const expected = await readAll();
  assert.ok(expected.filter(([rows]) => (rows ?? []).length > 3).length > 14);
  for (const [index, [lines = [], rows = [], newest = []]] of expected.entries()) {
    assert.equal(rows.length, lines.length);
    assert.deepEqual(newest, rows.toReversed().slice(0, 1 + (index % 9)));
    const { kind, variantS } = asked[index] ?? assert.fail();
    const field = { candles: 'intervalS', states: 'periodS' }[String(kind)];
    const levels = rows.map((row) => Number(JSON.parse(row).bidPrices?.length ?? 0));
    if (kind === 'depth' && rows.length > 3) assert.ok(Math.max(...levels) > 1, 'bids');
    for (const row of rows) {
      if (field !== undefined) assert.equal(JSON.parse(row)[field], variantS);
    }
  }
  // The day in the middle, then the oldest, then the last: each border is met from both sides.
  for (const day of [DAYS[1], DAYS[0], DAYS[2]]) {
    for (const kind of KINDS) await archiveDay(place, kind, day);
    const found = await readAll();
    for (const [index, slice] of asked.entries()) {
      assert.deepEqual(found[index], expected[index], JSON.stringify({ day, slice, SEED }));
    }
  }
  const left = (await place.store.sealing.partitions()).filter(({ state }) => state !== 'archived');
  assert.deepEqual(
    left.filter(({ table }) => table === 'trade'),
    [],
  );
});

test('it is told where each part of a span is, and what the ledger says of it', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  await archiveDay(place, 'trades', DAYS[0]);
  await archiveDay(place, 'trades', DAYS[1]);
  await runSql(
    place.url,
    `ALTER TABLE partition_state DROP CONSTRAINT partition_state_known;
     UPDATE partition_state SET state = 'expired' WHERE table_name = 'trade' AND lower(span) = '${DAYS[0]}Z'`,
  );
  const reading = await openReading(place.store, { cold: new FolderStorage(place.coldDir) });
  t.after(() => reading.close());
  const middle = dayMs(DAYS[1]);
  const span = { fromMs: WHOLE.fromMs + 5, toMs: WHOLE.toMs + DAY_MS };
  assert.deepEqual(reading.segments('trades', span), [
    { state: 'expired', span: { fromMs: span.fromMs, toMs: middle } },
    { state: 'cold', span: { fromMs: middle, toMs: middle + DAY_MS } },
    { state: 'hot', span: { fromMs: middle + DAY_MS, toMs: span.toMs } },
  ]);
  assert.deepEqual(reading.segments('depth', span), [{ state: 'hot', span }]);
  assert.deepEqual(reading.segments('trades', { fromMs: 7, toMs: 7 }), []);
  const slice = { kind: 'trades', marketId: 1, variantS: 0, span: WHOLE } as const;
  assert.equal((await linesOf(reading.rows(slice, 'csv'))).length, 24, 'none of the expired day');
  const files = await reading.coldFiles('trades', span, [1]);
  assert.deepEqual(
    files.map(({ date, market, rows }) => [date, market, rows]),
    [[DAYS[1], 'BTC_USD', 12]],
  );
  const known = await reading.pieces({ streamId: 2, marketId: 1 }, WHOLE);
  assert.deepEqual(
    known.map(({ span: { fromMs, toMs }, state }) => [state, { fromMs, toMs }]),
    [['covered', WHOLE]],
  );
});

test('a file that is missing, cut, altered or not named is an error that says which', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  const [path = ''] = await archiveDay(place, 'trades', DAYS[1]);
  const slice = { kind: 'trades', marketId: 1, variantS: 0, span: WHOLE } as const;
  const read = async (coldDir = place.coldDir) => {
    const reading = await openReading(place.store, { cold: new FolderStorage(coldDir) });
    try {
      return (await linesOf(reading.rows(slice, 'csv'))).length;
    } finally {
      await reading.close();
    }
  };
  const bytes = await readFile(path);
  assert.equal(await read(), 36);
  const fails = async (code: string, said: RegExp, coldDir?: string) => {
    await assert.rejects(read(coldDir), (error: unknown) => {
      assert.ok(error instanceof ColdError, String(error));
      assert.deepEqual([error.code, said.test(error.message)], [code, true], error.message);
      return true;
    });
  };
  await appendFile(path, 'x');
  await fails('cold_damaged', /part-.*\.parquet is not what was written: it has \d+ bytes.*copy/);
  const altered = Buffer.from(bytes);
  altered[bytes.length >> 1] = 255 - (altered[bytes.length >> 1] ?? 0);
  await writeFile(path, altered);
  await fails('cold_damaged', /part-.*\.parquet is not what was written: its sha256 is/);
  await rm(path);
  await fails('cold_missing', /part-.*\.parquet is not there: bring it back/);
  await writeFile(path, bytes);
  assert.equal(await read(), 36, 'brought back');
  await fails(
    'cold_missing',
    /trade_20260115\.json is not there.*cold\.dir/,
    join(place.coldDir, 'no'),
  );
  const uri = 'manifests/trade/trade_20260115.json';
  const { sha256: _, ...content } = await readColdManifest(new FolderStorage(place.coldDir), uri);
  const another = { from: `${DAYS[2]}T00:00:00.000Z`, to: '2026-01-17T00:00:00.000Z' };
  const changed = { ...content, ...another };
  await writeColdManifest(new FolderStorage(place.coldDir), uri, changed, { version: null });
  await fails('cold_damaged', /trade_20260115\.json is of trade from .*another partition/);
  await runSql(place.url, 'UPDATE partition_state SET uri = NULL');
  await fails('cold_missing', /does not say where trade of 2026-01-15/);
});

test('a reading ends when it is told to, and holds partitions while it lasts', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  await archiveDay(place, 'trades', DAYS[0]);
  const slice = { kind: 'trades', marketId: 1, variantS: 0, span: WHOLE } as const;
  const stopping = new AbortController();
  const reading = await openReading(place.store, {
    cold: new FolderStorage(place.coldDir),
    signal: stopping.signal,
  });
  const isFree = async () => {
    const [row] = await runSql<{ is: boolean }>(
      place.url,
      `SELECT count(*) = 0 AS is FROM pg_locks WHERE relation = 'reader_lock'::regclass`,
    );
    return row?.is;
  };
  assert.equal(await isFree(), false);
  const pieces = reading.rows(slice, 'csv')[Symbol.asyncIterator]();
  assert.equal((await pieces.next()).done, false);
  stopping.abort(new AbortedError('enough'));
  await assert.rejects(
    async () => {
      while ((await pieces.next()).done !== true);
    },
    { message: 'enough' },
  );
  await reading.close();
  await reading.close();
  await assert.rejects(linesOf(reading.rows(slice, 'csv')), { code: 'aborted' });
  for (;;) if (await isFree()) return;
});

test('what sealing has put into files is read as it was', async (t) => {
  const world = await openSealingWorld(t);
  const span = { fromMs: FIRST_MS, toMs: FIRST_MS + 3 * DAY_MS };
  const read = async () => {
    const reading = await openReading(world.store, { cold: new FolderStorage(world.coldDir) });
    const found: string[][] = [];
    for (const marketId of [1, 2]) {
      const slice = { kind: 'trades', marketId, variantS: 0, span } as const;
      found.push((await linesOf(reading.rows(slice, 'csv'))).map(normal));
      found.push(await rowsOf(newestOf(reading, slice, 50)));
    }
    const parts = reading.segments('trades', span).map(({ state }) => state);
    await reading.close();
    return { found, parts };
  };
  const before = await read();
  assert.deepEqual(before.parts, ['hot']);
  const nowMs = FIRST_MS + 3 * DAY_MS;
  const archived = await live(world, { nowMs, rules: { coldAfterMs: DAY_MS } });
  assert.deepEqual(archived.failures, []);
  const after = await read();
  assert.deepEqual(after, { found: before.found, parts: ['cold', 'hot'] });
});
