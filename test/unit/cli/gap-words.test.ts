import assert from 'node:assert/strict';
import test from 'node:test';
import { assertCollected } from '../../../src/cli/fill/outcome.js';
import { leftOutText } from '../../../src/cli/gaps.js';
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
  assert.match(
    left(['A'], 'A', 'B') ?? '',
    /do not name B \(setting "markets"\): .* collect that$/,
  );
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
  assert.match(off ?? '', /^The settings switch off depth, candles 5m, states 1d: a/);
  const both = leftOutText(settings({ markets: ['A'], streams }), known);
  assert.match(both ?? '', /not name B \(.*\), and switch off depth, candles 5m: a daemon/);
});

test('beside a daemon only gaps of the candles that it collects are to be filled', () => {
  const config = loadConfig({ env: {}, overrides: { streams: { candles: { intervalsS: [60] } } } });
  const of = (variant: number) => [{ kind: 'candles', variant } as const];
  assertCollected(config, 'A', of(60));
  assert.throws(
    () => assertCollected(config, 'A', of(300)),
    /--kinds: "candles 5m" is not allowed; a daemon with these settings does not collect them/,
  );
});
