import type { PartitionInfo, SealingDesk, SealingStore } from '../../store/index.js';
import type { LifeOutcome, LifeWatcher, Sizes } from './events.js';
import { sumRows } from './rows.js';

/** What it takes to seal. */
export interface SealContext {
  readonly desk: SealingDesk;
  readonly sealing: SealingStore;
  readonly watcher: LifeWatcher;
  readonly signal: AbortSignal;
}

const FREEZE_NOTE =
  'its rows were not frozen, because the user of the database is not of the tables’ owner';

/**
 * Seals one partition: from the guard on its rows do not change; then its indexes are built anew, its
 * rows are frozen, counted and summed up, and it is declared sealed. Until that last step it is hot,
 * and a late row just takes the guard away again, whereupon the last step finds nothing to declare.
 *
 * @throws StoreError `sealing_busy` when somebody holds it for too long
 */
export async function sealPartition(
  { desk, sealing, watcher, signal }: SealContext,
  partition: PartitionInfo,
): Promise<LifeOutcome> {
  const kept = (note: string): LifeOutcome => ({ partition, became: 'kept', rows: null, note });
  const step = async (name: Parameters<LifeWatcher['onStep']>[0]) => {
    signal.throwIfAborted();
    await watcher.onStep(name, partition.name);
  };
  await step('seal: guard');
  if (!(await desk.beginSeal(partition))) return kept('it is not hot any more');
  const isEmpty = (await desk.markets(partition)).length === 0;
  const before = await sizesOf(sealing, partition);
  let isFrozen = true;
  if (!isEmpty) {
    await step('seal: indexes');
    await desk.rebuildIndexes(partition);
    await step('seal: freeze');
    isFrozen = await desk.freeze(partition);
  }
  await step('seal: count');
  const facts = await sumRows(desk, partition, (rows) => watcher.onRows(rows, partition.rows));
  await step('seal: declare');
  if (!(await desk.finishSeal(partition, facts))) {
    return kept('rows came while it was being sealed: it is tried again later');
  }
  return {
    partition,
    became: 'sealed',
    rows: facts.rows,
    bytes: { before, after: await sizesOf(sealing, partition) },
    note: isFrozen ? null : FREEZE_NOTE,
  };
}

async function sizesOf(sealing: SealingStore, { name }: PartitionInfo): Promise<Sizes> {
  const found = (await sealing.partitions()).find((one) => one.name === name);
  return { heap: found?.heapBytes ?? 0, indexes: found?.indexBytes ?? 0 };
}
