import assert from 'node:assert/strict';
import test from 'node:test';
import { assertCollected } from '../../../src/cli/fill/with-filling.js';
import { leftOutText, nextTryText } from '../../../src/cli/gaps.js';
import { type ConfigTree, loadConfig } from '../../../src/config/load.js';
import type { StreamKind } from '../../../src/model/series.js';

test('what of the archive the settings leave out is named, the first of many', () => {
  const settings = (overrides: ConfigTree) => loadConfig({ env: {}, overrides });
  const trades = (...markets: string[]) =>
    markets.map((market) => ({ market, kind: 'trades', variant: 0 }) as const);
  const left = (markets: string[], ...known: string[]) =>
    leftOutText(settings({ markets }), trades(...known));
  assert.equal(left([], 'A', 'B'), undefined, 'all are collected');
  assert.equal(left(['A', 'B'], 'A'), undefined);
  assert.match(left(['A'], 'A', 'B') ?? '', /do not name B \(setting "markets"\): .* of that$/);
  const many = left(['A'], 'B', 'C', 'D', 'E', 'F', 'G', 'H') ?? '';
  assert.match(many, /do not name B, C, D, E, F and 2 more markets \(setting "markets"\): /);
  const streams = {
    ...{ trades: { exactTimes: false }, depth: { enabled: false }, states: { enabled: false } },
    candles: { intervalsS: [60] },
  };
  const of = (market: string, kind: StreamKind, variant = 0) => ({ market, kind, variant });
  const known = [
    ...[of('A', 'trades'), of('A', 'depth'), of('B', 'depth')],
    ...[of('A', 'candles', 60), of('A', 'candles', 300), of('B', 'states', 86_400)],
  ];
  const off = leftOutText(settings({ markets: [], streams }), known);
  assert.match(off ?? '', /^The settings switch off depth, candles 300s, states 86400s: a/);
  const both = leftOutText(settings({ markets: ['A'], streams }), known);
  assert.match(both ?? '', /not name B \(.*\), and switch off depth, candles 300s: a daemon/);
});

test('beside a daemon only gaps of the candles that it collects are to be filled', () => {
  const config = loadConfig({ env: {}, overrides: { streams: { candles: { intervalsS: [60] } } } });
  const of = (variant: number) => [{ kind: 'candles', variant } as const];
  assertCollected(config, 'A', of(60));
  assert.throws(
    () => assertCollected(config, 'A', of(300)),
    /--kinds: "candles 300s" is not allowed; a daemon with these settings does not collect them/,
  );
});

test('what is missing of a delisted market waits for the list', () => {
  const market = { market: 'A', variant: 60, nextAttemptAtMs: null };
  const given = {
    ...market,
    kind: 'candles',
    state: 'unfillable',
    reason: 'walk stalled',
  } as const;
  const next = (gap: Partial<Parameters<typeof nextTryText>[0]>, overrides: ConfigTree = {}) => {
    const config = loadConfig({ env: {}, overrides });
    return nextTryText({ ...given, ...gap }, { config, isWritten: true }, 0);
  };
  assert.equal(next({ kind: 'trades', reason: 'delisted' }), 'once the market is listed again');
  assert.equal(next({}), 'every hour while a daemon runs');
  const leftOut = 'none with these settings';
  assert.equal(next({}, { streams: { candles: { intervalsS: [300] } } }), leftOut);
  assert.equal(next({ state: 'open' }, { markets: ['B'] }), leftOut);
  assert.equal(next({ state: 'open' }), 'when the rate limit allows');
  assert.equal(next({ state: 'open', kind: 'depth' }), 'none', 'what is gone is not asked for');
  assert.equal(
    next({ kind: 'trades', reason: 'beyond history' }),
    'every hour while a daemon runs',
  );
  assert.equal(next({ kind: 'depth', reason: 'not observed' }), 'none');
});
