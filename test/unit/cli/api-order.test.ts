import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import test from 'node:test';
import { checkOrder, confirm, describeOrder, mayExist } from '../../../src/cli/api/order.js';
import {
  AuthenticationError,
  InvalidInputError,
  MalformedReplyError,
  NetworkError,
  RateLimitedError,
  RedirectError,
  ServerError,
  TimeoutError,
  UnavailableError,
  UnexpectedPageError,
} from '../../../src/client/index.js';
import { AbortedError } from '../../../src/kernel/errors.js';

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

test('an order that can not be is refused before anybody is asked', () => {
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

test('an order may exist unless the exchange refused it, or it never left', () => {
  const at = (status?: number) =>
    status === undefined ? { endpoint: 'orderNew' } : { endpoint: 'orderNew', status };
  const failure = (code: string) => Object.assign(new Error(code), { code });
  const network = (code: string) => new NetworkError(at(), 'broken', { cause: failure(code) });
  const unknown = [
    new TimeoutError(at(), 100),
    new TimeoutError(at(200), 100),
    network('ECONNRESET'),
    network('UND_ERR_SOCKET'),
    new NetworkError(at(), 'broken'),
    new ServerError(at(500)),
    new ServerError(at(408)),
    new ServerError(at(504)),
    new UnavailableError(at(200)),
    new MalformedReplyError(at(200), 'cut off'),
    new UnexpectedPageError(at(200), 'text/html'),
    new UnexpectedPageError(at(502), 'text/html'),
    new AbortedError(),
  ];
  for (const error of unknown) assert.equal(mayExist(error), true, error.message);
  const known = [
    new InvalidInputError(at(400)),
    new InvalidInputError(at(200)),
    new AuthenticationError(at(400)),
    new RateLimitedError(at(429), undefined),
    new RedirectError(at(302), '/elsewhere'),
    new UnexpectedPageError(at(403), 'text/html'),
    network('ECONNREFUSED'),
    network('ENOTFOUND'),
    new NetworkError(at(), 'broken', {
      cause: new AggregateError([failure('ECONNREFUSED'), failure('ECONNREFUSED')]),
    }),
    new Error('of ours, before anything was sent'),
  ];
  for (const error of known) assert.equal(mayExist(error), false, error.message);
});
