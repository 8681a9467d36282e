import assert from 'node:assert/strict';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { type DialectName, dialectNames } from '../../../src/contract/dialects.js';
import {
  KNOWN_EXCHANGES,
  type KnownExchange,
  knownExchanges,
  type ServerVariants,
} from '../../../src/contract/variants.js';
import { blocksOf, readDocument } from '../../support/documents/documents.js';
import { sendJson, startHttpStub } from '../../support/exchanges/stub-server.js';
import { startTapeExchange, temporaryFolder } from '../../support/exchanges/tape-exchange.js';
import { runCommand } from '../../support/programs/commands.js';
import { startSandbox } from '../../support/programs/program.js';

/** What the doctor says of an exchange before it is trusted. */

interface Finding {
  readonly what: string;
  readonly state: string;
  readonly found: string;
  readonly advice?: string;
}

async function examined(t: TestContext, url: string, more: Readonly<Record<string, string>> = {}) {
  const env = {
    TAPEKEEP_HTTP_PORT: '0',
    TAPEKEEP_DATA_DIR: join(await temporaryFolder(t), 'data'),
    TAPEKEEP_EXCHANGE_URL: url,
    TAPEKEEP_STREAMS_STATES_ENABLED: String(more.TAPEKEEP_REALTIME_URL !== undefined),
    ...more,
  };
  const { code, out, err } = await runCommand(['doctor', '--json'], env);
  assert.equal(err, '');
  const { findings } = JSON.parse(out) as { readonly findings: Finding[] };
  return { code, findings: findings.filter(({ what }) => what === 'exchange') };
}

const dialectOfKnown = (name: KnownExchange): DialectName => {
  const { dialect = 'contract' }: Partial<ServerVariants> = KNOWN_EXCHANGES[name];
  return dialect;
};

test('of each known exchange all endpoints can be read, and real time works', async (t) => {
  const lists = new Map<string, string>();
  for (const name of knownExchanges) {
    const { server } = await startTapeExchange(t, {}, KNOWN_EXCHANGES[name]);
    const { code, findings } = await examined(t, server.url, {
      TAPEKEEP_REALTIME_URL: server.realtimeUrl,
      TAPEKEEP_EXCHANGE_DIALECT: dialectOfKnown(name),
    });
    const told = findings.map(({ state, found }) => `${state}: ${found}`).join('\n');
    assert.equal(code, 0, `${name}: ${told}`);
    assert.ok(
      findings.every(({ state }) => state === 'ok'),
      `${name}: ${told}`,
    );
    assert.match(told, /\(realtime\.url\) takes subscriptions/, name);
    const [, list = ''] = /and can be read: (.*)/.exec(told) ?? [];
    assert.ok(told.includes(`it speaks the dialect ${dialectOfKnown(name)} `), told);
    lists.set(name, list);
  }
  const contract =
    'markets, products, tickers, ticker, kline, history, history-result, depth, book';
  assert.equal(lists.get('contract'), contract);
  const whitebit = 'markets, tickers, ticker, kline, history, depth';
  assert.equal(lists.get('whitebit'), `${whitebit}; not sent and stored as null: tickers.open`);
});

for (const dialect of dialectNames) {
  test(`an exchange that is asked as ${dialect} is named under every other dialect`, async (t) => {
    const { server } = await startTapeExchange(t, {}, KNOWN_EXCHANGES[dialect]);
    for (const other of dialectNames.filter((one) => one !== dialect)) {
      const { code, findings } = await examined(t, server.url, {
        TAPEKEEP_EXCHANGE_DIALECT: other,
      });
      assert.equal(code, 1, other);
      const told = findings.map(({ found, advice }) => `${found} ${advice ?? ''}`).join('\n');
      assert.match(told, new RegExp(`exchange\\.dialect.*${dialect}`), `${other}: ${told}`);
    }
    const [url, spoken] = [
      ['--url', server.url],
      ['--dialect', dialect],
    ];
    const span = ['--start', '-10m', '--end', 'now', '--interval', '60'];
    const asked = await runCommand([
      'api',
      'kline',
      'BTC_USDT',
      ...span,
      ...url,
      ...spoken,
      '--json',
    ]);
    assert.equal(asked.code, 0, asked.err);
    assert.match(asked.out, /"highest"/);
    const watched = ['api', 'watch', 'BTC_USDT', '--realtime-url', server.realtimeUrl, ...spoken];
    const seen = await runCommand([...watched, '--for', '1s', '--json']);
    assert.equal(seen.code, 0, seen.err);
    assert.match(seen.out, /"last"/, seen.out);
    if (dialect === 'contract') return;
    const hour = await runCommand([...watched, '--period', '3600']);
    assert.equal(hour.code, 2, hour.err);
    assert.match(hour.err, /^tapekeep: --period 3600: .*--period 86400/m);
  });
}

test('the page on adding an exchange shows what the doctor prints', async (t) => {
  const { program, ready } = await startSandbox(['--like', 'whitebit']);
  t.after(() => program.dispose());
  const [first, second] = await Promise.all(
    [{}, { TAPEKEEP_EXCHANGE_DIALECT: 'whitebit' }].map((more) =>
      examined(t, ready.url, { TAPEKEEP_REALTIME_URL: ready.realtimeUrl, ...more }),
    ),
  );
  const printed = [first, second].map((end) =>
    (end?.findings ?? []).map(({ found }) =>
      found.replaceAll(new URL(ready.url).host, '127.0.0.1:8080'),
    ),
  );
  const shown = blocksOf(readDocument('docs/adding-an-exchange.md').text, 'text');
  assert.equal(shown.length, 2);
  for (const [at, block] of shown.entries()) {
    const lines = block
      .trimEnd()
      .split('\n')
      .map((line) => line.slice(22));
    const others = lines.filter((line) => printed[at]?.includes(line) !== true);
    assert.deepEqual(others, [], printed[at]?.join('\n'));
  }
});

test('a market that is not available is left for the next one', async (t) => {
  const { backend, server } = await startTapeExchange(t);
  const hasMarket = backend.hasMarket.bind(backend);
  backend.hasMarket = (market) => market !== 'BTC_USDT' && hasMarket(market);
  const { code, findings } = await examined(t, server.url);
  assert.equal(code, 0);
  assert.match(findings[1]?.found ?? '', /can be read: .*ticker, kline, history/);
  backend.hasMarket = () => false;
  const none = await examined(t, server.url);
  assert.equal(none.code, 0, 'which may pass');
  const passing = none.findings.filter(({ state }) => state === 'warning');
  assert.match(passing[0]?.found ?? '', /^ticker cannot be read: no market is available/);
  assert.match(passing[0]?.advice ?? '', /run the doctor again/);
});

test('an endpoint that responds in no known form is named, with where to read on', async (t) => {
  const row = { stockPrec: 1, moneyPrec: 1, feePrec: 1, minAmount: '1' };
  const market = { name: 'A_B', stock: 'A', money: 'B', ...row };
  const http = await startHttpStub(t, (request, response) => {
    const isList = request.url === '/api/v1/public/markets';
    const isTicker = request.url?.startsWith('/api/v1/public/ticker?') === true;
    const result = isList ? [market] : isTicker ? { last: '\u001b[31m' } : { trades: 7 };
    sendJson(response, { success: true, message: '', result }, 200);
  });
  const { code, findings } = await examined(t, http.baseUrl);
  assert.equal(code, 1);
  const wrong = findings.filter(({ state }) => state === 'wrong');
  assert.match(wrong.map(({ found }) => found).join('\n'), /^history cannot be read: /m);
  assert.match(wrong[0]?.advice ?? '', /docs\/adding-an-exchange\.md/);
});
