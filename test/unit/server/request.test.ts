import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pathOf, readQuery } from '../../../src/server/http/request.js';
import fc from '../../support/properties.js';

function values(target: string): Record<string, string> | string {
  const reading = readQuery(target);
  return reading.kind === 'read' ? { ...reading.values } : reading.kind;
}

test('names and values are decoded; a missing value is an empty one', () => {
  assert.deepEqual(values('/p?market=A%5FB&x=1+2&flag&=y&&z=a=b'), {
    market: 'A_B',
    x: '1 2',
    flag: '',
    '': 'y',
    z: 'a=b',
  });
  assert.deepEqual(values('/p'), {});
  assert.equal(pathOf('/p?x=1'), '/p');
  assert.equal(pathOf('/p'), '/p');
});

test('what cannot be decoded, and what is said twice, is told apart', () => {
  assert.equal(values('/p?a=%zz'), 'undecodable');
  assert.equal(values('/p?%ff=1'), 'undecodable');
  assert.equal(values('/p?a=1&a=1'), 'ambiguous');
  assert.equal(values('/p?a=1&%61=2'), 'ambiguous');
  assert.equal(
    values(`/p?${Array.from({ length: 65 }, (_, at) => `k${at}=1`).join('&')}`),
    'ambiguous',
  );
  assert.deepEqual(Object.keys(values('/p?__proto__=1&constructor=2')), [
    '__proto__',
    'constructor',
  ]);
});

test('any parameters that a client encodes are read back', () => {
  const names = fc.string({ unit: 'binary', maxLength: 12 });
  fc.assert(
    fc.property(fc.dictionary(names, names, { maxKeys: 20 }), (params) => {
      const search = new URLSearchParams(Object.entries(params)).toString();
      assert.deepEqual(values(`/p?${search}`), Object.fromEntries(new URLSearchParams(search)));
    }),
  );
});
