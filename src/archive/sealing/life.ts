import { isAborted, TapekeepError } from '../../kernel/errors.js';
import { formatInstant } from '../../kernel/timestamp.js';
import type { SeriesTable } from '../../model/series.js';
import type { PartitionInfo, SealingAdmin } from '../../store/index.js';
import { writeFiles } from '../cold/archiving.js';
import { coldManifestPath, SCRATCH_FOLDER } from '../cold/folder.js';
import { type ColdManifest, isOfPartition, readColdManifest } from '../cold/manifest.js';
import { assertColdOwner, claimColdDir, coldOwnerConflict } from '../cold/owner.js';
import { restorePartition } from '../cold/restoring.js';
import { tidyColdDir } from '../cold/tidy.js';
import { asColdError, ColdError } from '../errors.js';
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
/** Failures that leave the database and the other partitions as they are. */
const OURS: ReadonlySet<string> = new Set(['parquet_failed', 'sealing_refused']);
/** Another partition would meet the same: no room, or no bucket. */
const FULL: ReadonlySet<string> = new Set([
  ...['cold_disk_full', 'restore_disk_full', 'cold_unreachable', 'cold_cache_full'],
]);

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

  /** Tables of restores that did not come to their end. */
  async tidyTables(): Promise<void> {
    const partitions = await this.#context.store.sealing.partitions();
    for (const one of partitions) {
      if (one.isHalfRestored) await this.#context.admin.dropRestored(one);
    }
  }

  async expireDue(): Promise<void> {
    const stuck = new Set<SeriesTable>();
    for (const one of (await this.#plan()).expire) {
      // The ledger forgets all up to the end of a partition: the older ones must go first.
      if (stuck.has(one.table)) continue;
      const end = await this.#each(one, () => this.#expire(one));
      if (end !== 'done') stuck.add(one.table);
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

  /** Writes what is sealed to files, and moves what is old enough. */
  async moveDue(): Promise<void> {
    const { store, rules } = this.#context;
    const { write, archive } = await this.#plan();
    const isInUse = (await store.sealing.partitions()).some(({ state }) => state === 'archived');
    // A folder that is away is said in each round, and not when the next partition comes to its time.
    const isDue = write.length + archive.length > 0;
    if (!isDue && (rules.coldAfterMs === null || !isInUse)) return;
    if (!(await this.#hasFolder(claimColdDir))) return;
    for (const one of write) {
      await this.#each(one, async () => void (await this.#write(one)));
      if (this.#isFull) return;
    }
    if (archive.length === 0 || !(await this.#canBeRead())) return;
    const inUse = new Set<SeriesTable>();
    for (const one of archive) {
      // Who holds one partition of a series in its place holds all.
      if (inUse.has(one.table)) continue;
      const end = await this.#each(one, () => this.#archive(one));
      if (end === 'in use') inUse.add(one.table);
      if (this.#isFull) return;
    }
  }

  /** Gives archived partitions their statistics, where the endpoint of archived rows runs. */
  async analyze(): Promise<void> {
    const { admin, signal } = this.#context;
    await admin.analyzeArchived().catch(() => signal.throwIfAborted());
  }

  /** Brings archived partitions back; without their files also takes those of earlier ones away. */
  async restoreChosen(isWithoutFiles: boolean): Promise<void> {
    const partitions = await this.#context.store.sealing.partitions();
    const chosen = partitions.filter(this.#context.isChosen);
    const hasFiles = chosen.some(({ uri }) => uri !== null);
    if (isWithoutFiles && hasFiles && !(await this.#hasFolder(assertColdOwner))) return;
    for (const one of chosen) {
      if (one.state === 'archived') await this.#each(one, () => this.#restore(one, isWithoutFiles));
      // One that came back earlier still has its files.
      const isBack = one.state === 'sealed' && one.uri !== null && one.restoredAtMs !== null;
      if (isBack && isWithoutFiles) await this.#each(one, () => this.#dropCopy(one));
      if (this.#isFull) return;
    }
  }

  /** Files that belong to nothing, where there may be any. */
  async tidyFiles(): Promise<void> {
    const { cold, store, watcher, signal } = this.#context;
    signal.throwIfAborted();
    const partitions = await store.sealing.partitions();
    if (!this.#isColdTouched && !(await this.#hasLeftover(partitions))) return;
    await watcher.onStep('tidy', '');
    if (!(await this.#hasFolder(claimColdDir))) return;
    try {
      await tidyColdDir(cold, partitions);
    } catch (error) {
      this.#fail(cold.name, asColdError(error, cold.name));
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

  /** Runs the work on one partition. Returns what came of it. */
  async #each(
    partition: PartitionInfo,
    work: () => Promise<LifeOutcome | undefined>,
  ): Promise<'done' | 'kept' | 'in use'> {
    this.#context.signal.throwIfAborted();
    try {
      const outcome = await work();
      if (outcome !== undefined) this.#outcomes.push(outcome);
      return outcome?.became === 'kept' ? 'kept' : 'done';
    } catch (error) {
      this.#context.signal.throwIfAborted();
      if (error instanceof TapekeepError && error.code === 'sealing_busy') {
        this.#outcomes.push(kept(partition, error.message));
        return 'in use';
      }
      this.#fail(partition.name, error);
      return 'kept';
    }
  }

  /** Remembers what is about one partition; anything else ends the run. */
  #fail(partition: string, error: unknown): void {
    if (isAborted(error) || !(error instanceof TapekeepError)) throw error;
    const isOurs = error instanceof ColdError || OURS.has(error.code);
    if (!isOurs) throw error;
    this.#failures.push({ partition, error });
  }

  async #expire(one: PartitionInfo): Promise<LifeOutcome> {
    const { watcher, cold, store } = this.#context;
    const lagging = await this.#lagging(one);
    if (lagging !== undefined) return kept(one, lagging);
    if (one.uri !== null) await assertColdOwner(cold, await store.sealing.identity());
    const manifest =
      one.uri === null ? undefined : await this.#manifestOf(one).catch(() => undefined);
    await watcher.onStep('retention: expire', one.name);
    if (!(await this.#context.admin.expire(one))) {
      return kept(one, 'its time has hardly ended');
    }
    if (one.uri !== null) {
      await watcher.onStep('retention: files', one.name);
      await this.#removeFiles(manifest, one);
    }
    return { partition: one, became: 'expired', rows: one.rows, note: null };
  }

  /** Says what daemons that divide the markets still lack of a partition; undefined: nothing, or there is one daemon. */
  async #lagging(one: PartitionInfo): Promise<string | undefined> {
    const { admin, store, rules } = this.#context;
    if ((await store.holders()).shares === 1) return undefined;
    return await unsettledNote(admin, one, { ...NO_NEEDS, markets: rules.markets });
  }

  /** Sees to it that a sealed partition has whole files. Returns their size; undefined: it was reopened meanwhile. */
  async #write(one: PartitionInfo): Promise<number | undefined> {
    const { watcher, signal, admin } = this.#context;
    this.#isColdTouched = true;
    const written = await writeFiles(this.#context, one);
    signal.throwIfAborted();
    await watcher.onStep('archive: note', one.name);
    if (!(await admin.noteFiles(one, written))) return undefined;
    return written.manifest.files.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  async #archive(one: PartitionInfo): Promise<LifeOutcome> {
    const { watcher, signal } = this.#context;
    // Candles that became suspect since the sealing are checked as long as rows are at hand.
    const suspect = await unsettledNote(this.#context.admin, one, NO_NEEDS);
    if (suspect !== undefined) return kept(one, suspect);
    const coldBytes = await this.#write(one);
    signal.throwIfAborted();
    await watcher.onStep('archive: switch', one.name);
    if (coldBytes === undefined || !(await this.#context.admin.archive(one))) {
      return kept(one, 'it was reopened meanwhile');
    }
    return { partition: one, became: 'archived', rows: one.rows, coldBytes, note: null };
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
    const { cold, watcher } = this.#context;
    if (!(await cold.isThere(one.uri ?? ''))) {
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

  /** Manifest whose files are to be deleted. @throws ColdError if it names those of another partition */
  async #manifestOf(one: PartitionInfo): Promise<ColdManifest> {
    const { cold } = this.#context;
    const at = one.uri ?? '';
    const manifest = await readColdManifest(cold, at);
    if (isOfPartition(manifest, one)) return manifest;
    const text = `${cold.at(at)} is the manifest of another partition than ${one.name}, and nothing was deleted: bring the right one back from a copy`;
    throw new ColdError('cold_mismatch', text);
  }

  async #removeFiles(manifest: ColdManifest | undefined, { uri }: PartitionInfo): Promise<void> {
    this.#isColdTouched = true;
    // The manifest last: without it nothing would find the others before the next tidying.
    const paths = [
      ...(manifest?.files ?? []).map(({ path }) => path),
      ...(uri === null ? [] : [uri]),
    ];
    for (const path of paths) await this.#context.cold.remove(path);
  }

  /** True when a stopped run of this database left files in the folder, or a partition was opened again that has some. */
  async #hasLeftover(partitions: readonly PartitionInfo[]): Promise<boolean> {
    const { store, cold, nowMs } = this.#context;
    const reopened = partitions.filter(({ state, span }) => state === 'hot' && span.toMs <= nowMs);
    const paths = [SCRATCH_FOLDER, ...reopened.map((one) => coldManifestPath(one.table, one.name))];
    let isThere = false;
    for (const path of paths) {
      isThere ||= await cold.isThere(path).catch(() => false);
    }
    if (!isThere) return false;
    return (await coldOwnerConflict(cold, await store.sealing.identity())) === null;
  }

  /** False when the database cannot read archived rows: a failure that is reported once. */
  async #canBeRead(): Promise<boolean> {
    try {
      await this.#context.admin.makeColdServer();
      return true;
    } catch (error) {
      this.#fail('postgres_fdw', error);
      return false;
    }
  }

  /** False when the folder cannot be had: a failure that is reported once, and takes nothing from what was done before. */
  async #hasFolder(take: typeof claimColdDir | typeof assertColdOwner): Promise<boolean> {
    const { store, cold } = this.#context;
    if (this.#failures.some(({ partition }) => partition === cold.name)) return false;
    const [mine, partitions] = [await store.sealing.identity(), await store.sealing.partitions()];
    try {
      await take(cold, mine, partitions);
      return true;
    } catch (error) {
      this.#fail(cold.name, error);
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
    await run.moveDue();
    await run.analyze();
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
