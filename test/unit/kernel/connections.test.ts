import assert from 'node:assert/strict';
import test from 'node:test';
import { isFromOtherSite, isLocalHost } from '../../../src/kernel/connections.js';

test('an address, localhost and a name without a dot are local, names of the network are not', () => {
  const local = ['127.0.0.1', '127.0.0.1:80', '[::1]', '[fe80::1]:8080', 'localhost', 'LocalHost.'];
  for (const host of [...local, 'nas:5000', 'a.localhost'])
    assert.equal(isLocalHost(host), true, host);
  const others = ['example.com', 'example.com:80', '127.0.0.1.example.com', '[x]', ''];
  for (const host of others) assert.equal(isLocalHost(host), false, host);
});

test('a browser says which requests a page of another site has made', () => {
  const from = (site?: string) =>
    isFromOtherSite(site === undefined ? {} : { 'sec-fetch-site': site });
  assert.deepEqual([from(), from('same-origin'), from('none')], [false, false, false]);
  assert.deepEqual([from('cross-site'), from('same-site')], [true, true]);
});
