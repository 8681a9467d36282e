import assert from 'node:assert/strict';
import test from 'node:test';
import { productSql } from '../../../src/archive/parquet/product.js';
import { DuckSession } from '../../../src/archive/parquet/session.js';
import { multiplyDecimals } from '../../../src/kernel/decimal.js';
import { temporaryFolder } from '../../support/tape-exchange.js';

test('price × amount is exact for every width of its factors', async (t) => {
  const duck = await DuckSession.open(await temporaryFolder(t));
  t.after(() => duck.close());
  for (const [price, priceType, amount, amountType] of [
    // Eighteen digits each: the product has more than any number of 64 bits.
    ['441.00000001', 'DECIMAL(18,8)', '218.00000001', 'DECIMAL(18,8)'],
    ['9999999999.99999999', 'DECIMAL(18,8)', '9999999999.99999999', 'DECIMAL(18,8)'],
    ['61837.63', 'DECIMAL(18,2)', '0.02000001', 'DECIMAL(18,8)'],
    ['1.000000000000000001', 'DECIMAL(38,18)', '12345.6789', 'DECIMAL(18,8)'],
  ] as const) {
    const scale = Number(/,(\d+)/.exec(priceType)?.[1]);
    const sql = `SELECT ${productSql(scale)}::VARCHAR
      FROM (SELECT ${price}::${priceType} AS price, ${amount}::${amountType} AS amount)`;
    const [[found] = []] = await duck.rows('multiplying', sql);
    const digits = (text: string) => text.replace(/0+$/, '');
    assert.equal(
      digits(String(found)),
      digits(multiplyDecimals(price, amount)),
      `${price} × ${amount}`,
    );
  }
});
