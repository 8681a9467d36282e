import assert from 'node:assert/strict';
import test from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { z } from 'zod';
import { SchemaBook } from '../../../src/contract/documents/json-schema.js';
import {
  intervalParam,
  marketParam,
  pageLimitParam,
  sideParam,
} from '../../../src/contract/params.js';
import * as values from '../../../src/contract/values.js';
import { specimens } from './specimens.js';

/** A checker of what the documents say about a schema. */
function documented(schema: z.ZodType): (value: unknown) => boolean {
  const book = new SchemaBook('draft-2020-12');
  const own = book.of(schema);
  const ajv = new Ajv2020({ strict: false });
  return ajv.compile({ ...own, components: { schemas: book.named() } });
}

const TEXTS = [
  ...['0', '-0', '1', '-1', '1.5', '-1.5', '61837.63000000', '1e-8', '0e-8', '0.0', '00.10'],
  ...['', ' 1', '1 ', '.5', '5.', '+1', '1e', '1e9999', '0x1', 'NaN', 'one', '9'.repeat(81)],
];
const NUMBERS = [0, 1, -1, 1.5, 50, 60, 61, 900, 1000, 1001, 86_400, 604_800, 604_801];
const OTHERS = [
  null,
  true,
  [],
  {},
  'buy',
  'sell',
  'both',
  'BTC_USDT',
  'A'.repeat(64),
  'A'.repeat(65),
];

/** Notations that are read although the documents do not offer them. */
const isTolerated = (kind: string, value: unknown): boolean =>
  kind === 'decimal'
    ? typeof value === 'string' && /^-[0.]+$/.test(value)
    : kind === 'number' && typeof value === 'string';

const scalars: Readonly<Record<string, readonly [z.ZodType, string]>> = {
  'decimal text': [values.decimalText, 'decimal'],
  'decimal of at least zero': [values.nonNegativeDecimal, 'decimal'],
  'decimal above zero': [values.positiveDecimal, 'decimal'],
  'whole number': [values.wholeNumber, 'number'],
  id: [values.idNumber, 'number'],
  'UNIX time': [values.unixSeconds, 'number'],
  'whole UNIX second': [values.wholeUnixSeconds, 'number'],
  name: [values.nameText, 'text'],
  side: [values.sideText, 'text'],
  'market parameter': [marketParam, 'text'],
  'side parameter': [sideParam, 'text'],
  'limit parameter': [pageLimitParam, 'number'],
  'interval parameter': [intervalParam, 'number'],
};

for (const [name, [schema, kind]] of Object.entries(scalars)) {
  test(`${name}: what the documents say is what the schema does`, () => {
    const check = documented(schema);
    let admitted = 0;
    for (const value of [...TEXTS, ...NUMBERS, ...OTHERS]) {
      const isGood = schema.safeParse(value).success;
      const shown = `${name} ${JSON.stringify(value)}`;
      if (isTolerated(kind, value)) assert.ok(isGood || !check(value), shown);
      else assert.equal(check(value), isGood, shown);
      admitted += Number(check(value));
    }
    assert.ok(admitted > 0);
  });
}

for (const [name, { schema, example, optional = [] }] of Object.entries(specimens)) {
  test(`${name}: the documented object has the fields of the schema, and needs each`, () => {
    const check = documented(schema);
    assert.ok(check(example));
    assert.ok(check({ ...example, more: [1] }), 'unknown fields may be there');
    for (const field of Object.keys(example)) {
      const { [field]: _field, ...rest } = example;
      assert.equal(check(rest), optional.includes(field), `without ${field}`);
      assert.equal(check({ ...example, [field]: [] }), false, `with a wrong ${field}`);
    }
  });
}
