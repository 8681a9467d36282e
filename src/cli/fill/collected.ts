import type { Config } from '../../config/schema.js';
import type { StreamKind } from '../../model/series.js';
import { UsageError } from '../failure.js';

/**
 * A running daemon only fills what it collects, by its settings: the same as ours, as a rule.
 *
 * @throws UsageError naming what it leaves out
 */
export function assertCollected(
  { markets, streams }: Config,
  market: string,
  kinds: readonly StreamKind[],
): void {
  const advice = 'stop it, and this program does the work itself';
  if (markets.length > 0 && !markets.includes(market)) {
    const why = `the running daemon does not collect it (setting "markets"); add it there, or ${advice}`;
    throw new UsageError('--market', market, why);
  }
  const isOn = {
    trades: streams.trades.enabled,
    times: streams.trades.enabled && streams.trades.exactTimes,
    kline: streams.klines.enabled,
  } as const;
  for (const kind of kinds) {
    if (kind !== 'trades' && kind !== 'times' && kind !== 'kline') continue;
    if (isOn[kind]) continue;
    const why = `the running daemon does not collect them (settings below "streams"); enable them, or ${advice}`;
    throw new UsageError('--kinds', kind === 'kline' ? 'klines' : kind, why);
  }
}
