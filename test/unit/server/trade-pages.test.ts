import assert from 'node:assert/strict';
import test from 'node:test';
import type { Backend } from '../../../src/server/backend.js';
import { TradePages } from '../../../src/server/trade-pages.js';

/** Pages over a backend of which only the version matters. */
function pagesOf(version: () => string | undefined) {
  const backend = { tradesVersion: version } as unknown as Backend;
  const pages = new TradePages(backend);
  let written = 0;
  const ask = (question: string, length = 1) =>
    pages.text('BTC_USDT', question, () => {
      written += 1;
      return Promise.resolve(String(written).padEnd(length));
    });
  return { ask, written: () => written };
}

test('a page is written once for each question until the trades change', async () => {
  let version = 'a';
  const { ask, written } = pagesOf(() => version);
  const first = await ask('q');
  assert.equal(await ask('q'), first);
  assert.notEqual(await ask('other'), first);
  version = 'b';
  assert.notEqual(await ask('q'), first);
  version = 'a';
  assert.notEqual(await ask('q'), first, 'an old page is not kept beside the new one');
  assert.equal(written(), 4);
});

test('nothing is kept for a backend that can not tell, or whose trades moved meanwhile', async () => {
  const silent = pagesOf(() => undefined);
  await silent.ask('q');
  await silent.ask('q');
  assert.equal(silent.written(), 2);
  let calls = 0;
  const moving = pagesOf(() => {
    calls += 1;
    return String(calls);
  });
  await moving.ask('q');
  await moving.ask('q');
  assert.equal(moving.written(), 2);
});

test('what was not asked for longest gives way', async () => {
  const { ask, written } = pagesOf(() => 'a');
  const size = 3 * 1024 * 1024;
  await ask('one', size);
  await ask('two', size);
  await ask('one', size);
  await ask('three', size);
  assert.equal(written(), 3);
  await ask('one', size);
  assert.equal(written(), 3, 'asked for lately');
  await ask('two', size);
  assert.equal(written(), 4, 'gave way');
});
