import assert from 'node:assert/strict';
import test from 'node:test';
import {
  AUTH_HEADERS,
  encodePayload,
  isSignedBy,
  type SignedContent,
  sign,
} from '../../../src/contract/signing.js';
import fc from '../../support/properties.js';

/** A vector of the family's documentation, checked against its working clients. */
const vector = {
  secret: 'test-secret',
  body: '{"request":"/api/v1/account/balances","nonce":1704070810000}',
  payload: 'eyJyZXF1ZXN0IjoiL2FwaS92MS9hY2NvdW50L2JhbGFuY2VzIiwibm9uY2UiOjE3MDQwNzA4MTAwMDB9',
  signature:
    '19aaecd5067e5849855421740ceb3be92cc4c9d4c57480d9bf90e3b5bd88f39c' +
    '2799e8cb036bb6a6ca72adca3893749e239c07132beb330ab238f9342763677b',
};

const { secret, payload, signature } = vector;
const body = Buffer.from(vector.body);

test('the three headers are those of the contract', () => {
  assert.deepEqual(Object.values(AUTH_HEADERS).sort(), [
    'x-txc-apikey',
    'x-txc-payload',
    'x-txc-signature',
  ]);
});

test('the payload is base64 of the body, and the signature goes over that text, in hex', () => {
  assert.equal(encodePayload(vector.body), payload);
  assert.equal(sign(secret, vector.body), signature);
  assert.equal(sign(secret, body), signature);
  assert.equal(isSignedBy(secret, body, payload, signature), true);
});

test('the variant of the contract signs the body itself', () => {
  const overBody = sign(secret, vector.body, 'body');
  assert.match(overBody, /^4152a7f9[0-9a-f]{120}$/);
  assert.equal(isSignedBy(secret, body, payload, overBody, 'body'), true);
  assert.equal(isSignedBy(secret, body, payload, overBody, 'payload'), false);
  assert.equal(isSignedBy(secret, body, payload, signature, 'body'), false);
});

test('a signature in capitals is the same signature', () => {
  assert.equal(isSignedBy(secret, body, payload, signature.toUpperCase()), true);
});

test('the payload must stand for exactly the bytes that were received', () => {
  const spaced = Buffer.from(vector.body.replace(':', ': '));
  assert.deepEqual(JSON.parse(spaced.toString()), JSON.parse(vector.body));
  assert.equal(isSignedBy(secret, spaced, payload, signature), false);
  for (const other of ['', `${payload}=`, ` ${payload}`, payload.toLowerCase(), 'bm90IGl0']) {
    assert.equal(isSignedBy(secret, body, other, signature), false);
  }
});

test('a foreign payload does not pass, even when it is signed properly', () => {
  const foreign = '{"request":"/api/v1/order/new","nonce":1704070810001}';
  const given = sign(secret, foreign);
  assert.equal(isSignedBy(secret, body, encodePayload(foreign), given), false);
  assert.equal(isSignedBy(secret, Buffer.from(foreign), encodePayload(foreign), given), true);
});

test('a signature of the wrong length or kind is refused without an error', () => {
  const wrong = ['', 'a', signature.slice(1), `${signature}0`, `${signature}${signature}`];
  wrong.push('é'.repeat(64), '0'.repeat(128), 'z'.repeat(128), 'İ'.repeat(128), '0'.repeat(10_240));
  for (const given of wrong) assert.equal(isSignedBy(secret, body, payload, given), false);
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (given) => {
      assert.equal(isSignedBy(secret, body, payload, given), false);
    }),
  );
});

test('one changed bit anywhere is noticed: in body, payload, signature or secret', () => {
  const contents = fc.constantFrom<SignedContent>('payload', 'body');
  const texts = fc.string({ unit: 'binary', minLength: 1 });
  fc.assert(
    fc.property(texts, texts, contents, fc.nat(), (key, text, content, at) => {
      const bytes = Buffer.from(text);
      const header = encodePayload(bytes);
      const given = sign(key, bytes, content);
      assert.equal(isSignedBy(key, bytes, header, given, content), true);

      const tampered = Buffer.from(bytes);
      const index = at % tampered.length;
      tampered[index] = (tampered[index] ?? 0) ^ (1 << (at % 8));
      assert.equal(isSignedBy(key, tampered, header, given, content), false);
      assert.equal(isSignedBy(key, tampered, encodePayload(tampered), given, content), false);

      const digit = given[at % 128] === '0' ? '1' : '0';
      const forged = `${given.slice(0, at % 128)}${digit}${given.slice((at % 128) + 1)}`;
      assert.equal(isSignedBy(key, bytes, header, forged, content), false);
      assert.equal(isSignedBy(`${key}x`, bytes, header, given, content), false);
    }),
  );
});
