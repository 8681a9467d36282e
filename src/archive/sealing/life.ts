import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isAborted, TapekeepError } from '../../kernel/errors.js';
import { formatInstant } from '../../kernel/timestamp.js';
import type { SeriesTable } from '../../model/series.js';
import type { PartitionInfo, SealingAdmin } from '../../store/index.js';
import { archivePartition } from '../cold/archiving.js';
import { isColdThere, SCRATCH_FOLDER } from '../cold/folder.js';
import { type ColdManifest, readColdManifest } from '../cold/manifest.js';
import { assertColdOwner, claimColdDir, coldOwnerConflict } from '../cold/owner.js';
import { restorePartition } from '../cold/restoring.js';
import { tidyColdDir } from '../cold/tidy.js';
import { asColdError, ColdError, inColdWords } from '../errors.js';
import {
  findObstacle,
  type LifeRules,
  lifeDates,
  planLife,
  restsUntilMs,
  unsettledNote,
} from './plan.js';
import {
  assertSealed,
  kept,
  type LifeContext,
  type LifeOutcome,
  lackNote,
  sealPartition,
  sumRows,
} from './seal.js';

export interface LifeOptions extends Omit<LifeContext, 'admin'> {
  readonly rules: LifeRules;
  readonly nowMs: number;
  /** Only partitions for which this is true. */
  readonly isChosen?: (partition: PartitionInfo) => boolean;
}

export interface LifeReport {
  readonly outcomes: readonly LifeOutcome[];
  /** Failures of single partitions; the others were worked on nevertheless. */
  readonly failures: readonly { readonly partition: string; readonly error: TapekeepError }[];
}

/** Needs of a sealed partition: none. */
const NO_NEEDS = { needsChecks: false, needsTimes: false };
/** Another partition would need as much room. */
const FULL: ReadonlySet<string> = new Set(['cold_disk_full', 'restore_disk_full']);

/** One run over all partitions, with its own sealing connection. */
class LifeRun {
  readonly #context: LifeContext & Required<LifeOptions>;
  readonly #outcomes: LifeOutcome[] = [];
  readonly #failures: { partition: string; error: TapekeepError }[] = [];
  #isColdTouched = false;

  constructor(options: LifeOptions, admin: SealingAdmin) {
    this.#context = { ...options, isChosen: options.isChosen ?? (() => true), admin };
  }

  get report(): LifeReport {
    return { outcomes: this.#outcomes, failures: this.#failures };
  }

  /** Tables of partitions whose rows are not in them: emptied, or half restored. */
  async tidyTables(): Promise<void> {
    const partitions = await this.#context.store.sealing.partitions();
    for (const one of partitions) {
      if (one.isPresent && (one.state === 'archived' || one.state === 'expired')) {
        await this.#context.admin.dropEmptied(one);
      }
    }
  }

  async expireDue(): Promise<void> {
    const stuck = new Set<SeriesTable>();
    for (const one of (await this.#plan()).expire) {
      // The ledger forgets all up to the end of a partition: the older ones must go first.
      if (stuck.has(one.table)) continue;
      const isDone = await this.#each(one, () => this.#expire(one));
      if (!isDone) stuck.add(one.table);
    }
  }

  async sealDue(): Promise<void> {
    const due = (await this.#plan()).seal;
    for (const one of due) {
      await this.#each(one, async () => {
        const note = await this.#obstacle(one);
        return note === undefined ? await sealPartition(this.#context, one) : kept(one, note);
      });
    }
  }

  #obstacle(partition: PartitionInfo): Promise<string | undefined> {
    return findObstacle(this.#context.admin, partition, this.#context.rules);
  }

  async archiveDue(): Promise<void> {
    const { store, rules } = this.#context;
    const due = (await this.#plan()).archive;
    const isInUse = (await store.sealing.partitions()).some(({ state }) => state === 'archived');
    // A folder that is away is said in each round, and not when the next partition comes to its time.
    if (due.length === 0 && (rules.coldAfterMs === null || !isInUse)) return;
    if (!(await this.#hasFolder(claimColdDir))) return;
    for (const one of due) {
      await this.#each(one, () => this.#archive(one));
      if (this.#isFull) return;
    }
  }

  /** Brings archived partitions back; without their files also takes those of earlier ones away. */
  async restoreChosen(isWithoutFiles: boolean): Promise<void> {
    const partitions = await this.#context.store.sealing.partitions();
    const chosen = partitions.filter(this.#context.isChosen);
    const hasFiles = chosen.some(({ uri }) => uri !== null);
    if (isWithoutFiles && hasFiles && !(await this.#hasFolder(assertColdOwner))) return;
    for (const one of chosen) {
      if (one.state === 'archived') await this.#each(one, () => this.#restore(one, isWithoutFiles));
      // A partition that was restored and has not changed since still knows its files.
      const isBack = one.state === 'sealed' && one.uri !== null;
      if (isBack && isWithoutFiles) await this.#each(one, () => this.#dropCopy(one));
      if (this.#isFull) return;
    }
  }

  /** Files that belong to nothing, where there may be any. */
  async tidyFiles(): Promise<void> {
    const { coldDir, store, watcher, signal } = this.#context;
    signal.throwIfAborted();
    const partitions = await store.sealing.partitions();
    if (!this.#isColdTouched && !(await this.#hasLeftover())) return;
    await watcher.onStep('tidy', '');
    if (!(await this.#hasFolder(claimColdDir))) return;
    try {
      await tidyColdDir(coldDir, partitions);
    } catch (error) {
      this.#fail(coldDir, asColdError(error, coldDir));
    }
  }

  /** Reports what would become of each partition, and changes nothing. */
  async preview(): Promise<void> {
    const { nowMs, rules } = this.#context;
    const { chosen, seal, archive } = await this.#plan();
    const report = (partition: PartitionInfo, became: LifeOutcome['became'], note: string | null) =>
      this.#outcomes.push({ partition, became, rows: partition.rows, note });
    // A partition made ahead has nothing in it to be sealed.
    for (const one of chosen.filter(({ span }) => span.fromMs <= nowMs)) {
      if (seal.includes(one)) {
        const kept = await this.#obstacle(one);
        if (kept === undefined) {
          report(one, 'sealed', await lackNote(this.#context.admin, one));
          const { archivesAtMs } = lifeDates(one, rules);
          if (archivesAtMs !== null && archivesAtMs <= nowMs) report(one, 'archived', null);
        } else report(one, 'kept', kept);
      } else if (archive.includes(one)) {
        const kept = await unsettledNote(this.#context.admin, one, NO_NEEDS);
        report(one, kept === undefined ? 'archived' : 'kept', kept ?? null);
      } else {
        const note = dueNote(one, this.#context);
        if (note !== undefined) report(one, 'kept', note);
      }
    }
  }

  /** Due partitions of the chosen ones. */
  async #plan() {
    const { store, rules, nowMs, clock, isChosen } = this.#context;
    const chosen = (await store.sealing.partitions()).filter(isChosen);
    return { chosen, ...planLife(chosen, rules, { nowMs, wallMs: clock.wallMs() }) };
  }

  /** Runs the work on one partition. Returns false when nothing came of it. */
  async #each(partition: PartitionInfo, work: () => Promise<LifeOutcome>): Promise<boolean> {
    this.#context.signal.throwIfAborted();
    try {
      const outcome = await work();
      this.#outcomes.push(outcome);
      return outcome.became !== 'kept';
    } catch (error) {
      this.#context.signal.throwIfAborted();
      if (error instanceof TapekeepError && error.code === 'sealing_busy') {
        this.#outcomes.push(kept(partition, error.message));
        return false;
      }
      this.#fail(partition.name, error);
      return false;
    }
  }

  /** Remembers what is about one partition; anything else ends the run. */
  #fail(partition: string, error: unknown): void {
    if (isAborted(error) || !(error instanceof TapekeepError)) throw error;
    const isOurs = error instanceof ColdError || error.code === 'parquet_failed';
    if (!isOurs) throw error;
    this.#failures.push({ partition, error });
  }

  async #expire(one: PartitionInfo): Promise<LifeOutcome> {
    const { watcher, coldDir, store } = this.#context;
    if (one.uri !== null) await assertColdOwner(coldDir, await store.sealing.identity());
    const manifest =
      one.uri === null ? undefined : await this.#manifestOf(one).catch(() => undefined);
    await watcher.onStep('retention: expire', one.name);
    if (!(await this.#context.admin.expire(one))) {
      return kept(one, 'its time has hardly ended');
    }
    await watcher.onStep('retention: drop', one.name);
    await this.#context.admin.dropEmptied(one);
    if (one.uri !== null) {
      await watcher.onStep('retention: files', one.name);
      await this.#removeFiles(manifest, one);
    }
    return { partition: one, became: 'expired', rows: one.rows, note: null };
  }

  async #archive(one: PartitionInfo): Promise<LifeOutcome> {
    const { watcher, signal } = this.#context;
    // Candles that became suspect since the sealing are checked as long as rows are at hand.
    const suspect = await unsettledNote(this.#context.admin, one, NO_NEEDS);
    if (suspect !== undefined) return kept(one, suspect);
    this.#isColdTouched = true;
    const archived = await archivePartition(this.#context, one);
    signal.throwIfAborted();
    await watcher.onStep('archive: switch', one.name);
    if (!(await this.#context.admin.archive(one, archived))) {
      return kept(one, 'it was reopened meanwhile');
    }
    await watcher.onStep('archive: drop', one.name);
    const isDropped = await this.#context.admin.dropEmptied(one);
    const note = isDropped ? null : 'its empty table is in use and goes with the next run';
    const coldBytes = archived.manifest.files.reduce((sum, { bytes }) => sum + bytes, 0);
    return { partition: one, became: 'archived', rows: one.rows, coldBytes, note };
  }

  async #restore(one: PartitionInfo, isWithoutFiles: boolean): Promise<LifeOutcome> {
    const rows = await restorePartition(this.#context, one);
    if (rows === null) return kept(one, 'not archived');
    if (!isWithoutFiles) return { partition: one, became: 'restored', rows, note: null };
    await this.#removeCopy(one);
    return { partition: one, became: 'restored', rows, note: 'its files are deleted' };
  }

  /** Takes away the files of a partition whose rows are here, once that has been seen. */
  async #dropCopy(one: PartitionInfo): Promise<LifeOutcome> {
    const { coldDir, watcher } = this.#context;
    if (!(await isColdThere(join(coldDir, one.uri ?? '')))) {
      await this.#context.admin.forgetFiles(one);
      return kept(one, 'it has no files any more', one.rows);
    }
    await watcher.onStep('restore: count', one.name);
    const facts = await sumRows(this.#context, one);
    assertSealed(one, facts, 'its files stay');
    await this.#removeCopy(one);
    const note = 'its rows were here already, and were counted again; its files are deleted';
    return kept(one, note, facts.rows);
  }

  async #removeCopy(one: PartitionInfo): Promise<void> {
    await this.#context.watcher.onStep('restore: files', one.name);
    await this.#removeFiles(await this.#manifestOf(one), one);
    await this.#context.admin.forgetFiles(one);
  }

  get #isFull(): boolean {
    return this.#failures.some(({ error }) => FULL.has(error.code));
  }

  async #manifestOf({ uri }: PartitionInfo): Promise<ColdManifest> {
    return await readColdManifest(this.#context.coldDir, uri ?? '');
  }

  async #removeFiles(manifest: ColdManifest | undefined, { uri }: PartitionInfo): Promise<void> {
    const { coldDir } = this.#context;
    this.#isColdTouched = true;
    // The manifest last: without it nothing would find the others before the next tidying.
    const paths = [
      ...(manifest?.files ?? []).map(({ path }) => path),
      ...(uri === null ? [] : [uri]),
    ];
    await inColdWords(coldDir, async () => {
      for (const path of paths) await rm(join(coldDir, path), { force: true });
    });
  }

  /** True when a stopped run of this database left files in the folder. */
  async #hasLeftover(): Promise<boolean> {
    const { store, coldDir } = this.#context;
    const isThere = await isColdThere(join(coldDir, SCRATCH_FOLDER)).catch(() => false);
    if (!isThere) return false;
    return (await coldOwnerConflict(coldDir, await store.sealing.identity())) === null;
  }

  /** False when the folder cannot be had: a failure that is reported once, and takes nothing from what was done before. */
  async #hasFolder(take: typeof claimColdDir | typeof assertColdOwner): Promise<boolean> {
    const { store, coldDir } = this.#context;
    if (this.#failures.some(({ partition }) => partition === coldDir)) return false;
    const [mine, partitions] = [await store.sealing.identity(), await store.sealing.partitions()];
    try {
      await take(coldDir, mine, partitions);
      return true;
    } catch (error) {
      this.#fail(coldDir, error);
      return false;
    }
  }
}

/** Runs steps on a sealing connection, which is closed after them. */
async function inRun(
  options: LifeOptions,
  work: (run: LifeRun) => Promise<void>,
): Promise<LifeReport> {
  const admin = await options.store.sealing.open(options.signal);
  try {
    const run = new LifeRun(options, admin);
    await work(run);
    return run.report;
  } finally {
    await admin.close();
  }
}

/**
 * Does what is due: gives up what is older than its retention, seals what has settled, moves what is
 * old enough into files, and takes away what an interrupted run left behind. Stopped at any point it
 * leaves each partition as it was or as it should be; the next run goes on.
 *
 * @throws StoreError `sealing_busy` while another one is at it, or when the database fails; the
 *   signal's reason
 */
export async function liveOn(options: LifeOptions): Promise<LifeReport> {
  return await inRun(options, async (run) => {
    await run.tidyTables();
    await run.expireDue();
    await run.sealDue();
    await run.archiveDue();
    await run.tidyFiles();
  });
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
    ...{ sealAfterMs: null, coldAfterMs: null, restMs: 0, retentionMs: {}, ...NO_NEEDS },
  };
  return await inRun({ ...options, rules, nowMs: 0 }, async (run) => {
    await run.tidyTables();
    await run.restoreChosen(isWithoutFiles);
    await run.tidyFiles();
  });
}

/**
 * Plans a run of sealing: its result, why it would pass over what is due, and when the rest is due.
 * Changes nothing.
 *
 * @throws as {@link liveOn}
 */
export async function previewSealing(options: LifeOptions): Promise<LifeReport> {
  return await inRun(options, (run) => run.preview());
}

/** When the next step of a partition is due; undefined when there is none. */
function dueNote(partition: PartitionInfo, { rules }: LifeOptions): string | undefined {
  const { sealsAtMs, archivesAtMs } = lifeDates(partition, rules);
  if (partition.state === 'hot') {
    return sealsAtMs === null
      ? 'nothing is sealed'
      : `due to be sealed from ${formatInstant(sealsAtMs)} on`;
  }
  if (partition.state !== 'sealed' || archivesAtMs === null) return undefined;
  const atMs = Math.max(archivesAtMs, restsUntilMs(partition, rules));
  return `due to be archived from ${formatInstant(atMs)} on`;
}
