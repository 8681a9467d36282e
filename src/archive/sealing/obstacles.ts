import type { PartitionInfo, SealingDesk } from '../../store/index.js';

/**
 * What keeps partitions from being sealed, in words for people.
 *
 * @param due those that are old enough
 * @returns what is said of one; undefined when nothing keeps it
 */
export async function findObstacles(
  desk: SealingDesk,
  due: readonly PartitionInfo[],
  needsVerdicts: boolean,
): Promise<(partition: PartitionInfo) => Promise<string | undefined>> {
  const doubt = await ledgerDoubt(desk, due);
  return async (partition) => {
    if (partition.table === 'trade' && doubt !== undefined) return doubt;
    return await unsettledNote(desk, partition, needsVerdicts);
  };
}

/** Counted once for all: islands reach over many partitions. */
async function ledgerDoubt(
  desk: SealingDesk,
  due: readonly PartitionInfo[],
): Promise<string | undefined> {
  const trades = due.filter(({ table }) => table === 'trade').map(({ span }) => span);
  if (trades.length === 0) return undefined;
  const fromMs = Math.min(...trades.map((span) => span.fromMs));
  const toMs = Math.max(...trades.map((span) => span.toMs));
  const [doubt] = await desk.ledgerDoubts({ fromMs, toMs });
  if (doubt === undefined) return undefined;
  const { market, claimed, counted, span } = doubt;
  const at = new Date(span.fromMs).toISOString();
  return `the ledger claims ${claimed} trades of ${market} from ${at} on, and there are ${counted}`;
}

/** What is missing or doubted of one partition, in words; undefined when nothing is. */
export async function unsettledNote(
  desk: SealingDesk,
  partition: PartitionInfo,
  needsVerdicts: boolean,
): Promise<string | undefined> {
  const found = await desk.unsettled(partition, needsVerdicts);
  if (found === undefined) return undefined;
  const { why, kind, market, variantS, span } = found;
  const stream = variantS === 0 ? kind : `${kind} ${variantS}s`;
  const at = new Date(span.fromMs).toISOString();
  const of = `${stream} of ${market}`;
  switch (why) {
    case 'gap':
      return `an open gap of ${of} from ${at} on`;
    case 'doubt':
      return `${of} are doubted from ${at} on, and not fetched again yet`;
    case 'verdict':
      return `${of} is not judged from ${at} on`;
  }
}
