import { type LifeReport, liveOn } from '../../archive/sealing/life.js';
import type { LifeRules } from '../../archive/sealing/plan.js';
import type { ExchangeClock } from '../../client/index.js';
import type { Config } from '../../config/schema.js';
import { type Clock, sleep } from '../../kernel/clock.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import type { Telemetry } from '../../observe/events.js';
import type { Store } from '../../store/index.js';
import { lifeRulesOf } from '../life/life-rules.js';
import { coldDirOf } from '../opening/database.js';
import { VERSION } from '../version.js';

interface LifeSurroundings {
  readonly clock: Clock;
  readonly telemetry: Pick<Telemetry, 'sealing'>;
  readonly exchangeTime: Pick<ExchangeClock, 'nowMs'>;
  readonly signal: AbortSignal;
}

/**
 * Seals, archives and gives up partitions as the settings say, until `signal` aborts. It waits first: a
 * daemon that has just started has more urgent work.
 */
export async function keepPartitions(
  store: Store,
  config: Config,
  around: LifeSurroundings,
): Promise<void> {
  const { clock, telemetry, exchangeTime, signal } = around;
  const rules = lifeRulesOf(config);
  const nothing = () => undefined;
  for (;;) {
    await sleep(clock, config.partitions.every, signal).catch(nothing);
    if (signal.aborted) return;
    try {
      const report = isAnythingWanted(rules)
        ? await liveOn({
            ...{ store, rules, clock, signal, version: VERSION, nowMs: exchangeTime.nowMs() },
            coldDir: coldDirOf(config),
            watcher: { onStep: nothing, onRows: nothing },
          })
        : NOTHING_DONE;
      await tell(store, report, telemetry);
    } catch (error) {
      // A command that works on the same is no failure: it does what was to be done.
      if (signal.aborted || codeOf(error) === 'sealing_busy') continue;
      telemetry.sealing.failed({ code: codeOf(error), message: messageOf(error) });
    }
  }
}

const NOTHING_DONE: LifeReport = { outcomes: [], failures: [] };

/** Where nothing is to be sealed, moved or given up, nothing is refused either, as on a cluster. */
function isAnythingWanted({ sealAfterMs, coldAfterMs, retentionMs }: LifeRules): boolean {
  return sealAfterMs !== null || coldAfterMs !== null || Object.keys(retentionMs).length > 0;
}

async function tell(
  store: Store,
  { outcomes, failures }: LifeReport,
  { sealing }: LifeSurroundings['telemetry'],
): Promise<void> {
  for (const { partition, became, rows } of outcomes) {
    if (became === 'kept') continue;
    sealing.partitionChanged({ table: partition.table, partition: partition.name, became, rows });
  }
  for (const { error } of failures) sealing.failed({ code: error.code, message: error.message });
  const counts = new Map<string, { table: string; state: string; count: number }>();
  for (const { table, state } of await store.sealing.partitions()) {
    const key = `${table} ${state}`;
    const known = counts.get(key) ?? { table, state, count: 0 };
    counts.set(key, { ...known, count: known.count + 1 });
  }
  sealing.partitionsCounted({ partitions: [...counts.values()] });
}
