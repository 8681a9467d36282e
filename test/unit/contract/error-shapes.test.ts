import assert from 'node:assert/strict';
import test from 'node:test';
import {
  BAD_REQUEST_PAGE,
  ERROR_MESSAGES,
  errorEnvelope,
  notFoundBody,
  readBody,
  requiredFieldText,
  successEnvelope,
} from '../../../src/contract/error-shapes.js';
import fc from '../../support/properties.js';

/** Reads a body as an enveloped endpoint and as a bare one would. */
const readBoth = (body: unknown) => [readBody(body, true), readBody(body, false)] as const;

test('success is written in the envelope of the contract', () => {
  assert.deepEqual(successEnvelope(['row']), {
    code: 200,
    success: true,
    message: '',
    result: ['row'],
  });
});

test('an error is written with an empty array as its result', () => {
  assert.equal(
    JSON.stringify(errorEnvelope(400, ERROR_MESSAGES.invalidInput)),
    '{"code":400,"success":false,"message":"invalid input","result":[]}',
  );
  assert.deepEqual(errorEnvelope(400, { side: [requiredFieldText('side')] }), {
    code: 400,
    success: false,
    message: { side: ['The side is required.'] },
    result: [],
  });
});

test('the texts of the contract are written word for word', () => {
  assert.deepEqual(Object.values(ERROR_MESSAGES).sort(), [
    'authentication failure',
    'invalid input',
    'operation blocked',
  ]);
  for (const field of ['market', 'start', 'end', 'since']) {
    assert.equal(requiredFieldText(field), `The ${field} field is required.`);
  }
  assert.equal(requiredFieldText('side'), 'The side is required.');
});

test('the 404 has its own body, without envelope', () => {
  assert.deepEqual(notFoundBody('/api/v1/none', 1704070810123), {
    timestamp: 1704070810,
    status: 404,
    error: 'Not Found',
    message: '',
    path: '/api/v1/none',
  });
});

test('the page for broken requests is HTML and no JSON', () => {
  assert.match(BAD_REQUEST_PAGE, /^<!doctype html>.*<\/html>$/);
  assert.throws(() => JSON.parse(BAD_REQUEST_PAGE));
});

test('of a success the result is read from the envelope, or the body where none is due', () => {
  const envelope = successEnvelope([1, 2]);
  assert.deepEqual(readBody(envelope, true), { kind: 'success', payload: [1, 2] });
  const depth = { asks: [['1', '2']], bids: [] };
  for (const body of [[], [{ tid: 1 }], depth, { asks: [], bids: [] }, {}]) {
    assert.deepEqual(readBody(body, false), { kind: 'success', payload: body });
  }
});

test('a malformed depth is a payload to be refused by its shape, not texts about two fields', () => {
  const body = { asks: [], bids: ['61837.63'] };
  assert.deepEqual(readBody(body, false), { kind: 'success', payload: body });
});

for (const text of Object.values(ERROR_MESSAGES)) {
  test(`"${text}" is read as an error with its code and text`, () => {
    for (const reading of readBoth(errorEnvelope(400, text))) {
      assert.deepEqual(reading, { kind: 'error', code: 400, text });
    }
  });
}

test('texts per field are read as field errors, inside the envelope and without it', () => {
  const fields = { market: [requiredFieldText('market')], start: [requiredFieldText('start')] };
  for (const body of [errorEnvelope(400, fields), fields]) {
    for (const reading of readBoth(body))
      assert.deepEqual(reading, { kind: 'fieldErrors', fields });
  }
  for (const bare of [
    { market: ['Market is not available'] },
    { limit: ['The limit may not be greater than 1000.'] },
  ]) {
    for (const reading of readBoth(bare)) {
      assert.deepEqual(reading, { kind: 'fieldErrors', fields: bare });
    }
  }
});

test('an error sent under HTTP 200 is an error: success decides', () => {
  const body = { code: 500, success: false, message: 'service unavailable', result: [] };
  for (const reading of readBoth(body)) {
    assert.deepEqual(reading, { kind: 'error', code: 500, text: 'service unavailable' });
  }
});

test('success decides also where code and message are of no known type', () => {
  for (const code of ['400', null, {}, undefined]) {
    for (const reading of readBoth({ success: false, code, message: 'invalid input' })) {
      assert.deepEqual(reading, { kind: 'error', code: undefined, text: 'invalid input' });
    }
  }
  for (const message of [null, 7, [], undefined, { market: 'text' }]) {
    for (const reading of readBoth({ success: false, code: 400, message, result: [] })) {
      assert.deepEqual(reading, { kind: 'error', code: 400, text: '' });
    }
  }
});

test('an unknown path is read as not found, in the form of the contract and of the family', () => {
  const family = { status: 'error', message: 'Cannot GET /api/v1/none', result: null };
  for (const body of [notFoundBody('/api/v1/none', 1704070810123), family]) {
    for (const reading of readBoth(body)) assert.deepEqual(reading, { kind: 'notFound' });
  }
});

test('another complaint in the form of the family is an error without a code', () => {
  for (const reading of readBoth({ status: 'error', message: 'try later', result: null })) {
    assert.deepEqual(reading, { kind: 'error', code: undefined, text: 'try later' });
  }
});

test('a body without the envelope that is due is bare: what it is must show in its form', () => {
  for (const body of [[], {}, [1], { result: [] }, { success: 'true', result: [] }]) {
    assert.deepEqual(readBody(body, true), { kind: 'bare', payload: body });
  }
});

test('an envelope that is not due is taken off, where it holds a payload', () => {
  const depth = { asks: [], bids: [] };
  assert.deepEqual(readBody(successEnvelope(depth), false), { kind: 'success', payload: depth });
  assert.deepEqual(readBody(successEnvelope([]), false), { kind: 'success', payload: [] });
  const odd = { success: true, ...depth };
  assert.deepEqual(readBody(odd, false), { kind: 'success', payload: odd });
});

test('what is neither object nor array is never a payload', () => {
  for (const body of [null, undefined, 1, 'OK', true]) {
    for (const reading of readBoth(body)) assert.deepEqual(reading, { kind: 'unrecognised' });
  }
});

test('any body is read without an error', () => {
  const kinds = new Set(['success', 'error', 'fieldErrors', 'notFound', 'unrecognised', 'bare']);
  const envelopeLike = fc.record(
    {
      success: fc.oneof(fc.boolean(), fc.anything()),
      code: fc.anything(),
      message: fc.anything(),
      result: fc.anything(),
      status: fc.oneof(fc.constantFrom(404, 'error'), fc.anything()),
      error: fc.anything(),
      path: fc.anything(),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(
      fc.oneof(fc.anything({ withNullPrototype: true, withBigInt: true }), envelopeLike),
      (body) => {
        for (const reading of readBoth(body)) assert.ok(kinds.has(reading.kind));
      },
    ),
    { numRuns: 300 },
  );
});
