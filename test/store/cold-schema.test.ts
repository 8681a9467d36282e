import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { filesBelow } from '../../src/archive/cold/folder.js';
import { type DuckSession, literal } from '../../src/archive/parquet/session.js';
import { columnsOf, type SeriesColumn } from '../../src/model/kinds.js';
import { SERIES_TABLES, viewOf } from '../../src/model/series.js';
import { DECIMAL_TYPES, PARQUET_TYPES } from '../support/documents/cold-schema.js';
import { standInForCold } from '../support/worlds/cold-stand-in.js';
import { openDaysWorld, WHOLE } from '../support/worlds/days-world.js';
import { makeFolder, openDuck } from '../support/worlds/export-world.js';
import { DAY_MS, live } from '../support/worlds/sealing-world.js';

/** Cold files have the columns that docs/reference/cold-files.md names, in Parquet's own words. */

/** Names and types of the columns of a file, as the page writes them. */
async function columnsIn(duck: DuckSession, path: string) {
  const rows = await duck.rows(
    'reading a schema',
    `SELECT name, type, coalesce(logical_type, ''), repetition_type, coalesce(precision, 0), scale, num_children = 1
     FROM parquet_schema(${literal(path)}) OFFSET 1`,
  );
  const found: { name: string; type: string }[] = [];
  for (let at = 0; at < rows.length; at += 1) {
    const name = String(rows[at]?.[0]);
    const isList = rows[at]?.[6] === true;
    assert.equal(rows[at]?.[3], 'OPTIONAL', name);
    // A list has two groups around its values.
    if (isList) at += 2;
    const [, physical, logical, , precision, scale] = (rows[at] ?? []).map(String);
    const type = typeOf(String(physical), String(logical), Number(precision), Number(scale));
    found.push({ name, type: isList ? `LIST of ${type}` : type });
  }
  return found;
}

function typeOf(physical: string, logical: string, precision: number, scale: number): string {
  if (precision > 0) {
    assert.equal(physical, precision <= 18 ? 'INT64' : 'FIXED_LEN_BYTE_ARRAY');
    return `DECIMAL(${precision},${scale})`;
  }
  if (!logical.startsWith('TimestampType'))
    return physical === 'BYTE_ARRAY' ? `${physical}, STRING` : physical;
  assert.match(logical, /isAdjustedToUTC=1.*MICROS/, logical);
  return `${physical}, TIMESTAMP(MICROS, UTC)`;
}

/** The types that a column may have. */
function allowed({ type }: SeriesColumn): readonly string[] {
  const decimals = [...DECIMAL_TYPES, PARQUET_TYPES.text];
  if (type === 'decimal') return decimals;
  return type === 'decimals' ? decimals.map((one) => `LIST of ${one}`) : [PARQUET_TYPES[type]];
}

test('files of each kind have the columns and types of the reference', async (t) => {
  const coldDir = await makeFolder(t, 'cold');
  const { store, url } = await openDaysWorld(coldDir);
  // A candle that the exchange changed: the files of both versions.
  const tid = { marketId: 1, intervalS: 60, openAtS: WHOLE.fromMs / 1000 };
  const prices = {
    open: '1.10',
    high: '9',
    low: '0.5',
    close: '1',
    volume: '12',
    quoteVolume: '1',
  };
  await store.commit({ klines: [{ ...tid, ...prices, receivedAtMs: WHOLE.fromMs + 2 * DAY_MS }] });
  await standInForCold(url);
  const { failures } = await live(
    { store, coldDir },
    {
      rules: { coldAfterMs: 0, needsChecks: false },
      isChosen: ({ span }) => span.fromMs === WHOLE.fromMs,
    },
  );
  assert.deepEqual(failures, []);
  const duck = await openDuck(t);
  const files = (await filesBelow(coldDir)).filter((one) => one.endsWith('.parquet'));
  const types = new Set<string>();
  for (const series of SERIES_TABLES) {
    const own = files.filter((one) => one.startsWith(`kind=${viewOf(series)}/`));
    assert.ok(own.length > 0, series);
    for (const file of own) {
      const found = await columnsIn(duck, join(coldDir, file));
      const columns = columnsOf(series);
      assert.deepEqual(
        found.map(({ name }) => name),
        columns.map(({ name }) => name),
      );
      for (const [at, column] of columns.entries()) {
        const type = found[at]?.type ?? '';
        assert.ok(allowed(column).includes(type), `${file}: ${column.name} is ${type}`);
        types.add(type);
      }
    }
  }
  assert.ok(types.size > 5, [...types].join('; '));
});
