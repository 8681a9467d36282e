import assert from 'node:assert/strict';
import test from 'node:test';
import { longProductSql, productSql } from '../../../src/archive/parquet/columns.js';
import { DuckSession } from '../../../src/archive/parquet/session.js';
import { multiplyDecimals } from '../../../src/kernel/decimal.js';
import { temporaryFolder } from '../../support/exchanges/tape-exchange.js';

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

test('factors of many digits: the product is exact while it fits, and an error beyond', async (t) => {
  const duck = await DuckSession.open(await temporaryFolder(t));
  t.after(() => duck.close());
  const multiply = async (price: string, amount: string, scale = 18) => {
    const sql = `SELECT (${longProductSql({ price: scale, amount: 18, product: 20 })})::VARCHAR
      FROM (SELECT '${price}'::DECIMAL(38,${scale}) AS price, '${amount}'::DECIMAL(38,18) AS amount)`;
    const [[found] = []] = await duck.rows('multiplying', sql);
    return String(found).replace(/\.?0+$/, '');
  };
  for (const [price, amount] of [
    ['61837.63', '3.5'],
    ['61837.630000000000000001', '3'],
    ['0.0000000001', '0.0000000001'],
    ['123456789.123456789', '987654321.123456789'],
    ['-1.5', '2.25'],
    ['-0.5', '-0.25'],
    ['0.000000000000000001', '123456789012345678.01'],
  ] as const) {
    const wanted = multiplyDecimals(price, amount);
    assert.equal(await multiply(price, amount), wanted, `${price} × ${amount}`);
  }
  for (const [price, amount] of [
    ['61837.630000000000000001', '3.000000000000000001'],
    ['0.000000000000000001', '0.5'.padEnd(20, '1')],
  ] as const) {
    await assert.rejects(multiply(price, amount), /the total of .* has more digits/);
  }
  await assert.rejects(multiply('99999999999.5', '99999999999.5'), /out of range|Overflow/);
  await assert.rejects(multiply('1.5', '2', 30), /the total of 1.50* times 2.0* has more digits/);
});
