import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { ParquetError } from '../../../src/archive/errors.js';
import {
  type DecimalForms,
  type StagedRows,
  typeColumns,
} from '../../../src/archive/parquet/columns.js';
import { digestParquet, digestStaged, writeParquet } from '../../../src/archive/parquet/file.js';
import type { ColumnForm } from '../../../src/model/columns.js';
import type { SeriesColumn } from '../../../src/model/kinds.js';
import { describeParquet } from '../../support/parquet-facts.js';
import { makeFolder, openDuck, parquetTexts } from '../../support/worlds/export-world.js';

const COLUMNS = (
  [
    ['market', 'text'],
    ['at', 'timestamp'],
    ['id', 'integer'],
    ['price', 'decimal'],
    ['levels', 'decimals'],
  ] as const
).map(([name, type]: readonly [string, ColumnForm]): SeriesColumn => {
  return { name, type, isNullable: name === 'price', about: '' };
});

async function stage(t: TestContext, lines: readonly string[]): Promise<StagedRows> {
  const path = join(await makeFolder(t), "it's.csv");
  await writeFile(path, lines.map((line) => `${line}\n`).join(''));
  return { path, columns: COLUMNS };
}

const line = (id: number, price: string, levels = '[1]') =>
  `"a,""b""",2026-01-15 12:00:00.000001+00,${id},${price},"${levels}"`;

test('decimals get as many digits as they need, and text where there are too many', async (t) => {
  const duck = await openDuck(t);
  const typesOf = async (prices: readonly string[], forms?: DecimalForms) => {
    const rows = await stage(
      t,
      prices.map((price, index) => line(index, price, `[${price},1]`)),
    );
    const typed = await typeColumns(duck, rows, forms);
    return typed.slice(3).map(({ sqlType }) => sqlType);
  };
  const both = (type: string) => [type, `${type}[]`];
  assert.deepEqual(await typesOf(['1.50', '-2']), both('DECIMAL(18,1)'));
  assert.deepEqual(await typesOf(['123456789012345678']), both('DECIMAL(18,0)'));
  assert.deepEqual(await typesOf(['12345678901234567.89']), both('DECIMAL(38,2)'));
  const whole = '9'.repeat(30);
  assert.deepEqual(await typesOf([`${whole}.12345678`]), both('DECIMAL(38,8)'));
  assert.deepEqual(await typesOf([`${whole}.123456789`, '1']), both('VARCHAR'));
  assert.deepEqual(await typesOf([]), both('DECIMAL(18,0)'));
  // Of given types the first that holds them all, else text.
  const given = [
    { precision: 18, scale: 8 },
    { precision: 38, scale: 18 },
  ];
  const forms = { price: given, levels: given };
  assert.deepEqual(await typesOf(['1.50', '9999999999'], forms), both('DECIMAL(18,8)'));
  assert.deepEqual(await typesOf(['1.5', '10000000000'], forms), both('DECIMAL(38,18)'));
  assert.deepEqual(await typesOf(['0.123456789'], forms), both('DECIMAL(38,18)'));
  assert.deepEqual(await typesOf([`0.${'1'.repeat(19)}`], forms), both('VARCHAR'));
});

test('what is written is read back to the last digit, in its order', async (t) => {
  const duck = await openDuck(t);
  const prices = ['1.50', '', '-0.000000000000000001', '99999999999999999999'];
  const rows = await stage(
    t,
    prices.map((price, id) => line(id, price, `[${id}.5,${id}]`)),
  );
  const path = join(await makeFolder(t), "o'ut.parquet");
  await writeParquet(duck, rows, path, { about: { "it's": 'this' } });
  assert.equal((await readFile(path)).subarray(0, 4).toString(), 'PAR1');
  const facts = await describeParquet(duck, path);
  assert.deepEqual([facts.rows, facts.about], [4, { "it's": 'this' }]);
  const texts = await parquetTexts(duck, COLUMNS, path);
  assert.deepEqual(texts[0], [
    ...['a,"b"', '2026-01-15 12:00:00.000001+00', '0', '1.500000000000000000', '[0.5, 0.0]'],
  ]);
  assert.equal(texts[1]?.[3], null);
  assert.deepEqual(
    texts.slice(2).map((row) => row[3]),
    ['-0.000000000000000001', '99999999999999999999.000000000000000000'],
  );
  assert.deepEqual(await digestParquet(duck, COLUMNS, path), await digestStaged(duck, rows));
});

test('a digest tells any other value, order or number of rows', async (t) => {
  const duck = await openDuck(t);
  const digestOf = async (lines: readonly string[]) =>
    (await digestStaged(duck, await stage(t, lines))).digest;
  const digest = await digestOf([line(1, '1.5'), line(2, '2')]);
  assert.equal(await digestOf([line(1, '1.500'), line(2, '2.0')]), digest, 'the same values');
  for (const other of [
    [line(2, '2'), line(1, '1.5')],
    [line(1, '1.5'), line(2, '')],
    [line(1, '1.5'), line(2, '20')],
    [line(1, '1.5'), line(2, '2', '[1,1]')],
    [line(1, '1.5')],
  ]) {
    assert.notEqual(await digestOf(other), digest, other.join(' | '));
  }
});

test('a file that is damaged or none is named', async (t) => {
  const duck = await openDuck(t);
  const rows = await stage(
    t,
    Array.from({ length: 5000 }, (_, id) => line(id, `${id}.25`)),
  );
  const path = join(await makeFolder(t), 'a.parquet');
  await writeParquet(duck, rows, path, { about: {} });
  const before = await digestParquet(duck, COLUMNS, path);
  const bytes = await readFile(path);
  const damaged = join(await makeFolder(t), 'damaged.parquet');
  for (const at of [200, Math.floor(bytes.length / 2)]) {
    const changed = Buffer.from(bytes);
    changed.fill(0x55, at, at + 16);
    await writeFile(damaged, changed);
    const after = await digestParquet(duck, COLUMNS, damaged).catch((error: unknown) => error);
    assert.notDeepEqual(after, before, `damage at ${at} is seen`);
  }
  await writeFile(damaged, bytes.subarray(0, bytes.length - 100));
  await assert.rejects(describeParquet(duck, damaged), (error) => {
    return error instanceof ParquetError && error.message.includes('damaged.parquet');
  });
  await assert.rejects(describeParquet(duck, `${damaged}.none`), ParquetError);
});
