import assert from 'node:assert/strict';
import test from 'node:test';
import { type Column, figure, formatTable } from '../../../src/cli/output.js';

type Row = Readonly<Record<'market' | 'at' | 'rows' | 'note', string>>;

const COLUMNS: readonly Column<Row>[] = [
  { title: 'market', text: ({ market }) => market },
  { title: 'at', text: ({ at }) => at, rank: 1 },
  figure('rows', ({ rows }) => rows),
  { title: 'note', text: ({ note }) => note, rank: 2 },
];

test('a table leaves out columns by their rank, then cuts texts, to fit the width', () => {
  const rows = [{ market: 'A_LONG_NAME/USDT', at: '2026-01-31', rows: '1,234', note: 'why it is' }];
  const at = (width: number) => formatTable(COLUMNS, rows, width);
  assert.deepEqual(at(80), [
    'market            at           rows  note',
    'A_LONG_NAME/USDT  2026-01-31  1,234  why it is',
  ]);
  assert.deepEqual(at(40), [
    'market            at           rows',
    'A_LONG_NAME/USDT  2026-01-31  1,234',
  ]);
  assert.deepEqual(at(30), ['market             rows', 'A_LONG_NAME/USDT  1,234']);
  assert.deepEqual(at(20), ['market          rows', 'A_LONG_NAME/…  1,234']);
  for (const width of [15, 20, 30, 40, 80]) {
    for (const line of at(width)) assert.ok(line.length <= width, line);
  }
});
