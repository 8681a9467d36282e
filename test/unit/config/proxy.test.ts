import assert from 'node:assert/strict';
import test from 'node:test';
import { proxyFor } from '../../../src/config/proxy.js';

const ADDRESS = 'https://api.example.com/spot';
const settingFor = (address: string, env: NodeJS.ProcessEnv) => proxyFor(address, env)?.setting;

test('the scheme of an address chooses the variable that names its proxy', () => {
  const env = { HTTP_PROXY: 'plain:1', HTTPS_PROXY: 'secure:2', ALL_PROXY: 'any:3' };
  assert.deepEqual(proxyFor('http://a.example', env), {
    url: 'http://plain:1',
    setting: 'HTTP_PROXY',
  });
  assert.equal(settingFor('ws://a.example', env), 'HTTP_PROXY');
  assert.equal(settingFor('https://a.example', env), 'HTTPS_PROXY');
  assert.equal(settingFor('wss://a.example', env), 'HTTPS_PROXY');
  assert.equal(settingFor('wss://a.example', { ...env, HTTPS_PROXY: '' }), 'ALL_PROXY');
  assert.equal(settingFor('wss://a.example', { HTTP_PROXY: 'plain:1' }), undefined);
});

test('a lower-case variable goes first, an empty one counts as not set', () => {
  const env = { HTTPS_PROXY: 'http://upper:1', https_proxy: 'http://lower:2' };
  assert.equal(settingFor(ADDRESS, env), 'https_proxy');
  assert.equal(settingFor(ADDRESS, { ...env, https_proxy: ' ' }), 'HTTPS_PROXY');
  const excepting = { ...env, NO_PROXY: '*' };
  assert.equal(settingFor(ADDRESS, excepting), undefined);
  assert.equal(settingFor(ADDRESS, { ...excepting, no_proxy: 'other.example' }), 'https_proxy');
});

test('loopback addresses never go through a proxy', () => {
  const env = { ALL_PROXY: 'http://any:3' };
  for (const host of ['localhost', 'localhost.', '127.0.0.1', '127.8.8.8', '[::1]']) {
    assert.equal(settingFor(`http://${host}:8080`, env), undefined, host);
    assert.equal(settingFor(`ws://${host}:8080/ws`, env), undefined, host);
  }
  assert.equal(settingFor('http://localhost.example', env), 'ALL_PROXY');
  assert.equal(settingFor('http://10.0.0.1', env), 'ALL_PROXY');
});

const EXCEPTED: ReadonlyArray<readonly [list: string, address: string, isDirect: boolean]> = [
  ['*', ADDRESS, true],
  ['api.example.com', ADDRESS, true],
  ['API.Example.Com', ADDRESS, true],
  ['example.com', ADDRESS, true],
  ['.example.com', ADDRESS, true],
  ['*.example.com', ADDRESS, true],
  ['example.com.', 'https://api.example.com.', true],
  ['a.example, api.example.com ,b.example', ADDRESS, true],
  ['a.example api.example.com', ADDRESS, true],
  ['ample.com', ADDRESS, false],
  ['api.example.co', ADDRESS, false],
  ['other.example', ADDRESS, false],
  [',, .', ADDRESS, false],
  ['api.example.com:443', ADDRESS, true],
  ['api.example.com:443', 'wss://api.example.com', true],
  ['api.example.com:80', ADDRESS, false],
  ['api.example.com:8443', 'https://api.example.com:8443', true],
  ['example.com:80', 'http://api.example.com', true],
  ['10.1.2.3', 'http://10.1.2.3:8080', true],
  ['10.1.2.3:8080', 'http://10.1.2.3:8080', true],
  ['10.1.2.3:80', 'http://10.1.2.3:8080', false],
  ['10.1.0.0/16', 'http://10.1.2.3', true],
  ['10.2.0.0/16', 'http://10.1.2.3', false],
  ['10.1.0.0/99,10.1.0.0/x', 'http://10.1.2.3', false],
  ['2.3', 'http://10.1.2.3', false],
  ['2001:db8::1', 'https://[2001:DB8::1]', true],
  ['[2001:db8::1]', 'https://[2001:db8::1]', true],
  ['[2001:db8::1]:443', 'https://[2001:db8::1]', true],
  ['[2001:db8::1]:444', 'https://[2001:db8::1]', false],
  ['2001:db8::/32', 'https://[2001:db8:1::5]', true],
  ['2001:db9::/32', 'https://[2001:db8:1::5]', false],
];

for (const [list, address, isDirect] of EXCEPTED) {
  const how = isDirect ? 'directly' : 'through the proxy';
  test(`NO_PROXY "${list}" reaches ${address} ${how}`, () => {
    const env = { ALL_PROXY: 'http://any:3', NO_PROXY: list };
    assert.equal(settingFor(address, env), isDirect ? undefined : 'ALL_PROXY');
  });
}
