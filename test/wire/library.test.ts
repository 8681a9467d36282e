import assert from 'node:assert/strict';
import test from 'node:test';
import { ExchangeClient } from '../../src/index.js';
import { startTapeExchange } from '../support/exchanges/tape-exchange.js';

/** The library as its users see it: one class from the package's root, nothing else to set up. */

test('a client from the package root asks, follows and closes', async (t) => {
  const { server } = await startTapeExchange(t, {}, { rateLimit: false });
  const { url: baseUrl, realtimeUrl } = server;
  const exchange = new ExchangeClient({ baseUrl, realtimeUrl });
  t.after(() => exchange.close());
  const { data: markets } = await exchange.markets();
  assert.ok(markets.some(({ name }) => name === 'BTC_USDT'));
  const { data: trades } = await exchange.history({ market: 'BTC_USDT', limit: 2 });
  assert.equal(trades.length, 2);
  const { data: depth } = await exchange.depth({ market: 'BTC_USDT', limit: 1 });
  assert.equal(depth.bids.length, 1);
  const origins: string[] = [];
  for await (const event of exchange.watch('BTC_USDT', 60)) {
    if (event.kind !== 'record') continue;
    origins.push(event.origin);
    break;
  }
  assert.equal(origins.length, 1);
  await exchange.close();
  await assert.rejects(exchange.markets(), { code: 'aborted' });
  assert.throws(() => exchange.watch('BTC_USDT', 60), { code: 'aborted' });
  assert.throws(() => exchange.watchTrades(['BTC_USDT']), { code: 'aborted' });
});

test('what is missing is told when it is needed', async (t) => {
  const exchange = new ExchangeClient({ baseUrl: 'http://127.0.0.1:1' });
  t.after(() => exchange.close());
  assert.throws(() => exchange.watch('BTC_USDT', 60), { code: 'missing_realtime_url' });
  await assert.rejects(exchange.balances(), { code: 'missing_credentials' });
  assert.throws(() => new ExchangeClient({ baseUrl: 'ftp://example.com' }), {
    code: 'invalid_address',
  });
});

test('a key or secret that no request can carry is refused when the client is made', () => {
  const good = { apiKey: 'test-key', secret: 'test-secret' };
  const wrong = [
    // As a program passes on a variable that is not set.
    { ...good, apiKey: undefined as never },
    { ...good, secret: undefined as never },
    { ...good, secret: '' },
    // As a program reads it from a file.
    { ...good, apiKey: 'test-key\n' },
    { ...good, secret: 'test-secret\r\n' },
  ];
  for (const credentials of wrong) {
    const make = () => new ExchangeClient({ baseUrl: 'http://127.0.0.1:1', credentials });
    assert.throws(make, (error: Error & { code?: string }) => {
      assert.equal(error.code, 'bad_option');
      assert.match(error.message, /^credentials\.(apiKey|secret) (is not set|has other)/);
      assert.ok(!/test-(key|secret)/.test(error.message));
      return true;
    });
  }
});

test('settings and arguments of programs without types are refused by name', async (t) => {
  const baseUrl = 'http://127.0.0.1:1';
  const make = (settings: unknown) => () => new ExchangeClient(settings as never);
  const wrong: ReadonlyArray<readonly [unknown, string]> = [
    [undefined, 'nothing was given; expected an object with only baseUrl,'],
    [{ baseUrl, url: 'canary' }, 'url is not allowed; expected only baseUrl,'],
    [{ baseUrl, dialect: 'x' }, 'dialect "x" is not allowed; expected one of contract,'],
    [{ baseUrl, requestsPerS: 'fast' }, 'requestsPerS "fast" is not allowed'],
    [{ baseUrl, timeoutMs: '1 s' }, 'timeoutMs "1 s" is not allowed'],
    [{ baseUrl, nonces: { path: 'x' } }, 'nonces {"path":"x"} is not allowed'],
    [{ baseUrl, telemetry: 5 }, 'telemetry 5 is not allowed'],
  ];
  const refusal = (start: string) => (error: Error & { code?: string }) => {
    assert.deepEqual([error.code, error.message.slice(0, start.length)], ['bad_option', start]);
    assert.ok(!error.message.includes('canary'));
    return true;
  };
  for (const [settings, start] of wrong) assert.throws(make(settings), refusal(start));
  assert.throws(make({}), { code: 'invalid_address', message: /^baseUrl undefined/ });
  assert.throws(make({ baseUrl: 5 }), { code: 'invalid_address', message: /^baseUrl 5/ });

  const exchange = make({ baseUrl, realtimeUrl: 'ws://127.0.0.1:1', nonces: 'memory' })();
  t.after(() => exchange.close());
  assert.throws(
    () => exchange.watch({ market: 1 } as never, 60),
    refusal('market {"market":1} is'),
  );
  assert.throws(
    () => exchange.watch('BTC_USDT', undefined as never),
    refusal('periodS is missing'),
  );
  assert.throws(() => exchange.watchTrades('BTC_USDT' as never), refusal('markets "BTC_USDT" is'));
  await assert.rejects(exchange.call('trades' as never, {} as never), {
    code: 'invalid_parameter',
    message: /^trades: .*endpoints are markets, products/,
  });
});
