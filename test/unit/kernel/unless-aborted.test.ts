import assert from 'node:assert/strict';
import test from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { unlessAborted } from '../../../src/kernel/clock.js';
import { AbortedError } from '../../../src/kernel/errors.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

test('brings what the work brings, or its failure', async () => {
  const { signal } = new AbortController();
  assert.equal(await unlessAborted(signal, Promise.resolve(7)), 7);
  await assert.rejects(unlessAborted(signal, Promise.reject(new Error('no'))), /no/);
});

test('ends with the reason of the signal, and lets go of what comes too late', async () => {
  const stopping = new AbortController();
  let finish: (value: string) => void = () => undefined;
  const work = new Promise<string>((resolve) => {
    finish = resolve;
  });
  const discarded = new Promise<string>((resolve) => {
    const discard = (late: string) => Promise.resolve(resolve(late));
    const ended = unlessAborted(stopping.signal, work, discard);
    stopping.abort(new AbortedError('enough'));
    assert.rejects(ended, /enough/).then(() => finish('late'), assert.fail);
  });
  assert.equal(await discarded, 'late');
  await assert.rejects(unlessAborted(stopping.signal, new Promise(() => undefined)), /enough/);
});

test('a signal that lives on keeps no result alive', async () => {
  const { signal } = new AbortController();
  const results: WeakRef<object>[] = [];
  for (let index = 0; index < 100; index += 1) {
    const result = await unlessAborted(signal, Promise.resolve({ index }));
    results.push(new WeakRef(result));
  }
  // What is looked at in a turn of the event loop lives until its end.
  await new Promise((resolve) => setImmediate(resolve));
  collectGarbage();
  const kept = results.filter((one) => one.deref() !== undefined).length;
  assert.ok(kept <= 1, `${kept} of 100 results are still held`);
  assert.equal(signal.aborted, false);
});
