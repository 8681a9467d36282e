import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { sortedRowsSql } from '../../../src/archive/cold-rows.js';
import {
  columnsOf,
  nameMeant,
  seriesColumns,
  seriesOrder,
  shownColumns,
  tableOfKind,
  timeColumnOf,
} from '../../../src/model/kinds.js';
import { SERIES, SERIES_TABLES, seriesOf, viewOf } from '../../../src/model/series.js';
import { copyMergedSql, copyRowsSql, copyTableSql } from '../../../src/store/reading/snapshot.js';
import { marketRowsSql } from '../../../src/store/sealing/partitions.js';
import { SHAPES } from '../../../src/store/writer/series.js';

/**
 * What the registry of series makes, beside what was written by hand for each of them before it. A file
 * in an archive was made by these texts: one that changes is another format.
 */
const GOLDEN = join(import.meta.dirname, '../../fixtures/series-texts.json');
const golden = JSON.parse(readFileSync(GOLDEN, 'utf8')) as Record<string, Record<string, unknown>>;

const KINDS = ['trades', 'candles', 'candle_revisions', 'tickers', 'depth', 'states'] as const;
const FORMS = ['csv', 'json'] as const;
const span = { fromMs: 1_700_000_000_000, toMs: 1_700_000_600_000 };
const us = { fromUs: span.fromMs * 1000, toUs: span.toMs * 1000 };
const slice = { marketId: 7, variantS: 60, span };

/** Names in quotes are the same names. */
const plain = (text: string) => text.replaceAll('"', '');
const byKind = <Value>(make: (kind: (typeof KINDS)[number]) => Value) =>
  Object.fromEntries(KINDS.map((kind) => [kind, make(kind)]));
const twice = <Value>(make: (kind: (typeof KINDS)[number], is: boolean) => Value) =>
  Object.fromEntries(
    KINDS.flatMap((kind) => [true, false].map((is) => [`${kind} ${is}`, make(kind, is)])),
  );
const byForm = (make: (kind: (typeof KINDS)[number], form: (typeof FORMS)[number]) => string) =>
  Object.fromEntries(
    KINDS.flatMap((kind) => FORMS.map((form) => [`${kind} ${form}`, make(kind, form)])),
  );

test('what is written of each series', () => {
  const written = [...SHAPES.values()].map(({ table, columns, key, timeColumn, content }) => [
    table,
    { columns: [...columns].sort(), key, time: timeColumn, content: [...content].sort() },
  ]);
  assert.deepEqual(Object.fromEntries(written), golden.written);
});

test('how rows leave the database', () => {
  assert.deepEqual(
    byForm((kind, form) => copyRowsSql({ ...slice, kind }, form)),
    golden.copyRows,
  );
  assert.deepEqual(
    byKind((kind) =>
      copyMergedSql({ kind, marketIds: [7], variantS: 60, ...us, isByReceipt: false, newest: 5 }),
    ),
    golden.newestRows,
  );
  for (const [kind, sql] of Object.entries(golden.table ?? {})) {
    const asked = kind as Exclude<(typeof KINDS)[number], 'candle_revisions'>;
    assert.equal(
      copyTableSql({ kind: asked, columns: seriesColumns(asked), marketIds: [1, 2], span }),
      sql,
    );
  }
  assert.deepEqual(
    twice((kind, isByReceipt) =>
      copyMergedSql({ kind, marketIds: [1, 2], variantS: 60, ...us, isByReceipt }),
    ),
    golden.merged,
  );
});

test('how rows leave files', () => {
  const files = [
    { place: 0, paths: ['a', 'b'] },
    { place: 1, paths: ['c'] },
  ];
  const made = twice((kind, isByReceipt) =>
    plain(sortedRowsSql({ kind, variantS: 60, ...us, isByReceipt }, files)),
  );
  const before = Object.entries(golden.coldEvents ?? {}).map(([name, sql]) => [
    name,
    plain(String(sql)),
  ]);
  assert.deepEqual(made, Object.fromEntries(before));
});

test('the columns of files and tables', () => {
  assert.deepEqual(byKind(seriesColumns), golden.columns);
  assert.deepEqual(
    byKind((kind) => [
      tableOfKind(kind),
      seriesOf(tableOfKind(kind)).variant,
      ...seriesOrder(kind),
    ]),
    golden.order,
  );
  for (const [kind, columns] of Object.entries(golden.views ?? {})) {
    assert.deepEqual(shownColumns(kind as (typeof KINDS)[number]), columns);
  }
});

test('the life of partitions', () => {
  const life = SERIES_TABLES.map((table) => {
    const { key, streams, isFetchable } = seriesOf(table);
    const columns = columnsOf(table).map(({ name, type, isNullable }) => {
      return { name, type, isNullable };
    });
    return [table, { table, timeColumn: timeColumnOf(table), key, columns, streams, isFetchable }];
  });
  assert.deepEqual(Object.fromEntries(life), golden.life);
  const sealed = SERIES_TABLES.map((table) => [table, marketRowsSql(table, `${table}_1`, 7)]);
  assert.deepEqual(Object.fromEntries(sealed), golden.sealed);
  const paths = SERIES_TABLES.map((table) => [table, viewOf(table)]);
  assert.deepEqual(Object.fromEntries(paths), golden.paths);
  for (const [kind, tables] of Object.entries(golden.retention ?? {})) {
    assert.deepEqual(
      SERIES_TABLES.filter((table) => SERIES[table].retention === kind),
      tables,
    );
  }
});

test('a series is meant by its name in the singular or plural, or as candles', () => {
  const meant = ['Candle', 'candles', ' klines', 'trade', 'TICKERS', 'tick', ''].map((word) =>
    nameMeant(word, ['candles', 'trades', 'tickers'] as const),
  );
  assert.deepEqual(meant, [
    'candles',
    'candles',
    'candles',
    'trades',
    'tickers',
    undefined,
    undefined,
  ]);
});
