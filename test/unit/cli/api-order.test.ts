import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import test from 'node:test';
import {
  checkOrder,
  confirm,
  describeOrder,
  describeUnknown,
} from '../../../src/cli/commands/api.js';
import { TimeoutError, UnknownOutcomeError } from '../../../src/client/index.js';

const ORDER = { market: 'BTC_USDT', side: 'buy', price: '60000.10', amount: '0.3' } as const;

async function answer(text: string | undefined): Promise<{ isYes: boolean; shown: string }> {
  const [input, output] = [new PassThrough(), new PassThrough()];
  if (text === undefined) input.end();
  else input.write(text);
  const isYes = await confirm('Place it? ', input, output);
  return { isYes, shown: String(output.read() ?? '') };
}

test('only yes is consent; the end of the input is not', async () => {
  for (const text of ['y\n', 'yes\n', ' YES \n']) assert.equal((await answer(text)).isYes, true);
  for (const text of ['\n', 'n\n', 'no\n', 'yesterday\n', 'buy\n', undefined]) {
    assert.equal((await answer(text)).isYes, false, JSON.stringify(text));
  }
  assert.match((await answer('y\n')).shown, /^Place it\? /);
});

test('what is confirmed shows market, side, price, amount and the exact total', () => {
  const text = describeOrder(ORDER, 'https://api.example.test');
  for (const part of [/api\.example\.test/, /BTC_USDT/, /buy/, /60000\.10 USDT/, /0\.3 BTC/]) {
    assert.match(text, part);
  }
  assert.match(text, /total +18000\.03 USDT/);
});

test('an order that cannot be is refused before anybody is asked', () => {
  assert.deepEqual(checkOrder(ORDER), ORDER);
  const wrong = { ...ORDER, side: 'hold' as never };
  assert.throws(() => checkOrder(wrong), { code: 'usage', message: /--side/ });
  for (const price of ['0', '-1', '0.000']) {
    assert.throws(() => checkOrder({ ...ORDER, price }), { code: 'usage', message: /--price/ });
  }
  for (const amount of ['much', '', '1e999']) {
    assert.throws(() => checkOrder({ ...ORDER, amount }), { code: 'usage', message: /--amount/ });
  }
});

test('an unknown outcome is told with its cause, what to look at, and no invitation to repeat it', () => {
  const cause = new TimeoutError({ endpoint: 'orderNew' }, 100);
  const told = describeUnknown(new UnknownOutcomeError(ORDER, cause));
  assert.equal(told.code, 'order_outcome_unknown');
  assert.equal(told.action, 'fatal');
  for (const part of [/UNKNOWN/, /within 100 ms/, /api orders BTC_USDT/, /api balances/]) {
    assert.match(told.message, part);
  }
  assert.doesNotMatch(told.message, /try again|may pass/);
});
