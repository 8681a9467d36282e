import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { z } from 'zod';
import { endpointNames, endpoints } from '../../src/contract/endpoints.js';
import { readBody, successEnvelope } from '../../src/contract/error-shapes.js';
import { quickParser } from '../../src/contract/exact-form.js';
import { readServerFrame, realtimeRequest } from '../../src/contract/realtime.js';
import * as resources from '../../src/contract/resources.js';
import * as values from '../../src/contract/values.js';
import { mutateValue, ODD_VALUES, startFuzzing } from '../support/fuzz/fuzz.js';
import fc from '../support/properties.js';
import { specimens } from '../unit/contract/specimens.js';

const level: [string, string] = ['61837.63', '0.5'];
const { 'trade of history': trade, 'order of the book': order } = specimens;
const { 'ticker of an entry': ticker, 'state record': state, candle } = specimens;
const depth = { asks: [level, level], bids: [level] };
const book = { offset: 0, limit: 50, total: 2 };
const kline = { market: 'BTC_USDT', start: 0, end: 60, interval: 60 };
/** Whole payloads that are right, to be spoilt. */
const payloads: readonly unknown[] = [
  ...Object.values(specimens).flatMap(({ example }) => [example, [example, example]]),
  ...[depth, { BTC_USDT: { at: 1, ticker: ticker?.example } }],
  ...[
    { ...book, orders: [order?.example] },
    { ...kline, kline: [candle?.example] },
  ],
  successEnvelope([trade?.example]),
  { id: null, result: state?.example, error: null },
  { method: 'state.update', params: ['BTC_USDT', state?.example], id: null },
  { id: 1, params: [], result: { status: 'success' }, error: null },
  { code: 400, success: false, message: { market: ['no'] }, result: [] },
];

/** Anything at all, or something almost right. */
function* cases(t: TestContext, count: number): Iterable<unknown> {
  const fuzzing = startFuzzing(t, count);
  const { random } = fuzzing;
  const half = Math.ceil(fuzzing.count / 2);
  const anything = fc.anything({ withNullPrototype: true, withSparseArray: true, withDate: true });
  yield* fc.sample(anything, half);
  for (let index = 0; index < half; index += 1) {
    let value = payloads[index % payloads.length];
    for (let times = 0; times <= random() * 3; times += 1) value = mutateValue(random, value);
    yield value;
  }
}

/** What a parser gave, in a form that can be compared. */
function outcomeOf(parsed: z.ZodSafeParseResult<unknown>): unknown {
  return parsed.success ? { data: parsed.data } : { issues: parsed.error.issues };
}

/** Every schema of the contract that has, or could have, a short cut. */
const schemas = Object.entries<unknown>({ ...values, ...resources }).filter(
  (entry): entry is [string, z.ZodType] => entry[1] instanceof z.ZodType,
);

test('the short cut past zod gives what zod gives, for every schema and any value', (t) => {
  const parsers = schemas.map(([name, schema]) => {
    return { name, schema, quick: quickParser(schema) };
  });
  const check = (value: unknown) => {
    for (const { name, schema, quick } of parsers) {
      assert.deepEqual(outcomeOf(quick(value)), outcomeOf(schema.safeParse(value)), name);
    }
  };
  for (const value of ODD_VALUES) check(value);
  for (const payload of payloads) check(payload);
  for (const value of cases(t, 1000)) check(value);
});

test('every field of every schema takes each odd value as zod does', () => {
  for (const { example, schema } of Object.values(specimens)) {
    const quick = quickParser(schema);
    for (const name of Object.keys(example)) {
      for (const odd of [...ODD_VALUES, undefined, Number.NaN, Number.POSITIVE_INFINITY]) {
        const value = { ...example, [name]: odd };
        assert.deepEqual(outcomeOf(quick(value)), outcomeOf(schema.safeParse(value)), name);
      }
    }
  }
});

test('a schema that is narrowed loses the short cut, one that is described keeps it', () => {
  const narrowed = values.idNumber.refine((id) => id < 10);
  assert.equal(quickParser(narrowed)(11).success, false);
  assert.equal(quickParser(z.array(values.nameText).max(1))(['a', 'b']).success, false);
  const row = { id: 5, more: 1 };
  const described = z.object({ id: values.idNumber.describe('an id') });
  assert.deepEqual(quickParser(described)(row), { success: true, data: { id: 5 } });
  const bare = { id: 5 };
  assert.equal(quickParser(described)(bare).data, bare, 'nothing to change, nothing copied');
});

test('frames and bodies of any kind are read without an error', (t) => {
  for (const value of cases(t, 4000)) {
    readServerFrame(value);
    realtimeRequest.safeParse(value);
    for (const isEnveloped of [true, false]) readBody(value, isEnveloped);
  }
});

test('results of any kind are read, or refused with the one documented error', (t) => {
  for (const value of cases(t, 1500)) {
    for (const name of endpointNames) {
      const { result, params } = endpoints[name];
      params.safeParse(value);
      let data: unknown;
      try {
        ({ data } = result.parse(value));
      } catch (error) {
        if (!(error instanceof z.ZodError)) throw error;
        continue;
      }
      assert.deepEqual(result.parse(data).data, data, `${name}: read again it is another value`);
    }
  }
});
