import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BackendTrade } from '../../src/server/backend.js';
import { startFaultyExchange } from '../support/exchanges/faulty-exchange.js';
import { startTapeExchange } from '../support/exchanges/tape-exchange.js';

interface Told {
  readonly success: boolean;
  readonly message: string;
  readonly result: {
    readonly seed: number;
    readonly rules: readonly object[];
    readonly report: readonly object[];
  };
}

function steering(base: string) {
  const call = async (method: string, body?: unknown) => {
    const response = await fetch(`${base}/sandbox/faults`, {
      method,
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    return { status: response.status, told: (await response.json()) as Told };
  };
  return {
    get: () => call('GET'),
    put: (script: unknown) => call('PUT', script),
    delete: () => call('DELETE'),
  };
}

test('the script is read, replaced and ended while the exchange runs', async (t) => {
  const rules = [{ kind: 'html', where: 'ticker', probability: 0.5 }] as const;
  const { server } = await startFaultyExchange(t, { rules, seed: 5 });
  const faults = steering(server.url);
  const ticker = async () =>
    (await fetch(`${server.url}/api/v1/public/ticker?market=BTC_USDT`)).status;

  const before = await faults.get();
  assert.deepEqual(before.told.result, {
    seed: 5,
    rules,
    report: [{ rule: 'rule-1', kind: 'html', offered: 0, fired: 0 }],
  });
  const status = { id: 'down', kind: 'status', status: 500, where: 'ticker', maxCount: 2 };
  const put = await faults.put({ seed: 9, rules: [status] });
  assert.deepEqual([put.status, put.told.result.seed], [200, 9]);
  assert.deepEqual([await ticker(), await ticker(), await ticker()], [500, 500, 200]);
  assert.deepEqual((await faults.get()).told.result.report, [
    { rule: 'down', kind: 'status', offered: 3, fired: 2 },
  ]);

  assert.deepEqual((await faults.delete()).told.result, { seed: 5, rules: [], report: [] });
  assert.equal(await ticker(), 200);
});

test('a bad script is refused and changes nothing', async (t) => {
  const rules = [{ kind: 'status', where: 'ticker' }] as const;
  const { server } = await startFaultyExchange(t, { rules });
  const faults = steering(server.url);
  for (const [script, text] of [
    [[{ kind: 'latency', ms: 'fast' }], /rule 1 \(latency\): ms "fast".*3600000/],
    [[{ kind: 'html', market: 'NOPE_X' }], /rule 1 \(html\): market "NOPE_X".*one of BTC_USDT/],
    ['{"rules": [', /JSON/],
    ['', /JSON/],
    [{ rules: 5 }, /rules 5.*a list/],
  ] as const) {
    const { status, told } = await faults.put(script);
    assert.equal(status, 400);
    assert.equal(told.success, false);
    assert.match(told.message, text);
  }
  assert.deepEqual((await faults.get()).told.result.rules, rules);
});

test('truth: every trade that was issued, between two times, as lines of JSON', async (t) => {
  const { server, backend } = await startFaultyExchange(t, { rules: [] });
  const read = async (query: string) => {
    const response = await fetch(`${server.url}/sandbox/truth?${query}`);
    assert.equal(response.headers.get('content-type'), 'application/x-ndjson');
    const text = await response.text();
    return text === ''
      ? []
      : text
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line) as BackendTrade);
  };
  const truth = [...backend.truth('BTC_USDT')];
  assert.ok(truth.length > 1000);
  assert.deepEqual(await read('market=BTC_USDT'), truth);
  const fromUs = truth[100]?.timeUs ?? 0;
  const toUs = truth[300]?.timeUs ?? 0;
  assert.deepEqual(
    await read(`market=BTC_USDT&from=${fromUs / 1e6}&to=${toUs / 1e6}`),
    truth.filter(({ timeUs }) => timeUs >= fromUs && timeUs < toUs),
  );
  assert.deepEqual(await read('market=BTC_USDT&from=9999999999'), []);
  for (const [query, text] of [
    ['', /market ""/],
    ['market=NO_SUCH', /market "NO_SUCH"/],
    ['market=BTC_USDT&from=yesterday', /UNIX seconds/],
    ['market=BTC_USDT&to=-1', /UNIX seconds/],
  ] as const) {
    const response = await fetch(`${server.url}/sandbox/truth?${query}`);
    assert.equal(response.status, 400);
    assert.match(((await response.json()) as Told).message, text);
  }
});

test('steering is not interfered with, does not use up a rate limit, and is off by default', async (t) => {
  const rateLimit = { limit: 1, windowMs: 60_000, enforce: true };
  const rules = [{ kind: 'reset' }] as const;
  const { server, fired } = await startFaultyExchange(t, { rules, variants: { rateLimit } });
  for (let turn = 0; turn < 3; turn += 1) {
    assert.equal((await steering(server.url).get()).status, 200);
  }
  assert.deepEqual(fired(), { 'rule-1': 0 });

  const closed = await startFaultyExchange(t, { rules, control: false });
  const plain = await startTapeExchange(t);
  for (const url of [closed.server.url, plain.server.url]) {
    for (const path of ['faults', 'truth?market=BTC_USDT']) {
      assert.equal((await fetch(`${url}/sandbox/${path}`)).status, 404);
    }
    assert.equal((await steering(url).put([])).status, 404);
  }
});
