import assert from 'node:assert/strict';
import { test } from 'node:test';
import { caseLines } from '../../conformance/report.js';
import {
  idsWith,
  judge,
  startJudged,
  startJudgedLive,
} from '../../support/conformance/conformance.js';
import { startLiar } from '../../support/conformance/conformance-liar.js';

const NO_LIE = { where: /^$/, bend: () => {} };
const MARKET = 'BTC_USDT';

test('a blocked pair is told as such, and no order is looked at there', async (t) => {
  const { url } = await startJudgedLive(t, {}, (backend) =>
    backend.marketControl.block(MARKET, true),
  );
  const result = await judge(url, { only: 'orderNew.', market: MARKET });
  assert.deepEqual(idsWith('fail', result), []);
  assert.ok(idsWith('pass', result).includes('orderNew.blocked'));
  assert.ok(idsWith('skipped', result).includes('orderNew.signed'));
  const open = await judge(url, { only: 'orderNew.', market: 'ETH_USDT' });
  assert.deepEqual([...idsWith('fail', open), ...idsWith('skipped', open)], []);
  const again = await judge(url, { only: 'orderNew.', market: 'ETH_USDT' });
  assert.ok(idsWith('pass', again).includes('orderNew.signed'), 'it was unblocked again');
});

test('where the body itself is signed, everything is signed so', async (t) => {
  const { server } = await startJudged(t, { signedContent: 'body' });
  const result = await judge(server.url, { signedContent: 'body', only: 'signed' });
  assert.deepEqual(idsWith('fail', result), []);
  const astray = await judge(server.url, { only: 'orders.signed' });
  assert.deepEqual(idsWith('fail', astray), ['orders.signed', 'orders.signed.nothing']);
});

test('one order is placed in a run, and it rests', async (t) => {
  let placed: () => number = () => 0;
  const { url } = await startJudgedLive(t, {}, (backend) => {
    placed = () => backend.activeOrders('key-1', MARKET, 0, 100).total;
  });
  const result = await judge(url, { market: MARKET });
  assert.deepEqual(idsWith('fail', result), []);
  assert.equal(placed(), 1);
});

test('an account without funds places nothing, and that is no failure', async (t) => {
  const keys = [{ key: 'key-1', secret: 'secret-1', balances: { USDT: '0.01' } }];
  const { url } = await startJudgedLive(t, { keys });
  const result = await judge(url, { only: 'orderNew.', market: MARKET });
  const shown = result.cases.flatMap(caseLines).join('\n');
  assert.deepEqual(idsWith('fail', result), [], shown);
  assert.match(shown, /skipped {2}orderNew\.signed .*\n +the account has less than [\d.]+ USDT/);
});

test('no other exchange than a sandbox is asked for an order, unless that is allowed', async (t) => {
  const { server, record } = await startJudged(t);
  const exchange = await startLiar(t, server.url, NO_LIE, false);
  const asked = () => record.requests.filter(({ endpoint }) => endpoint === 'orderNew').length;
  const careful = await judge(exchange.url);
  assert.deepEqual(idsWith('fail', careful), []);
  const withheld = careful.cases.filter(({ remarks }) => /--allow-orders/.test(String(remarks)));
  const ids = withheld.map(({ id }) => id);
  const others = ids.filter((id) => !id.startsWith('orderNew.'));
  assert.deepEqual(others, ['auth.required.orderNew', 'auth.nonce.long']);
  assert.equal(asked(), 0);
  const allowed = await judge(exchange.url, { allowOrders: true });
  assert.deepEqual(idsWith('fail', allowed), []);
  assert.ok(asked() > 10);
});
