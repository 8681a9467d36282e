import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  type RunningExchange,
  startBuiltInExchange,
} from '../../src/cli/sandbox/built-in-exchange.js';
import { DEFAULTS } from '../../src/config/keys.js';
import type { Config } from '../../src/config/schema.js';
import { ServerRecord } from '../support/exchanges/served.js';
import { temporaryFolder } from '../support/exchanges/tape-exchange.js';
import { FakeClock } from '../support/fake-clock.js';

/** The exchange that a newcomer collects from, over restarts. */

const NOW_MS = Date.UTC(2026, 5, 1, 11, 50);

function config(dataDir: string, sandbox: Partial<Config['sandbox']> = {}): Config {
  return { ...DEFAULTS, dataDir, sandbox: { ...DEFAULTS.sandbox, ...sandbox } };
}

async function get(exchange: RunningExchange, path: string): Promise<string> {
  return (await fetch(`${exchange.server.url}/api/v1/public/${path}`)).text();
}

const HISTORY = 'history?market=BTC_USDT&limit=1000&lastId=';

test('a restart finds the same exchange, with all that happened meanwhile', async (t) => {
  const dataDir = await temporaryFolder(t);
  const settings = config(dataDir);
  const clock = new FakeClock(NOW_MS);
  const first = await startBuiltInExchange(settings, clock, new ServerRecord());
  t.after(() => first.stop());
  assert.deepEqual(first.markets, ['BTC_USDT', 'ETH_USDT', 'ETH_BTC', 'LTC_USDT']);
  // Past the full hour, where a session ends, while both exist.
  clock.advance(1_800_000);
  const again = await startBuiltInExchange(
    settings,
    new FakeClock(NOW_MS + 1_800_000),
    new ServerRecord(),
  );
  t.after(() => again.stop());
  assert.equal(again.identity, first.identity);
  assert.match(first.identity, /^sandbox-live-/);
  for (const path of [
    ...[0, 1000, 2000].map((skip) => `${HISTORY}${skip}`),
    ...['BTC_USDT', 'LTC_USDT'].map((market) => `depth/result?market=${market}&limit=1000`),
    'tickers',
    `kline?market=ETH_USDT&start=${NOW_MS / 1000 - 900}&end=${NOW_MS / 1000 + 1800}&interval=60`,
  ]) {
    const text = await get(first, path);
    assert.ok(text.length > 100, path);
    assert.equal(await get(again, path), text, path);
  }
  const origins = JSON.parse(await readFile(join(dataDir, 'sandbox.json'), 'utf8')) as object;
  assert.deepEqual(origins, { origins: { 7: NOW_MS - 900_000 } });
});

test('nobody has a key to it', async (t) => {
  const settings = config(await temporaryFolder(t));
  const exchange = await startBuiltInExchange(settings, new FakeClock(NOW_MS), new ServerRecord());
  t.after(() => exchange.stop());
  const reply = await fetch(`${exchange.server.url}/api/v1/account/balances`, { method: 'POST' });
  assert.equal(reply.status, 400);
  assert.match(await reply.text(), /authentication failure/);
});

test('truth and faults are served where the settings say so', async (t) => {
  const start = async (sandbox: Partial<Config['sandbox']>) => {
    const settings = config(await temporaryFolder(t), { markets: ['BTC_USDT'], ...sandbox });
    const exchange = await startBuiltInExchange(
      settings,
      new FakeClock(NOW_MS),
      new ServerRecord(),
    );
    t.after(() => exchange.stop());
    return exchange;
  };
  const plain = await start({});
  const { headers } = await fetch(`${plain.server.url}/api/v1/public/markets`);
  assert.equal(headers.get('x-ratelimit-limit'), null);
  const controlled = await start({ control: true });
  for (const path of ['faults', 'truth?market=BTC_USDT']) {
    assert.equal((await fetch(`${controlled.server.url}/sandbox/${path}`)).status, 200);
    assert.equal((await fetch(`${plain.server.url}/sandbox/${path}`)).status, 404);
  }
  assert.equal(controlled.identity, plain.identity, 'they show the same trades');
});

test('a clock that was set back finds the beginning; a damaged memory is named', async (t) => {
  const dataDir = await temporaryFolder(t);
  const settings = config(dataDir);
  const first = await startBuiltInExchange(settings, new FakeClock(NOW_MS), new ServerRecord());
  await first.stop();
  const clock = new FakeClock(NOW_MS - 86_400_000);
  const early = await startBuiltInExchange(settings, clock, new ServerRecord());
  t.after(() => early.stop());
  assert.equal(JSON.parse(await get(early, `${HISTORY}0`)).result.length, 0);
  await writeFile(join(dataDir, 'sandbox.json'), '{"origins":{"7":"x"}}');
  await assert.rejects(startBuiltInExchange(settings, clock, new ServerRecord()), /sandbox\.json/);
});

test('it can depart as a known exchange does', async (t) => {
  const departures = async (like: Config['sandbox']['like']) => {
    const settings = config(await temporaryFolder(t), { like });
    const exchange = await startBuiltInExchange(
      settings,
      new FakeClock(NOW_MS),
      new ServerRecord(),
    );
    t.after(() => exchange.stop());
    const zero = JSON.parse(await get(exchange, `${HISTORY}0`)) as { success: boolean };
    const one = await get(exchange, `${HISTORY}1`);
    const unknown = await get(exchange, 'depth/result?market=NO_SUCH');
    return [zero.success, one.includes('"total"'), unknown.includes('"code":500')];
  };
  assert.deepEqual(await departures('contract'), [true, true, false]);
  assert.deepEqual(await departures('coinsbit'), [false, false, true]);
});
