import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { DiskFullError, ExportGapsError, OutputError } from '../../src/archive/errors.js';
import { FORMATS } from '../../src/archive/export/manifest.js';
import { runSql } from '../support/postgres/postgres.js';
import { revoke } from '../support/postgres/postgres-rows.js';
import {
  awkwardTrades,
  makeFolder,
  namesIn,
  openTradeArchive,
  readCsv,
  runExport,
  secondsAfterNoon,
} from '../support/worlds/export-world.js';

async function open(t: TestContext, count = 50) {
  const folder = await makeFolder(t);
  const archive = await openTradeArchive({ A_B: awkwardTrades(count) });
  return { ...archive, folder, path: join(folder, 'a.csv'), kind: 'trades' as const };
}

test('a span with gaps is refused with each of them, or marked in the manifest', async (t) => {
  const { store, folder, path, parts, kind } = await open(t);
  const [part] = parts;
  assert.ok(part !== undefined);
  const stream = { ...part.stream, kind: 'trades', variant: 0, collectFromMs: null } as const;
  const lost = secondsAfterNoon(20, 30);
  const doubt = { reason: 'suspect', note: 'doubted', atMs: lost.toMs } as const;
  await revoke(store, stream, lost, doubt);
  const wide = [{ ...part, span: secondsAfterNoon(-10, 100) }];
  const run = { store, kind, format: 'csv', path, parts: wide } as const;
  await assert.rejects(runExport(run), (error) => {
    assert.ok(error instanceof ExportGapsError && error.code === 'export_gaps');
    const [found] = error.gaps;
    assert.deepEqual(
      found?.missing.map(({ span, reason }) => [span, reason]),
      [
        [secondsAfterNoon(-10, 0), 'not collected'],
        [lost, 'suspect'],
      ],
    );
    return true;
  });
  assert.deepEqual(await namesIn(folder), []);
  const told = await runExport({ ...run, allowGaps: true });
  assert.equal(told.isComplete, false);
  assert.deepEqual(
    told.markets[0]?.gaps.list.map(({ from, reason }) => [from, reason]),
    [
      ['2026-01-15T11:59:50.000Z', 'not collected'],
      ['2026-01-15T12:00:20.000Z', 'suspect'],
    ],
  );
  assert.equal(told.markets[0]?.coverage.count, 2);
  const whole = await runExport({
    ...run,
    isForced: true,
    parts: [{ ...part, span: secondsAfterNoon(30, 100) }],
  });
  assert.equal(whole.isComplete, true);
  assert.equal((await readCsv(path)).length - 1, whole.rows);
});

test('rows and coverage are of one moment, whatever is stored meanwhile', async (t) => {
  const { store, url, path, parts, kind } = await open(t);
  const snapshot = await store.snapshot();
  await runSql(url, 'DELETE FROM trade; DELETE FROM coverage');
  const [part] = parts;
  assert.ok(part !== undefined);
  const pieces = await snapshot.pieces(part.stream, part.span);
  assert.deepEqual(
    pieces.map(({ state }) => state),
    ['covered'],
  );
  let text = '';
  const slice = { kind, marketId: part.marketId, variantS: 0, span: part.span };
  for await (const piece of snapshot.rows(slice, 'csv')) text += piece.toString();
  assert.equal(text.split('\n').length - 1, 50);
  await snapshot.close();
  await assert.rejects(runExport({ store, kind, parts, format: 'csv', path }), ExportGapsError);
});

test('what is there stays, unless it may be replaced; then it is replaced whole', async (t) => {
  const { store, folder, path, parts, kind } = await open(t);
  const run = { store, kind, parts, format: 'csv', path } as const;
  await writeFile(path, 'mine');
  await assert.rejects(runExport(run), (error) => {
    return error instanceof OutputError && /there already.*--force/.test(error.message);
  });
  await assert.rejects(runExport({ ...run, path: folder, isForced: true }), /it is a folder/);
  await assert.rejects(
    runExport({ ...run, path: join(folder, 'no', 'a.csv') }),
    /folder does not exist/,
  );
  await assert.rejects(runExport({ ...run, path: join(path, 'a.csv') }), /its folder is a file/);
  assert.equal(await readFile(path, 'utf8'), 'mine');
  for (const format of FORMATS) {
    const stopping = new AbortController();
    const stop = () => stopping.abort(new Error('enough'));
    const [onProgress, onPhase] = format === 'csv' ? [stop, stop] : [() => undefined, stop];
    const { signal } = stopping;
    const given = { ...run, format, signal, isForced: true, onProgress, onPhase };
    if (format === 'ndjson') continue;
    await assert.rejects(runExport(given), /enough/, format);
    assert.equal(await readFile(path, 'utf8'), 'mine', format);
    assert.deepEqual(await namesIn(folder), ['a.csv'], format);
  }
  const told = await runExport({ ...run, isForced: true });
  assert.equal((await readFile(path)).length, told.bytes);
  assert.deepEqual(await namesIn(folder), ['a.csv', 'a.csv.manifest.json']);
  // Another export that was quicker has written there meanwhile.
  const other = join(folder, 'b.csv');
  const onPhase = () => writeFileSync(other, 'theirs');
  for (const format of ['csv', 'parquet'] as const) {
    const late = runExport({ ...run, format, path: other, onPhase, onProgress: onPhase });
    await assert.rejects(late, /b\.csv: it is there already.*--force/, format);
    assert.equal(await readFile(other, 'utf8'), 'theirs', format);
    await rm(other);
  }
  assert.deepEqual(await namesIn(folder), ['a.csv', 'a.csv.manifest.json']);
});

test('a full disk is named, and nothing is left', async (t) => {
  const { store, parts, kind } = await open(t);
  for (const format of FORMATS) {
    const run = runExport({ store, kind, parts, format, path: '/dev/full' });
    await assert.rejects(run, DiskFullError, format);
  }
});

test('an export ends with an error when the database goes away, and leaves nothing', async (t) => {
  const { store, url, folder, path, parts, kind } = await open(t);
  const [part] = parts;
  assert.ok(part !== undefined);
  // More than the sockets between hold, so that the server has not ended before it is ended.
  await runSql(
    url,
    `INSERT INTO trade (market_id, traded_at, tid, received_at, side, price, amount, total)
     SELECT market_id, traded_at, n, received_at, side, price, amount, total
     FROM generate_series(1, 150000) n, (SELECT * FROM trade LIMIT 1) one`,
  );
  const snapshot = await store.snapshot();
  const slice = { kind, marketId: part.marketId, variantS: 0, span: part.span };
  const read = async () => {
    for await (const _ of snapshot.rows(slice, 'csv')) {
      await runSql(
        url,
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND query LIKE 'COPY (SELECT traded_at%'`,
      );
    }
  };
  await assert.rejects(read(), { code: /^database_/ });
  await assert.rejects(snapshot.pieces(part.stream, part.span), {
    ...{ code: 'database_unreachable', action: 'retry' },
    message: /the connection that the archive was read through is lost/,
  });
  assert.deepEqual(await namesIn(folder), []);
  const told = await runExport({ store, kind, parts, format: 'csv', path });
  assert.equal(told.rows, 150_050, 'the store itself goes on');
});
