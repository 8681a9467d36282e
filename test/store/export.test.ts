import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { digestParquet } from '../../src/archive/parquet/file.js';
import { MARKET_COLUMN, seriesColumns } from '../../src/model/kinds.js';
import { describeParquet } from '../support/parquet-facts.js';
import { runSql } from '../support/postgres/postgres.js';
import {
  awkwardTrades,
  makeFolder,
  namesIn,
  openDuck,
  openTradeArchive,
  parquetTexts,
  readCsv,
  runExport,
} from '../support/worlds/export-world.js';

const COLUMNS = [MARKET_COLUMN, ...seriesColumns('trades')];

test('each form holds every row exactly, in order, and the manifest tells what is in it', async (t) => {
  const { store, url, parts } = await openTradeArchive({
    A_B: awkwardTrades(400),
    '=cmd()': awkwardTrades(3),
  });
  const folder = await makeFolder(t);
  const stored = await runSql<Record<string, string>>(
    url,
    `SELECT name, tid::text, price::text, amount::text, total::text, side::text,
       trim_scale(price)::text AS short, trim_scale(total)::text AS short_total,
       coalesce((extract(epoch FROM executed_at) * 1000000)::bigint::text, '') AS micros
     FROM trade JOIN market USING (market_id) ORDER BY name = '=cmd()', traded_at, tid`,
  );
  assert.equal(stored.length, 403);

  const csv = join(folder, 'a.csv');
  const told = await runExport({ store, kind: 'trades', parts, format: 'csv', path: csv });
  const [heading, ...lines] = await readCsv(csv);
  assert.equal(
    heading?.join(),
    'market,traded_at,tid,executed_at,side,price,amount,total,received_at',
  );
  assert.deepEqual(
    lines.map((line) => [line[0], line[2], line[5], line[6], line[7]]),
    stored.map((row) => [
      row.name === '=cmd()' ? "'=cmd()" : row.name,
      ...[row.tid, row.price, row.amount, row.total],
    ]),
  );
  assert.equal(
    told.sha256,
    createHash('sha256')
      .update(await readFile(csv))
      .digest('hex'),
  );
  assert.equal(told.rows, 403);
  assert.deepEqual(
    told.markets.map(({ market, rows, first, last }) => [
      market,
      rows,
      first?.id,
      last?.id,
      last?.at,
    ]),
    [
      ['A_B', 400, 9_007_199_254_000_000, 9_007_199_254_000_399, '2026-01-15T12:01:39Z'],
      ['=cmd()', 3, 9_007_199_254_000_000, 9_007_199_254_000_002, '2026-01-15T12:01:06Z'],
    ],
  );
  assert.deepEqual(JSON.parse(await readFile(`${csv}.manifest.json`, 'utf8')), told);

  const ndjson = join(folder, 'a.ndjson');
  await runExport({ store, kind: 'trades', parts, format: 'ndjson', path: ndjson });
  const objects = (await readFile(ndjson, 'utf8')).trimEnd().split('\n');
  assert.deepEqual(
    objects.map((line) => {
      const { market, tid, price, total } = JSON.parse(line);
      return [market, String(tid), price, total];
    }),
    stored.map((row) => [row.name, row.tid, row.price, row.total]),
  );

  const parquet = join(folder, 'a.parquet');
  const typed = await runExport({ store, kind: 'trades', parts, format: 'parquet', path: parquet });
  assert.equal(typed.columns.find(({ name }) => name === 'price')?.type, 'DECIMAL(38,18)');
  assert.equal(typed.columns.find(({ name }) => name === 'amount')?.type, 'DECIMAL(18,0)');
  const duck = await openDuck(t);
  const read = await parquetTexts(duck, COLUMNS, parquet);
  const short = (text: string | null | undefined) => text?.replace(/\.?0+$/, '');
  assert.deepEqual(
    read.map((row) => [row[0], row[2], short(row[5]), row[6], short(row[7])]),
    stored.map((row) => [row.name, row.tid, row.short, row.amount, row.short_total]),
  );
  const facts = await describeParquet(duck, parquet);
  assert.equal(facts.rows, 403);
  assert.deepEqual(facts.about, {
    ...{ tapekeep: '1.2.3', kind: 'trades', order: ['market', 'traded_at', 'tid'] },
  });
  assert.equal(
    facts.columns.find(({ name }) => name === 'traded_at')?.sqlType,
    'TIMESTAMP WITH TIME ZONE',
  );
  assert.equal((await digestParquet(duck, COLUMNS, parquet)).rows, 403);
  assert.equal((await namesIn(folder)).length, 6, 'nothing but the files and their manifests');
});

test('the manifest has the condition of each day that the file reaches into', async (t) => {
  const { store, url, parts } = await openTradeArchive({ A_B: awkwardTrades(400) });
  const folder = await makeFolder(t);
  const [part] = parts;
  assert.ok(part !== undefined);
  const dayMs = Math.floor(part.span.fromMs / 86_400_000) * 86_400_000;
  await runSql(
    url,
    `UPDATE stream SET collect_from = $1, start_reason = NULL;`.replace(
      '$1',
      `'${new Date(dayMs).toISOString()}'`,
    ),
  );
  const { stream } = part;
  await store.commit({
    claims: [
      { stream, span: { fromMs: dayMs, toMs: part.span.fromMs }, evidence: {} },
      { stream, span: { fromMs: part.span.toMs, toMs: dayMs + 86_400_000 }, evidence: {} },
    ] as never,
  });
  const gone = { fromMs: dayMs + 86_400_000, toMs: dayMs + 2 * 86_400_000 };
  const memory = { state: 'unfillable', reason: 'history horizon', isAttempt: true } as const;
  await store.recordGap({ stream: stream as never, span: gone, ...memory, atMs: gone.toMs });
  const path = join(folder, 'days.csv');
  const wide = [{ ...part, span: { fromMs: part.span.fromMs, toMs: gone.toMs - 3_600_000 } }];
  const how = { store, kind: 'trades', format: 'csv', path, allowGaps: true } as const;
  const told = await runExport({ ...how, parts: wide, nowMs: gone.toMs });
  assert.deepEqual(told.markets[0]?.days, {
    ...{ available: 1, degraded: 0, pending: 0, missing: 1 },
    others: { count: 1, list: [{ day: '2026-01-16', condition: 'missing' }] },
  });
});
