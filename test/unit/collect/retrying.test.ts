import assert from 'node:assert/strict';
import test from 'node:test';
import type { CallOptions } from '../../../src/client/index.js';
import type { ArchivePort } from '../../../src/collect/ports.js';
import { retryingArchive, retryingExchange } from '../../../src/collect/retrying.js';
import { AbortedError, type ErrorCode, TapekeepError } from '../../../src/kernel/errors.js';
import { seededRandom } from '../../../src/kernel/random.js';
import { FakeClock } from '../../support/fake-clock.js';
import { CollectRecord } from '../../support/worlds/collect-record.js';

const reply = { data: {}, rejected: [], sentAtMs: 0, dateMs: null, receivedAtMs: 0 };
const failure = (code: ErrorCode = 'server_error') => new TapekeepError(code, code);

/** An exchange that fails with what the test puts there, and then answers. */
function make(failures: readonly Error[], latencyMs = 0) {
  const clock = new FakeClock();
  const calls: Array<{ readonly atMs: number; readonly options: CallOptions | undefined }> = [];
  const left = [...failures];
  const exchange = retryingExchange(
    {
      ...{ candlesMax: 1000, offers: () => true },
      reserve: async () => ({ giveBack: () => undefined }),
      async call(_name, _params, options) {
        calls.push({ atMs: clock.monotonicMs(), options });
        clock.advance(latencyMs);
        const failed = left.shift();
        if (failed !== undefined) throw failed;
        return reply as never;
      },
    },
    { clock, random: seededRandom(5) },
  );
  const ask = async (options?: CallOptions) => {
    const asked = exchange.call('depth', { market: 'A_B' }, options).then(
      () => 'answered',
      (error: Error) => error.message,
    );
    await clock.run(10_000);
    return asked;
  };
  return { clock, calls, ask };
}

test('a broken answer is asked for again within half a second, and without the turn it used', async () => {
  const { calls, ask } = make([failure()]);
  const turn = { giveBack: () => undefined };
  assert.equal(await ask({ priority: -1, turn }), 'answered');
  assert.deepEqual(
    calls.map(({ options }) => options),
    [{ priority: -1, turn }, { priority: -1 }],
  );
  assert.ok((calls[1]?.atMs ?? Number.NaN) <= 200);
});

test('after four tries the failure is the caller’s, also when the last one would have succeeded', async () => {
  const { calls, ask } = make(Array.from({ length: 4 }, () => failure()));
  assert.equal(await ask(), 'server_error');
  assert.equal(calls.length, 4);
});

for (const [name, error] of [
  ['a request that took its whole deadline', failure('timeout')],
  ['one for which there was no room in line', failure('budget_overrun')],
  ['one that the exchange refuses', new TapekeepError('not_found', 'not_found')],
  ['an unexpected error', new Error('ours')],
] as const) {
  test(`${name} is not made again`, async () => {
    const { calls, ask } = make([error]);
    assert.equal(await ask(), error.message);
    assert.equal(calls.length, 1);
  });
}

test('failures that come slowly are not repeated for longer than a caller can wait', async () => {
  const { calls, ask } = make(
    Array.from({ length: 9 }, () => failure()),
    9000,
  );
  assert.equal(await ask(), 'server_error');
  assert.equal(calls.length, 2);
});

test('an endpoint that fails on and on is asked once a call, until it answers', async () => {
  const { calls, ask } = make(Array.from({ length: 50 }, () => failure()));
  for (let call = 0; call < 20; call += 1) assert.equal(await ask(), 'server_error');
  assert.equal(calls.length, 10 * 4 + 10);
  assert.equal(await ask(), 'answered');
});

test('a stopped caller does not wait for another try', async () => {
  const { clock, calls, ask } = make(Array.from({ length: 4 }, () => failure()));
  const stopping = new AbortController();
  const asked = ask({ signal: stopping.signal });
  stopping.abort(new Error('stopped'));
  assert.equal(await asked, 'server_error');
  assert.equal(calls.length, 1);
  assert.equal(clock.pendingTimers, 0);
});

for (const [what, isBack] of [
  ['is back, is used', true],
  ['is away, is the failure', false],
] as const) {
  test(`a stop in the pause before another try: a database that ${what}`, async () => {
    const [clock, stopping] = [new FakeClock(), new AbortController()];
    const failures = [failure('database_unreachable')];
    if (!isBack) failures.push(failure('database_unreachable'));
    let calls = 0;
    const listGaps = async () => {
      calls += 1;
      const failed = failures.shift();
      if (failed !== undefined) throw failed;
    };
    const archive = retryingArchive({ listGaps } as unknown as ArchivePort, {
      ...{
        clock,
        random: seededRandom(5),
        signal: stopping.signal,
        telemetry: new CollectRecord(),
      },
    });
    const recorded = archive.listGaps({} as never, 0).then(
      () => 'recorded',
      (error: Error) => error.message,
    );
    for (let turn = 0; turn < 100 && clock.pendingTimers === 0; turn += 1) await Promise.resolve();
    assert.equal(clock.pendingTimers, 1);
    stopping.abort(new AbortedError());
    assert.equal(await recorded, isBack ? 'recorded' : 'database_unreachable');
    assert.equal(calls, 2);
  });
}

test('what the database alone refuses again and again is reported about twice a minute', async () => {
  const [clock, telemetry, stopping] = [
    new FakeClock(),
    new CollectRecord(),
    new AbortController(),
  ];
  const listGaps = () => Promise.reject(failure('database_unreachable'));
  const { signal } = stopping;
  const archive = retryingArchive({ listGaps } as unknown as ArchivePort, {
    ...{ clock, random: seededRandom(5), signal, telemetry },
  });
  const recorded = archive.listGaps({} as never, 0).catch((error: Error) => error.message);
  await clock.run(120_000);
  const reports = telemetry.failures.map(({ stream, code }) => [stream, code]);
  assert.deepEqual(reports.slice(0, 2), [
    ['archive', 'database_unreachable'],
    ['archive', 'database_unreachable'],
  ]);
  assert.ok(reports.length <= 6, `${reports.length} reports in two minutes`);
  stopping.abort(new AbortedError());
  assert.equal(await recorded, 'database_unreachable');
});
