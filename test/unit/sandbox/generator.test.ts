import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { openTape } from '../../../src/sandbox/open-tape.js';
import type { TapeOptions } from '../../../src/sandbox/options.js';
import type { TapeBackend } from '../../../src/sandbox/tape-backend.js';
import { TapeError } from '../../../src/sandbox/tape-error.js';
import type { BackendTrade } from '../../../src/server/backend.js';
import { FakeClock } from '../../support/fake-clock.js';

const ORIGIN_MS = Date.UTC(2026, 5, 1);
const HOUR_S = 3600;

function open(
  clock: FakeClock,
  startOffsetS: number,
  options: Partial<TapeOptions> = {},
): Promise<TapeBackend> {
  const source = { kind: 'generated', originMs: ORIGIN_MS } as const;
  return openTape({ source, time: 'tape', startOffsetS, ...options }, clock);
}

function history(backend: TapeBackend, market: string): readonly BackendTrade[] {
  return backend.trades(market, 0, Number.MAX_SAFE_INTEGER).toReversed();
}

test('a sandbox that ran for two hours and one opened then show the same trades', async () => {
  const clock = new FakeClock();
  const early = await open(clock, 60);
  for (let step = 0; step < 500; step += 1) {
    clock.advance(step * 57);
    early.trades('BTC_USDT', 0, 1);
  }
  const lateOffsetS = (early.nowMs() - ORIGIN_MS) / 1000;
  const late = await open(new FakeClock(), lateOffsetS);
  assert.ok(lateOffsetS > 2 * 3500);
  for (const { name } of early.markets()) {
    assert.deepEqual(history(early, name), history(late, name));
    assert.deepEqual([...early.truth(name)], history(early, name));
  }
});

test('a later origin shows the same trades from there on, under the same identity', async () => {
  const clock = new FakeClock();
  const whole = await open(clock, 2 * HOUR_S);
  const source = { kind: 'generated', originMs: ORIGIN_MS + HOUR_S * 1000 } as const;
  const half = await open(clock, HOUR_S, { source });
  assert.equal(half.nowMs(), whole.nowMs());
  const cut = history(whole, 'ETH_USDT').filter(({ timeUs }) => timeUs >= source.originMs * 1000);
  assert.deepEqual(history(half, 'ETH_USDT'), cut);
  assert.equal(half.identity, whole.identity);
});

test('seed and markets decide the history, and the identity says so', async () => {
  const clock = new FakeClock();
  const first = await open(clock, HOUR_S);
  const seeded = await open(clock, HOUR_S, { seed: 8 });
  assert.notDeepEqual(history(first, 'BTC_USDT'), history(seeded, 'BTC_USDT'));
  assert.notEqual(first.identity, seeded.identity);
  assert.match(first.identity, /^sandbox-tape-[0-9a-f]{32}$/);
  const source = { kind: 'generated', originMs: ORIGIN_MS, markets: ['ABC_XYZ'] } as const;
  const named = await open(clock, HOUR_S, { source });
  assert.deepEqual(
    named.markets().map(({ name, stock, money }) => [name, stock, money]),
    [['ABC_XYZ', 'ABC', 'XYZ']],
  );
  assert.notEqual(first.identity, named.identity);
});

test('this version of the generator makes exactly these trades', async () => {
  const backend = await open(new FakeClock(), HOUR_S);
  const hash = createHash('sha256');
  for (const { name } of backend.markets()) hash.update(JSON.stringify(history(backend, name)));
  // A change here changes every sandbox's history: raise GENERATOR_VERSION with it.
  assert.equal(
    hash.digest('hex'),
    '5cb0a347e7f55f67211b3413e7a839b817ae9dff058d5cc0408ceef7c8a8d893',
  );
});

test('ids are one space over all markets and grow with time', async () => {
  const backend = await open(new FakeClock(), 6 * HOUR_S);
  const all = backend.markets().flatMap(({ name }) => history(backend, name));
  const sorted = all.toSorted((a, b) => a.id - b.id);
  assert.ok(sorted.length > 10_000);
  for (const [index, trade] of sorted.entries()) {
    const before = sorted[index - 1];
    if (before === undefined) continue;
    assert.ok(before.id < trade.id, 'unique');
    assert.ok(before.timeUs <= trade.timeUs, 'in order of time');
  }
  assert.ok((sorted[0]?.id ?? 0) > 2 ** 31);
  assert.ok(Number.isSafeInteger(sorted.at(-1)?.id));
});

test('arrivals cluster, sides run in moods, markets differ in rate', async () => {
  const backend = await open(new FakeClock(), 6 * HOUR_S);
  const counts = backend.markets().map(({ name }) => history(backend, name).length);
  assert.deepEqual(
    counts,
    counts.toSorted((a, b) => b - a),
    'busy to quiet',
  );
  assert.ok((counts[0] ?? 0) > 20 * (counts[3] ?? 0) && (counts[3] ?? 0) > 100);
  const perSecond = new Map<number, number>();
  const btc = history(backend, 'BTC_USDT');
  for (const { timeUs } of btc) {
    const second = Math.floor(timeUs / 1e6);
    perSecond.set(second, (perSecond.get(second) ?? 0) + 1);
  }
  assert.ok(Math.max(...perSecond.values()) >= 40, 'some seconds hold dozens');
  assert.ok(perSecond.size < 0.7 * 6 * HOUR_S, 'many seconds hold none');
  const repeats = btc.filter(({ side }, index) => side === btc[index - 1]?.side).length;
  assert.ok(repeats > 0.6 * btc.length);
});

test('only the newest trades are kept, and truth still knows them all', async () => {
  const clock = new FakeClock();
  const backend = await open(clock, HOUR_S, { historyMax: 500 });
  assert.equal(history(backend, 'BTC_USDT').length, 500);
  for (let hour = 0; hour < 6; hour += 1) {
    clock.advance(HOUR_S * 1000);
    backend.ticker('BTC_USDT');
  }
  const truth = [...backend.truth('BTC_USDT')];
  assert.ok(truth.length > 10_000);
  assert.deepEqual(history(backend, 'BTC_USDT'), truth.slice(-500));
  const fresh = await open(new FakeClock(), 7 * HOUR_S, { historyMax: 500 });
  assert.deepEqual(history(fresh, 'BTC_USDT'), history(backend, 'BTC_USDT'));
});

test("by default time is this machine's, with a quarter of an hour of history", async () => {
  const clock = new FakeClock(ORIGIN_MS);
  const backend = await openTape({ source: { kind: 'generated' } }, clock);
  assert.equal(backend.nowMs(), ORIGIN_MS);
  const [oldest] = history(backend, 'BTC_USDT');
  assert.ok((oldest?.timeUs ?? 0) >= (ORIGIN_MS - 900_000) * 1000);
  clock.stepWall(3_600_000);
  assert.equal(backend.nowMs(), ORIGIN_MS, 'a step of the wall clock is not followed');
  clock.advance(1500);
  assert.equal(backend.nowMs(), ORIGIN_MS + 1500);
});

test('unusable options are refused by name', async () => {
  const clock = new FakeClock();
  const generated = { kind: 'generated' } as const;
  const wrong: ReadonlyArray<readonly [TapeOptions, RegExp]> = [
    [{ source: generated, pace: 'instant' }, /instant/],
    [{ source: generated, pace: 0 }, /pace 0/],
    [{ source: generated, pace: Number.NaN }, /pace NaN/],
    [{ source: generated, startOffsetS: -1 }, /start offset -1/],
    [{ source: generated, historyMax: 0 }, /history of 0/],
    [{ source: generated, time: 'tape' }, /origin/],
    [{ source: { ...generated, markets: ['BTCUSDT'] } }, /"BTCUSDT"/],
    [{ source: { ...generated, markets: ['A_B', 'A_B'] } }, /A_B/],
    [{ source: { ...generated, markets: [] } }, /at least one/],
    [{ source: { ...generated, originMs: 9e15 } }, /origin/],
    [{ source: { kind: 'recorded', tapes: [] } }, /at least one/],
  ];
  for (const [options, message] of wrong) {
    await assert.rejects(openTape(options, clock), (error) => {
      return error instanceof TapeError && message.test(error.message);
    });
  }
});
