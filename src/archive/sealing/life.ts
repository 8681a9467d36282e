import { type LifeOptions, type LifeReport, LifeRun } from './life-run.js';

export type { LifeOptions, LifeReport } from './life-run.js';

/**
 * Does what is due: gives up what is older than its retention, seals what has settled, moves what is
 * old enough into files, and takes away what an interrupted run left behind. Stopped at any point it
 * leaves each partition as it was or as it should be; the next run goes on.
 *
 * @throws StoreError `sealing_busy` while another one is at it, or when the database fails; the
 *   signal's reason
 */
export async function liveOn(options: LifeOptions): Promise<LifeReport> {
  const desk = await options.store.sealing.open(options.signal);
  try {
    const run = new LifeRun(options, desk);
    await run.tidyTables();
    await run.expireDue();
    await run.sealDue();
    await run.archiveDue();
    await run.tidyFiles();
    return run.report;
  } finally {
    await desk.close();
  }
}

/**
 * Brings archived partitions back. Their files stay, as a copy that serves again when they leave;
 * without them they are deleted once the rows are in the database, also those of partitions that came
 * back earlier.
 *
 * @throws as {@link liveOn}
 */
export async function restore(
  options: Omit<LifeOptions, 'rules' | 'nowMs'>,
  isWithoutFiles: boolean,
): Promise<LifeReport> {
  const rules = {
    ...{ sealAfterMs: null, coldAfterMs: null, restMs: 0, retentionMs: {}, needsVerdicts: false },
  };
  const desk = await options.store.sealing.open(options.signal);
  try {
    const run = new LifeRun({ ...options, rules, nowMs: 0 }, desk);
    await run.tidyTables();
    await run.restoreChosen(isWithoutFiles);
    await run.tidyFiles();
    return run.report;
  } finally {
    await desk.close();
  }
}
