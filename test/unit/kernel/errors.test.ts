import assert from 'node:assert/strict';
import test from 'node:test';
import {
  AbortedError,
  codeOf,
  isAborted,
  messageOf,
  TapekeepError,
} from '../../../src/kernel/errors.js';
import fc from '../../support/properties.js';

class DiskFullError extends TapekeepError {
  constructor(cause: unknown) {
    super('disk_full', 'the disk is full: free some space', { cause });
  }
}

test('an error carries a stable code, an action, its cause and the name of its class', () => {
  const cause = new Error('ENOSPC');
  const error = new DiskFullError(cause);
  assert.ok(error instanceof TapekeepError && error instanceof Error);
  assert.equal(error.name, 'DiskFullError');
  assert.equal(error.code, 'disk_full');
  assert.equal(error.action, 'retry');
  assert.equal(error.cause, cause);
  assert.match(String(error), /^DiskFullError: the disk is full/);
});

test('work stopped on request is told from work that failed', () => {
  assert.equal(isAborted(new AbortedError()), true);
  assert.equal(isAborted(AbortSignal.abort().reason), true);
  assert.equal(isAborted(new DiskFullError(undefined)), false);
  assert.equal(isAborted(new DOMException('slow', 'TimeoutError')), false);
  assert.equal(isAborted('AbortError'), false);
  assert.equal(isAborted(undefined), false);
  assert.equal(new AbortedError().action, 'skip');
});

test('the code of a thrown value is its own, else the name of its class', () => {
  assert.equal(codeOf(new DiskFullError(undefined)), 'disk_full');
  assert.equal(codeOf(Object.assign(new Error('x'), { code: '57P01' })), '57P01');
  assert.equal(codeOf(Object.assign(new Error('x'), { code: 20 })), 'Error');
  assert.equal(codeOf(new RangeError('x')), 'RangeError');
  assert.equal(codeOf('text'), 'unknown');
});

test('every thrown value has a text and a code, even one that cannot be turned into text', () => {
  assert.equal(messageOf(new Error('words')), 'words');
  assert.equal(messageOf('text'), 'text');
  assert.equal(messageOf(undefined), 'undefined');
  assert.equal(messageOf(Symbol('s')), 'Symbol(s)');
  fc.assert(
    fc.property(fc.anything({ withNullPrototype: true, withBigInt: true }), (thrown) => {
      assert.equal(typeof messageOf(thrown), 'string');
      assert.equal(typeof codeOf(thrown), 'string');
    }),
  );
  assert.equal(typeof messageOf(Object.create(null)), 'string');
});
