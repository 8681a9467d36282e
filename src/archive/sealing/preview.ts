import type { PartitionInfo } from '../../store/index.js';
import type { LifeOutcome } from './events.js';
import type { LifeOptions, LifeReport } from './life-run.js';
import { findObstacles, unsettledNote } from './obstacles.js';
import { lifeDates, planLife } from './plan.js';

/**
 * Tells what a run of sealing would come to, why it would pass over what is due, and when the rest is
 * due. Changes nothing.
 *
 * @throws StoreError as liveOn
 */
export async function previewSealing(options: LifeOptions): Promise<LifeReport> {
  const { store, rules, nowMs, clock, signal, isChosen = () => true } = options;
  const desk = await store.sealing.open(signal);
  try {
    const all = await store.sealing.partitions();
    const plan = planLife(all, rules, { nowMs, wallMs: clock.wallMs() }, isChosen);
    const obstacle = await findObstacles(desk, plan.seal, rules.needsVerdicts);
    const outcomes: LifeOutcome[] = [];
    const tell = (partition: PartitionInfo, became: LifeOutcome['became'], note: string | null) => {
      outcomes.push({ partition, became, rows: partition.rows, note });
    };
    // What is made ahead has nothing in it to be sealed.
    for (const one of all.filter(isChosen).filter(({ span }) => span.fromMs <= nowMs)) {
      if (plan.seal.includes(one)) {
        const note = await obstacle(one);
        tell(one, note === undefined ? 'sealed' : 'kept', note ?? null);
      } else if (plan.archive.includes(one)) {
        const note = await unsettledNote(desk, one, false);
        tell(one, note === undefined ? 'archived' : 'kept', note ?? null);
      } else {
        const note = dueNote(one, options);
        if (note !== undefined) tell(one, 'kept', note);
      }
    }
    return { outcomes, failures: [] };
  } finally {
    await desk.close();
  }
}

/** When the next step of a partition is due; undefined when there is none. */
function dueNote(partition: PartitionInfo, { rules }: LifeOptions): string | undefined {
  const { sealsAtMs, archivesAtMs } = lifeDates(partition, rules);
  const iso = (ms: number) => new Date(ms).toISOString();
  if (partition.state === 'hot') {
    return sealsAtMs === null ? 'nothing is sealed' : `due to be sealed from ${iso(sealsAtMs)} on`;
  }
  if (partition.state !== 'sealed' || archivesAtMs === null) return undefined;
  const { restoredAtMs } = partition;
  // By this machine's clock, unlike the others.
  const restedAtMs = restoredAtMs === null ? 0 : restoredAtMs + rules.restMs;
  return `due to be archived from ${iso(Math.max(archivesAtMs, restedAtMs))} on`;
}
