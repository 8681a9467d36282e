import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { temporaryFolder } from '../support/exchanges/tape-exchange.js';
import { runCommand } from '../support/programs/commands.js';
import { Program } from '../support/programs/program.js';

/** A sandbox with a file of markets, steered from the command line as people do it. */

test('markets of a file, then changed by tapekeep sandbox ctl', async (t) => {
  const file = join(await temporaryFolder(t), 'markets.yaml');
  const described = '{name: XMR_EUR, moneyPrec: 3, basePrice: "150", activity: 0.3}';
  await writeFile(file, `markets: [LTC_USDT, ${described}]\n`);
  const args = ['--port', '0', '--json', '--run', '--key', 'alice:USDT=1', '--keep-all'];
  const sandbox = new Program(['sandbox', '--markets-file', file, ...args]);
  t.after(() => sandbox.dispose());
  const ready = JSON.parse(await sandbox.line((line) => line.includes('"ready":true'))) as {
    readonly url: string;
    readonly markets: string[];
    readonly identity: string;
  };
  assert.deepEqual(ready.markets, ['LTC_USDT', 'XMR_EUR']);
  assert.match(ready.identity, /^sandbox-live-[0-9a-f]{32}-[0-9a-f]{12}$/);
  const ctl = async (...rest: string[]) => {
    const env = { TAPEKEEP_CTL_URL: ready.url, TAPEKEEP_EXCHANGE_URL: 'http://127.0.0.1:1' };
    const { code, out, err } = await runCommand(['sandbox', 'ctl', ...rest], env);
    return { code, err, result: code === 0 ? (JSON.parse(out) as never) : undefined };
  };
  const made = await ctl('create', 'DOT_EUR', 'activity=0.5', 'minAmount=0.5', 'moneyPrec=3');
  assert.deepEqual(
    { ...(made.result as unknown as object) },
    { ...(made.result as unknown as object), name: 'DOT_EUR', moneyPrec: 3, minAmount: '0.5' },
  );
  await ctl('block', 'XMR_EUR');
  await ctl('delist', 'LTC_USDT');
  const markets = (await ctl('markets')).result as unknown as Array<Record<string, unknown>>;
  assert.deepEqual(
    markets.map(({ name, listed, blocked }) => [name, listed, blocked]),
    [
      ['XMR_EUR', true, true],
      ['DOT_EUR', true, false],
      ['LTC_USDT', false, false],
    ],
  );
  const { balances } = (await ctl('deposit', 'alice', 'EUR', '2.5')).result as unknown as {
    readonly balances: Record<string, object>;
  };
  assert.deepEqual(balances.EUR, { available: '2.5', freeze: '0' });
  const again = await ctl('create', 'DOT_EUR');
  assert.deepEqual([again.code, /DOT_EUR is listed already/.test(again.err)], [2, true]);
  const faults = await ctl('faults', '--rule', 'kind=html,where=ticker');
  assert.deepEqual((faults.result as unknown as { rules: object[] }).rules, [
    { kind: 'html', where: 'ticker' },
  ]);
  const truth = await runCommand(['sandbox', 'ctl', 'truth', 'XMR_EUR', '--url', ready.url]);
  const [line = ''] = truth.out.split('\n');
  assert.deepEqual(Object.keys(JSON.parse(line) as object), [
    ...['id', 'timeUs', 'price', 'amount', 'total', 'side'],
  ]);
});

test('what cannot be is told with its option, its value and what is allowed', async (t) => {
  const file = join(await temporaryFolder(t), 'markets.yaml');
  await writeFile(file, '[{name: XMR_EUR, moneyPrec: 13}]');
  for (const [args, text] of [
    [['--markets-file', 'nosuch.yaml'], /--markets-file.*nosuch\.yaml/],
    [['--markets-file', file], /--markets-file.*entry 1.*moneyPrec 13.*0 to 12/],
    [
      ['ctl', 'markets'],
      /^tapekeep: --url.* is missing; .*the sandbox's ready line.* TAPEKEEP_CTL_URL$/,
    ],
    [['ctl', 'markets', '--url', 'nowhere'], /--url.*nowhere.*8080/],
    [['ctl', 'block', '--url', 'http://127.0.0.1:2'], /market/],
    [['ctl', 'nothing'], /nothing/],
  ] as const) {
    const { code, err } = await runCommand(['sandbox', ...args]);
    assert.equal(code, 2, err);
    assert.match(err, text);
  }
});
