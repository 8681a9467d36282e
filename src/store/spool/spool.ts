import { setMaxListeners } from 'node:events';
import { join } from 'node:path';
import { type Clock, sleep, startDeadline, unlessAborted } from '../../kernel/clock.js';
import { AbortedError, codeOf, messageOf } from '../../kernel/errors.js';
import { isThere } from '../../kernel/folders.js';
import type { Random } from '../../kernel/random.js';
import type { Batch, CommitResult, StreamRef } from '../../model/batch.js';
import type { Share } from '../../model/share.js';
import type { StoreEvents } from '../../observe/events.js';
import {
  closeSession,
  openSession,
  type SessionClosing,
  type StreamPlace,
} from '../completeness/ledger.js';
import type { Runner } from '../connection.js';
import { actionOf, StoreError } from '../errors.js';
import { type DatabaseIdentity, readDatabaseIdentity } from '../identity.js';
import type { Writer } from '../writer/writer.js';
import { folderOf, foldersOfOtherShares, type SpoolFile, SpoolFiles } from './files.js';
import {
  decode,
  encode,
  keptResult,
  type OpenedSession,
  type SpoolRecord,
  sessionsOf,
} from './records.js';
import { Replay, storeEarlier } from './replay.js';

/** Folder of the spools, one for each database and share, and the bound of each. */
export interface SpoolSettings {
  readonly dir: string;
  /** 0: nothing is kept; what is there is stored. */
  readonly maxBytes: number;
}

export interface SpoolOptions extends SpoolSettings {
  readonly share: Share;
  readonly clock: Clock;
  readonly random: Random;
  readonly telemetry: StoreEvents;
  readonly database: Runner;
  readonly writer: Pick<Writer, 'commit' | 'era' | 'outage' | 'acknowledged' | 'changedBeside'>;
}

/** A commit that takes longer is kept: a database that hangs is as good as away, and the next observation is due. */
const PATIENCE_MS = 4_000;
/** Between two tries at a file that could not be stored for another reason than the database's absence. */
const RETRY_MS = 5_000;

/** A database that is away is waited for no longer. */
class AwayError extends Error {}

/**
 * Precedes the writer for what cannot be asked for again: while the database takes nothing, such batches go to
 * files, and collecting continues. When it is back they are stored in their order; what comes meanwhile goes behind
 * them.
 *
 * States: *off* → (opened by the holder of the lock, what an earlier process left is stored) *passing* ↔ *keeping* →
 * *stopped*. While passing everything goes to the writer; what waits there when the database goes away is kept as well,
 * for storing it twice changes nothing. While keeping, files are stored one after the other, which waits as long as the
 * database is away; the last of them ends it.
 */
export class Spool {
  readonly #options: SpoolOptions;
  readonly #replay: Replay;
  readonly #stopping = newController();
  #files: SpoolFiles | undefined;
  #state: 'off' | 'passing' | 'keeping' = 'off';
  /** Aborted when the database goes away; made again for each time that it is there. */
  #away = newController();
  #opening: Promise<void> | undefined;
  #draining: Promise<void> = Promise.resolve();
  #dropping: Promise<void> = Promise.resolve();
  /** Sessions that were opened while the database was away. */
  readonly #opened = new Map<number, OpenedSession>();
  #lastSession = 0;

  constructor(options: SpoolOptions) {
    const { writer, telemetry } = options;
    this.#options = options;
    this.#replay = new Replay({
      ...options,
      signal: this.#stopping.signal,
      commit: (batch, era, signal) => writer.commit(batch, era, signal),
      onOpened: () => writer.changedBeside(),
      onRefused: (error) => {
        telemetry.spooled({ outcome: 'refused', batches: 1 });
        telemetry.spoolFailed({ code: codeOf(error), message: messageOf(error) });
      },
    });
  }

  /** Bytes that wait for the database. */
  get bytes(): number {
    return this.#files?.bytes ?? 0;
  }

  /**
   * Takes the folder, and stores what an earlier process left in it. To be called with the writer's lock, before
   * anything is collected. To open it again changes nothing.
   *
   * Keeps nothing, and logs that, where another living process uses the folder, such as a former holder on this machine.
   *
   * @throws StoreError `spool_refused` for a folder of another archive; the signal's reason
   */
  async open(signal: AbortSignal): Promise<void> {
    // A start that is tried again meets the first try, which may have the folder.
    this.#opening ??= this.#open(signal).finally(() => {
      this.#opening = undefined;
    });
    await this.#opening;
  }

  async #open(signal: AbortSignal): Promise<void> {
    const { dir, maxBytes, share, database, writer } = this.#options;
    if (this.#files !== undefined || (maxBytes === 0 && !(await isThere(dir)))) return;
    const owner: DatabaseIdentity = await readDatabaseIdentity(database);
    const header = () => encode({ form: 1, owner, acknowledged: writer.acknowledged ?? null });
    const files = new SpoolFiles({
      ...this.#options,
      dir: join(dir, folderOf(owner, share)),
      header,
    });
    try {
      await files.open(signal);
    } catch (error) {
      if (codeOf(error) !== 'spool_in_use') throw error;
      this.#failed(error);
      return;
    }
    for (const left of await foldersOfOtherShares(dir, owner, share)) {
      const text = `the spool ${left} has rows that a daemon with another collector.share kept: start one with that setting once, or they are not stored`;
      this.#failed(new StoreError('spool_refused', text));
    }
    try {
      await unlessAborted(signal, storeEarlier(files, this.#replay, { ...this.#options, owner }));
    } catch (error) {
      await files.close();
      throw error;
    }
    if (maxBytes === 0) {
      await files.close();
      return;
    }
    this.#files = files;
    this.#state = 'passing';
    this.#changed();
  }

  /** The database takes nothing: what waits for it is kept. */
  away(): void {
    if (this.#state === 'passing') this.#away.abort(new AwayError());
  }

  /** The database went back: what is kept of before may claim nothing. */
  wentBack(): void {
    this.#replay.forget();
    const dropped = this.#files?.dropClaims().catch((error: unknown) => this.#failed(error));
    this.#dropping = Promise.all([this.#dropping, dropped]).then(() => undefined);
  }

  /**
   * Commits what cannot be asked for again. Resolves when it is stored, or kept.
   *
   * @param stream of its rows; undefined: pushed trades
   * @param signal gives up waiting where there is no spool; with it there is not long to wait
   * @throws as the writer; StoreError `spool_full`
   */
  async commit(
    batch: Batch,
    era: number,
    stream: StreamPlace | undefined,
    signal?: AbortSignal,
  ): Promise<CommitResult> {
    const { writer } = this.#options;
    if (this.#state === 'off') return await writer.commit(batch, era, signal);
    const sessions = this.#openedOf(sessionsOf(batch));
    const commit = async (patience: AbortSignal) => {
      const numbered = await this.#replay.numbered(batch, sessions);
      return await writer.commit(numbered, era, patience);
    };
    return await this.#orKept(commit, async () => {
      await this.#keep({ batch, era, stream, sessions });
      return keptResult(batch);
    });
  }

  /** Opens a session of the ledger; its number is below zero where the database is away. */
  async openSession(stream: StreamRef, atMs: number): Promise<number> {
    const { database, writer } = this.#options;
    const open = async () => {
      const id = await openSession(database, stream, atMs);
      writer.changedBeside();
      return id;
    };
    if (this.#state === 'off') return await open();
    const kept = async () => {
      this.#lastSession -= 1;
      const id = this.#lastSession;
      const { streamId, marketId } = stream;
      this.#opened.set(id, { id, stream: { streamId, marketId }, atMs });
      return id;
    };
    return await this.#orKept(open, kept);
  }

  async closeSession(id: number, end: SessionClosing): Promise<void> {
    const { database } = this.#options;
    if (this.#state === 'off') return await closeSession(database, id, end);
    const sessions = this.#openedOf([id]);
    const close = async () => {
      await closeSession(database, await this.#replay.numberOf(id, sessions), end);
    };
    await this.#orKept(close, () => this.#keep({ session: id, end, sessions }));
    this.#opened.delete(id);
  }

  /** Ends storing; what is kept stays for the next start. */
  async stop(): Promise<void> {
    this.#stopping.abort(new AbortedError('the store is stopped'));
    await Promise.all([this.#draining, this.#dropping]);
    await this.#files?.close();
  }

  #openedOf(ids: Iterable<number>): OpenedSession[] {
    return [...ids].flatMap((id) => this.#opened.get(id) ?? []);
  }

  /** Does it at the database, or keeps it where that is away, or where older batches are kept. */
  async #orKept<T>(work: (signal: AbortSignal) => Promise<T>, keep: () => Promise<T>): Promise<T> {
    const { clock, writer } = this.#options;
    const isAway = writer.outage !== undefined || this.#away.signal.aborted;
    if (this.#state === 'keeping' || isAway) return await keep();
    using patience = startDeadline(clock, PATIENCE_MS, () => new AwayError(), this.#away.signal);
    try {
      return await unlessAborted(patience.signal, work(patience.signal));
    } catch (error) {
      if (error instanceof AwayError || actionOf(error) === 'retry') return await keep();
      throw error;
    }
  }

  async #keep(record: SpoolRecord): Promise<void> {
    const { telemetry } = this.#options;
    const files = this.#files;
    if (files === undefined || this.#stopping.signal.aborted) {
      throw new AbortedError('the store is stopped');
    }
    if (this.#state === 'passing') {
      this.#state = 'keeping';
      telemetry.spoolTurned({ isKeeping: true });
      this.#draining = this.#drain(files);
    }
    try {
      await files.append(encode(record));
      telemetry.spooled({ outcome: 'kept', batches: 1 });
    } catch (error) {
      if (error instanceof StoreError) {
        telemetry.spooled({ outcome: 'dropped', batches: 1 });
        this.#failed(error);
      }
      throw error;
    } finally {
      this.#changed();
    }
  }

  /** Stores files until none is left. Each turn waits for the disk, the database or the clock. Never rejects. */
  async #drain(files: SpoolFiles): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        const file = await files.oldest();
        if (file !== undefined) await this.#store(files, file);
        else if (files.isEmpty) return this.#pass();
      } catch (error) {
        if (signal.aborted) return;
        this.#failed(error);
        await sleep(clock, RETRY_MS, signal).catch(() => undefined);
      }
    }
  }

  async #store(files: SpoolFiles, file: SpoolFile): Promise<void> {
    const { telemetry } = this.#options;
    const { payloads, isDamaged } = await files.read(file);
    const mode = { era: undefined, isShared: file.isRowsOnly, rowsOnly: undefined };
    const batches = await this.#replay.store(payloads.map(decode), mode);
    telemetry.spooled({ outcome: 'stored', batches });
    if (isDamaged) this.#failed(await files.setAside(file));
    else await files.remove(file);
    this.#changed();
  }

  #pass(): void {
    this.#state = 'passing';
    this.#away = newController();
    this.#options.telemetry.spoolTurned({ isKeeping: false });
  }

  #failed(error: unknown): void {
    this.#options.telemetry.spoolFailed({ code: codeOf(error), message: messageOf(error) });
  }

  #changed(): void {
    const { telemetry, maxBytes } = this.#options;
    telemetry.spoolChanged({ bytes: this.bytes, limitBytes: maxBytes });
  }
}

/** Many commits listen to one. */
function newController(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}
