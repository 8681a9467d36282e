import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TradeColumns } from '../../../src/sandbox/trade-columns.js';
import { TradeTexts } from '../../../src/sandbox/trade-texts.js';
import type { BackendTrade, TradeForm } from '../../../src/server/backend.js';
import fc from '../../support/properties.js';

const US_PER_S = 1_000_000;

/** The contract's objects, written by the platform: what the texts must equal to the byte. */
function expectedText(form: TradeForm, columns: TradeColumns, from: number, to: number): string {
  const rows = Array.from({ length: to - from }, (_, index) => columns.tradeAt(to - 1 - index));
  const rest = ({ price, side, amount, total }: BackendTrade) => ({
    price,
    type: side,
    amount,
    total,
  });
  return JSON.stringify(
    form === 'history'
      ? rows.map((row) => ({ id: row.id, time: row.timeUs / US_PER_S, ...rest(row) }))
      : rows.map((row) => ({
          tid: row.id,
          date: Math.floor(row.timeUs / US_PER_S),
          ...rest(row),
        })),
  );
}

function pageText(texts: TradeTexts, form: TradeForm, columns: TradeColumns, ends: number[]) {
  const [from = 0, to = 0] = ends;
  return Buffer.concat(texts.page(form, columns, from, to)).toString('latin1');
}

/** Appends `count` trades whose numbers follow from their positions. */
function extend(columns: TradeColumns, count: number): void {
  for (let index = 0; index < count; index += 1) {
    const position = columns.end;
    const price = BigInt(1 + ((position * 7919) % 100_003));
    const amount = BigInt(1 + ((position * 104_729) % 1_000_000)) * (position % 5 === 0 ? 10n : 1n);
    const timeUs = 1_780_000_000_000_000 + position * 123_450;
    columns.append(2 ** 31 + position * 3, timeUs, price, amount, position % 3 === 0);
  }
}

const forms = fc.constantFrom<TradeForm>('history', 'historyResult');
const step = fc.oneof(
  fc.record({ kind: fc.constant('page' as const), form: forms, a: fc.nat(1000), b: fc.nat(1000) }),
  fc.record({ kind: fc.constant('extend' as const), count: fc.integer({ min: 1, max: 90 }) }),
  fc.record({ kind: fc.constant('drop' as const), count: fc.integer({ min: 1, max: 70 }) }),
);

test('a page is what JSON.stringify makes of its trades, while they come, are dropped, and texts go', () => {
  const run = fc.tuple(fc.constantFrom(0, 10_000, 1e7), fc.array(step, { maxLength: 40 }));
  fc.assert(
    fc.property(run, ([keptLengthMax, steps]) => {
      const texts = new TradeTexts(keptLengthMax);
      const columns = [new TradeColumns(2, 6), new TradeColumns(0, 3)] as const;
      for (const each of columns) extend(each, 150);
      for (const [index, todo] of steps.entries()) {
        const each = columns[index % 2 === 0 ? 0 : 1];
        if (todo.kind === 'extend') extend(each, todo.count);
        else if (todo.kind === 'drop') each.dropBefore(each.base + todo.count);
        else {
          const held = each.end - each.base;
          const ends = [todo.a, todo.b].map((at) => each.base + (at % (held + 1)));
          ends.sort((a, b) => a - b);
          const [from = 0, to = 0] = ends;
          const expected = expectedText(todo.form, each, from, to);
          assert.equal(pageText(texts, todo.form, each, ends), expected);
        }
      }
    }),
    { numRuns: 200 },
  );
});

test('texts are written once as long as they are kept, and no more are kept than allowed', () => {
  let read = 0;
  class WatchedColumns extends TradeColumns {
    override idAt(position: number): number {
      read += 1;
      return super.idAt(position);
    }
  }
  const columns = new WatchedColumns(2, 6);
  extend(columns, 6400);
  const texts = new TradeTexts(64 * 130 * 20);
  const rowsRead = (from: number, to: number) => {
    const before = read;
    texts.page('history', columns, from, to);
    return read - before;
  };
  assert.equal(rowsRead(0, 640), 640);
  assert.equal(rowsRead(1, 639), 0, 'other pages are cut from the same texts');
  extend(columns, 10);
  assert.equal(rowsRead(6390, 6410), 64 + 10, 'a newer trade touches its own block only');
  rowsRead(0, 6400);
  assert.equal(rowsRead(0, 640), 0, 'used last');
  assert.equal(rowsRead(5760, 6400), 640, 'what was not used for long has gone');
});
