import type { LifeRules } from '../../archive/sealing/plan.js';
import type { Config } from '../../config/schema.js';
import type { PartitionedTable } from '../../store/index.js';

/** What people call the rows of tables in the settings and on the command line. */
export const LIFE_KINDS = {
  trades: ['trade'],
  klines: ['kline', 'kline_revision'],
  tickers: ['ticker'],
  depth: ['depth'],
  states: ['market_state'],
  account: ['balance', 'active_order'],
} as const satisfies Readonly<Record<string, readonly PartitionedTable[]>>;
export type LifeKind = keyof typeof LIFE_KINDS;
export const LIFE_KIND_NAMES = Object.keys(LIFE_KINDS) as LifeKind[];

type LifeSettings = Pick<Config, 'partitions' | 'cold' | 'retention' | 'verification'>;

/** The rules that the settings make. */
export function lifeRulesOf({
  partitions,
  cold,
  retention,
  verification,
}: LifeSettings): LifeRules {
  const retentionMs: Partial<Record<PartitionedTable, number>> = {};
  for (const kind of LIFE_KIND_NAMES) {
    const keptMs = retention[kind];
    if (keptMs === null) continue;
    for (const table of LIFE_KINDS[kind]) retentionMs[table] = keptMs;
  }
  return {
    sealAfterMs: partitions.seal ? partitions.sealAfter : null,
    coldAfterMs: cold.enabled ? cold.after : null,
    restMs: cold.after,
    retentionMs,
    needsVerdicts: verification.enabled,
  };
}
