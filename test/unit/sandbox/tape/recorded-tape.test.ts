import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { TapeError } from '../../../../src/sandbox/errors.js';
import { readCsvTape, TAPE_HEADER } from '../../../../src/sandbox/tape/recorded-tape.js';
import { temporaryFolder, writeTape } from '../../../support/exchanges/tape-exchange.js';

const GOOD = '5,1000,1.5,2,buy';

test('a file is read line by line, places of a column made equal', async (t) => {
  const path = await writeTape(t, [GOOD, '9,1000,1.25,0.125,sell', '12,1001,3,1.0,buy']);
  const { columns, tickDigits, digest } = await readCsvTape(path);
  const trades = [0, 1, 2].map((position) => columns.tradeAt(position));
  assert.deepEqual(trades, [
    { id: 5, timeUs: 1_000_000, price: '1.50', amount: '2.000', total: '3', side: 'buy' },
    { id: 9, timeUs: 1_000_000, price: '1.25', amount: '0.125', total: '0.15625', side: 'sell' },
    { id: 12, timeUs: 1_001_000, price: '3.00', amount: '1.000', total: '3', side: 'buy' },
  ]);
  assert.equal(tickDigits, 2);
  assert.match(digest, /^[0-9a-f]{64}$/);
});

test('lines that end differently, or not at all, are read alike', async (t) => {
  const path = join(await temporaryFolder(t), 'tape.csv');
  await writeFile(path, `\uFEFF${TAPE_HEADER}\r\n${GOOD}\r\n6,1000,1,1,sell`);
  const { columns } = await readCsvTape(path);
  assert.equal(columns.end, 2);
});

test('a file of many chunks keeps every line', async (t) => {
  const lines = Array.from({ length: 50_000 }, (_, index) => {
    return `${index * 3 + 1},${1_700_000_000_000 + index},${100 + (index % 7)}.25,0.00${index + 1},buy`;
  });
  const { columns } = await readCsvTape(await writeTape(t, lines));
  assert.equal(columns.end, lines.length);
  for (const position of [0, 1500, 32_767, 49_999]) {
    const { id, timeUs, price, amount } = columns.tradeAt(position);
    const [lineId, timeMs, linePrice, lineAmount] = (lines[position] ?? '').split(',');
    assert.deepEqual([String(id), String(timeUs / 1000), price], [lineId, timeMs, linePrice]);
    assert.equal(Number(amount), Number(lineAmount));
  }
});

const faults: ReadonlyArray<readonly [string, readonly string[], RegExp]> = [
  ['id text', ['x,1000,1,1,buy'], /line 2, column id: "x".*above 0/],
  ['id repeated', [GOOD, GOOD], /line 3, column id: "5".*above 5/],
  ['id zero', ['0,1000,1,1,buy'], /column id/],
  ['id beyond 2^53', ['9007199254740993,1000,1,1,buy'], /column id.*2\^53/],
  ['time fraction', ['1,1000.5,1,1,buy'], /line 2, column time_ms: "1000.5"/],
  ['time backwards', [GOOD, '6,999,1,1,buy'], /line 3, column time_ms: "999".*not before 1000/],
  ['price zero', ['1,1000,0.00,1,buy'], /column price: "0.00".*above zero/],
  ['price negative', ['1,1000,-1,1,buy'], /column price: "-1"/],
  ['price exponent', ['1,1000,1e5,1,buy'], /column price/],
  ['price with 19 digits', ['1,1000,1.000000000000000001,1,buy'], /column price.*18 digits/],
  ['amount empty', ['1,1000,1,,buy'], /column amount: ""/],
  [
    'amounts too far apart',
    ['1,1000,1,9000000000,buy', '2,1000,1,0.000000000000000001,buy'],
    /line 2, column amount/,
  ],
  ['side', ['1,1000,1,1,Buy'], /column side: "Buy".*buy or sell/],
  ['columns', ['1,1000,1,1'], /line 2, column line.*5 columns/],
  ['blank line', [GOOD, '', '6,1000,1,1,buy'], /line 3/],
  ['no trade', [], /holds no trade/],
];

test('every fault names file, line, column, value and what is allowed', async (t) => {
  for (const [what, lines, message] of faults) {
    const path = await writeTape(t, lines);
    await assert.rejects(
      readCsvTape(path),
      (error) => {
        assert.ok(error instanceof TapeError, what);
        assert.ok(error.message.includes(path), what);
        assert.match(error.message, message, what);
        return true;
      },
      what,
    );
  }
});

test('a wrong header, an endless line and a missing file are refused', async (t) => {
  const path = join(await temporaryFolder(t), 'tape.csv');
  await assert.rejects(readCsvTape(path), /cannot be read \(ENOENT/);
  await writeFile(path, `id,price\n${GOOD}\n`);
  await assert.rejects(readCsvTape(path), /line 1, column header/);
  await writeFile(path, `${TAPE_HEADER}\n${'1'.repeat(300_000)}`);
  await assert.rejects(readCsvTape(path), /line 2.*400 characters/);
});
