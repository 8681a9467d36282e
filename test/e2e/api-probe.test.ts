import assert from 'node:assert/strict';
import test from 'node:test';
import { type DialectName, dialectNames } from '../../src/contract/dialects.js';
import { KNOWN_EXCHANGES } from '../../src/contract/variants.js';
import { startTapeExchange } from '../support/exchanges/tape-exchange.js';
import { runCommand } from '../support/programs/commands.js';

/** What is asked of an exchange before it is trusted. */

interface Probed {
  readonly fits: DialectName | null;
  readonly findings: ReadonlyArray<{
    readonly dialect: DialectName;
    readonly endpoint: string;
    readonly isGood: boolean;
    readonly detail: string;
  }>;
}

for (const dialect of dialectNames) {
  test(`an exchange that is asked as ${dialect}: that is found, and what it does not tell`, async (t) => {
    const { server, record } = await startTapeExchange(t, {}, KNOWN_EXCHANGES[dialect]);
    const { code, out, err } = await runCommand(['api', 'probe', '--url', server.url, '--json']);
    assert.equal(code, 0, out + err);
    const { fits, findings } = JSON.parse(out) as Probed;
    assert.equal(fits, dialect);
    const tickers = findings.find((one) => one.dialect === dialect && one.endpoint === 'tickers');
    assert.equal(tickers?.detail.includes('not told: open'), dialect !== 'contract');
    assert.ok(findings.some((one) => one.dialect !== dialect && !one.isGood));
    const { requests } = record;
    assert.ok(requests.length <= findings.length + dialectNames.length, 'each is asked once');

    const spoken = ['--dialect', dialect];
    const url = ['--url', server.url];
    const candles = [
      'api',
      'kline',
      'BTC_USDT',
      '--start',
      '-10m',
      '--end',
      'now',
      '--interval',
      '60',
    ];
    const asked = await runCommand([...candles, ...url, ...spoken, '--json']);
    assert.equal(asked.code, 0, asked.err);
    assert.match(asked.out, /"highest"/);
    const watched = ['api', 'watch', 'BTC_USDT', '--realtime-url', server.realtimeUrl];
    const seen = await runCommand([...watched, ...spoken, '--for', '1s', '--json']);
    assert.equal(seen.code, 0, seen.err);
    assert.match(seen.out, /"last"/, seen.out);
    if (dialect === 'contract') return;
    const hour = await runCommand([...watched, ...spoken, '--period', '3600']);
    assert.equal(hour.code, 2, hour.err);
    assert.match(hour.err, /^tapekeep: --period 3600: .*--period 86400/m);
  });
}

test('where nothing fits, that is said, and the end is that of an exchange that cannot be used', async (t) => {
  const { server } = await startTapeExchange(t, {}, KNOWN_EXCHANGES.p2b);
  const asked = ['api', 'probe', '--url', server.url, '--dialect', 'whitebit'];
  const { code, out } = await runCommand(asked);
  assert.equal(code, 4);
  assert.match(out, /^whitebit +markets +wrong_dialect: .*set the dialect .* to p2b/m);
  assert.match(out, /^No dialect fits/m);
});
