import type { LifeRules } from '../../archive/sealing/plan.js';
import type { Config } from '../../config/schema.js';
import { SERIES, SERIES_TABLES, type SeriesTable } from '../../model/series.js';

/** What people call the rows of tables in the settings and on the command line. */
export type LifeKind = (typeof SERIES)[SeriesTable]['retention'];
export const LIFE_KIND_NAMES = [...new Set(SERIES_TABLES.map((table) => SERIES[table].retention))];

/** The tables whose rows are called so. */
export function tablesKept(kind: LifeKind): SeriesTable[] {
  return SERIES_TABLES.filter((table) => SERIES[table].retention === kind);
}

type LifeSettings = Pick<Config, 'partitions' | 'cold' | 'retention' | 'verification'>;

/** The rules that the settings make. */
export function lifeRulesOf({
  partitions,
  cold,
  retention,
  verification,
}: LifeSettings): LifeRules {
  const retentionMs: Partial<Record<SeriesTable, number>> = {};
  for (const kind of LIFE_KIND_NAMES) {
    const keptMs = retention[kind];
    if (keptMs === null) continue;
    for (const table of tablesKept(kind)) retentionMs[table] = keptMs;
  }
  return {
    sealAfterMs: partitions.seal ? partitions.sealAfter : null,
    coldAfterMs: cold.enabled ? cold.after : null,
    restMs: cold.after,
    retentionMs,
    needsVerdicts: verification.enabled,
  };
}
