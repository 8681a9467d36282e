import { access, constants, readFile, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { type Clock, sleep, unlessAborted } from '../../kernel/clock.js';
import { AbortedError, codeOf, isAborted, messageOf, TapekeepError } from '../../kernel/errors.js';
import { makeFolder } from '../../kernel/folders.js';
import { isAlive } from '../../kernel/processes.js';
import { Backoff } from '../../kernel/retry.js';
import type { StoreEvents } from '../../observe/events.js';
import { StoreError } from '../errors.js';
import { chooseAccount, describeAccount } from './accounts.js';
import { findBinaries } from './binaries.js';
import {
  type ClusterPaths,
  clusterPaths,
  fullDisk,
  hasCluster,
  lockDataDir,
  makeCluster,
  readPassword,
} from './cluster.js';
import {
  isServer,
  joinServer,
  otherUsers,
  programUrl,
  type ReaderWanted,
  type Running,
  readerUrl,
  readReader,
  settleLogins,
  settleReader,
  writeProgramPassword,
} from './logins.js';
import { endOrphans, endServer, STOP_TIMEOUT_MS } from './processes.js';
import {
  findRunning,
  freePort,
  launchServer,
  readPostmaster,
  type StartOptions,
} from './server.js';

/** What {@link startEmbeddedPostgres} needs. */
export interface EmbeddedOptions {
  /** Folder of the installation; the cluster lives in `postgres` below it. */
  readonly dataDir: string;
  readonly clock: Clock;
  readonly telemetry: StoreEvents;
  /** Deadline of start and of stop. Default 60,000. */
  readonly startTimeoutMs?: number;
  /** Called when the server was killed and cannot be started again. */
  readonly onLost?: ((error: Error) => void) | undefined;
  /** Gives up a start that is under way. */
  readonly signal?: AbortSignal;
  /** The only port that will do for a server that is started. Default: the last one, if it is free. */
  readonly port?: number | undefined;
  /** The login that only reads. Default: the one that it has, else `analyst` with a made password. */
  readonly reader?: ReaderWanted | undefined;
}

export interface EmbeddedPostgres {
  /** Connection string of the archive's owner, with the password. Loopback only. */
  readonly url: string;
  /** The same of the login that only reads. */
  readonly readerUrl: string;
  /** Why a server that was lost could not be started again so far; undefined while there is none. */
  trouble(): string | undefined;
  /**
   * Leaves the server, and ends it if no other process uses it: a fast shutdown, and harder ways when that
   * does not end it in time. The first call counts.
   *
   * @param options `timeoutMs` for all of it; 30 s when it is not given
   */
  stop(options?: { readonly timeoutMs?: number }): Promise<void>;
}

const AS_IT_IS: ReaderWanted = { name: null, password: null };
const START_TIMEOUT_MS = 60_000;
/** Recovery after a crash reads the journal again, whatever the size of the archive. */
const RESTART_TIMEOUT_MS = 300_000;
/** A port that was free a moment ago may be taken by the time the server listens. */
const PORT_TRIES = 3;
/** A process that holds the lock for longer than this is doing more than leaving. */
const LEAVE_LOCK_MS = 2_000;
/** Attempts to start a lost server again, without a steady time between them. */
const RESTARTS_MAX = 7;
/** A server that ran for so long is steady: the next loss is a new one. */
const STEADY_MS = 60_000;
/** Without jitter: the lock lets one process start it anyway. */
const RESTART_WAIT = { baseMs: 500, capMs: 10_000 };

/**
 * Runs the Postgres that ships with tapekeep, on files below `dataDir`, or joins those that use it
 * already: the last one to leave ends it, whichever started it.
 *
 * States of the data folder: *empty* → *cluster made* (initdb, complete or not there at all) →
 * *server running* ⇄ *server down*. Each process that uses the server keeps a connection to it, so that
 * Postgres knows who is left, and its end reports the loss of the server. A lost server is started again
 * on its port, and `onLost` is called when that cannot be done. A server whose users were all killed is
 * adopted by the next one. The server listens on the loopback interface only, with a random password
 * kept beside the cluster.
 *
 * @throws {@link StoreError} when it cannot run here; the message says what to do. The signal's reason
 * when it aborts; no unused server is left running then.
 */
export async function startEmbeddedPostgres(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const paths = clusterPaths(resolve(options.dataDir));
  await makeDataDir(paths.dataDir);
  try {
    const running = await bringUp(options, paths);
    options.telemetry.embeddedPostgres({ phase: 'ready', detail: `port ${running.port}` });
    return await supervise(options, paths, running);
  } catch (error) {
    const isPassing = error instanceof StoreError && error.action === 'retry';
    const phase = isPassing ? 'not started' : 'failed';
    const isGivenUp = options.signal?.aborted === true;
    const detail = messageOf(error);
    options.telemetry.embeddedPostgres({ phase: isGivenUp ? 'stopped' : phase, detail });
    throw error;
  }
}

function deadlineOf({ clock, startTimeoutMs }: EmbeddedOptions): number {
  return clock.monotonicMs() + (startTimeoutMs ?? START_TIMEOUT_MS);
}

/** Whether an embedded archive was ever made below `dataDir`. */
export function hasEmbeddedCluster(dataDir: string): Promise<boolean> {
  return hasCluster(clusterPaths(resolve(dataDir)));
}

/** Where a server is reached, by its owner and by who only reads. */
export type EmbeddedAddresses = Pick<EmbeddedPostgres, 'url' | 'readerUrl'>;

async function addressesOf(
  { readerFile }: ClusterPaths,
  { port, password }: Pick<Running, 'port' | 'password'>,
): Promise<EmbeddedAddresses> {
  const reader = await readReader(readerFile);
  const url = programUrl(port, password);
  // Without its file it is a server of an earlier version, whose one login is the owner's.
  return { url, readerUrl: reader === undefined ? url : readerUrl(port, reader) };
}

/** The addresses of the server that runs on the files below `dataDir`; undefined when none does. */
export async function findEmbeddedPostgres(
  dataDir: string,
  clock: Clock,
): Promise<EmbeddedAddresses | undefined> {
  const paths = clusterPaths(resolve(dataDir));
  const { clusterDir } = paths;
  const found = await readPostmaster(clusterDir);
  if (found === undefined || !isAlive(found.pid)) return undefined;
  const password = await readPassword(paths);
  const running = await joinServer(found, { password, clusterDir, clock });
  await running?.connection.close();
  return running === undefined ? undefined : await addressesOf(paths, running);
}

async function makeDataDir(dataDir: string): Promise<void> {
  try {
    await makeFolder(dataDir);
    await access(dataDir, constants.W_OK | constants.X_OK);
  } catch (error) {
    const full = await fullDisk(dirname(dataDir), error);
    if (full !== undefined) throw full;
    throw new StoreError(
      'embedded_postgres_failed',
      `cannot write to the data folder ${dataDir} (${codeOf(error)}): make it a folder that this user may write, or name another one by dataDir (TAPEKEEP_DATA_DIR)`,
      { cause: error },
    );
  }
}

/** A server that was lost, and a report of its loss. */
interface Lost {
  readonly server: Running;
  readonly report: () => void;
}

/**
 * The server, found or started, under the lock of the data folder.
 *
 * @param lost given at a restart: its users know its port, and no cluster is made then
 */
async function bringUp(
  options: EmbeddedOptions,
  paths: ClusterPaths,
  lost?: Lost,
): Promise<Running> {
  const onWait = (holder: string) => waits(options, `${holder} starts or stops the server`);
  const limits = { ...options, deadlineMs: deadlineOf(options), onWait };
  await using _lock = await lockDataDir(paths, limits);
  try {
    const found = await findServer(options, paths);
    if (found?.pid !== lost?.server.pid) lost?.report();
    const running = found ?? (await startServer(options, paths, lost?.server.port));
    try {
      await settleLogins(running, options.clock);
      await writeProgramPassword(paths.programPasswordFile, running.password);
      await settleReader(running, paths.readerFile, options.reader ?? AS_IT_IS);
      options.signal?.throwIfAborted();
      if (running.port !== (lost?.server.port ?? running.port)) throw portTaken(running.port);
      running.connection.keepAlive(false);
      return running;
    } catch (error) {
      await letGo(options, paths, running);
      throw error;
    }
  } catch (error) {
    throw (await fullDisk(paths.dataDir, error)) ?? error;
  }
}

function waits({ telemetry }: EmbeddedOptions, detail: string): void {
  telemetry.embeddedPostgres({ phase: 'waiting', detail });
}

/** The server that runs on these files, if one does. */
async function findServer(
  options: EmbeddedOptions,
  paths: ClusterPaths,
): Promise<Running | undefined> {
  const { clusterDir } = paths;
  const { clock, telemetry, signal } = options;
  if (!(await hasCluster(paths)) || (await readPostmaster(clusterDir)) === undefined) {
    return undefined;
  }
  const password = await readPassword(paths);
  const deadlineMs = deadlineOf(options);
  const onWait = (pid: number) => waits(options, `process ${pid} does not answer yet`);
  const found = await findRunning({ clusterDir, password, clock, deadlineMs, signal, onWait });
  if (found === undefined) return undefined;
  const phase = (await otherUsers(found, clock)).length > 0 ? 'joined' : 'adopted';
  telemetry.embeddedPostgres({ phase, detail: `process ${found.pid}` });
  return found;
}

/** @param port the only one that will do; default: the last one if it is free */
async function startServer(
  options: EmbeddedOptions,
  paths: ClusterPaths,
  port?: number,
): Promise<Running> {
  const { clock, telemetry, signal } = options;
  const binaries = await findBinaries();
  const account = await chooseAccount(binaries, paths.dataDir, paths.clusterDir);
  signal?.throwIfAborted();
  if (!(await hasCluster(paths))) {
    if (port !== undefined) throw removed(paths);
    telemetry.embeddedPostgres({ phase: 'initialising', detail: describeAccount(account) });
    await makeCluster(paths, binaries, account, signal);
  }
  const { clusterDir } = paths;
  const password = await readPassword(paths);
  const deadlineMs = deadlineOf(options);
  const start = { clusterDir, password, binaries, account, clock, deadlineMs, signal };
  await endOrphans(clusterDir, clock);
  telemetry.embeddedPostgres({ phase: 'starting', detail: describeAccount(account) });
  return await launchOnFreePort(start, paths, port ?? options.port);
}

/** The port of last time if it is free, so that saved connections of people go on working. */
async function launchOnFreePort(
  start: StartOptions,
  paths: ClusterPaths,
  onlyPort?: number,
): Promise<Running> {
  const lastPort = Number((await readFile(paths.portFile, 'utf8').catch(() => '')).trim()) || 0;
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort(attempt === 1 ? (onlyPort ?? lastPort) : 0);
    if (onlyPort !== undefined && port !== onlyPort) throw portTaken(onlyPort);
    try {
      const running = await launchServer(start, port);
      await writeFile(paths.portFile, `${port}\n`);
      return running;
    } catch (error) {
      start.signal?.throwIfAborted();
      const isPortTaken = messageOf(error).includes('Address already in use');
      if (!isPortTaken || onlyPort !== undefined || attempt >= PORT_TRIES) throw error;
    }
  }
}

/** The server that runs, or the last one that did. */
interface Kept {
  running: Running;
  trouble: string | undefined;
}

async function supervise(
  options: EmbeddedOptions,
  paths: ClusterPaths,
  first: Running,
): Promise<EmbeddedPostgres> {
  const addresses = await addressesOf(paths, first);
  const ending = new AbortController();
  const kept: Kept = { running: first, trouble: undefined };
  const keeping = keepRunning({ ...options, signal: ending.signal }, paths, kept).catch(
    (error: Error) => {
      if (ending.signal.aborted) return;
      options.telemetry.embeddedPostgres({ phase: 'failed', detail: messageOf(error) });
      options.onLost?.(error);
    },
  );
  let stopping: Promise<void> | undefined;
  return {
    ...addresses,
    trouble: () => kept.trouble,
    stop(limits) {
      ending.abort(new AbortedError());
      stopping ??= keeping.then(() => leave(options, paths, kept.running, limits?.timeoutMs));
      return stopping;
    },
  };
}

/**
 * Keeps the server running that the system may kill, as it does when memory runs out.
 *
 * States: *connected* → *lost* → *starting again*, after growing pauses → *connected*. A full disk is waited
 * for as long as it takes; any other failure a limited number of times. Ends with the signal.
 *
 * @throws {@link StoreError} `embedded_postgres_lost`
 */
async function keepRunning(
  options: EmbeddedOptions & { readonly signal: AbortSignal },
  paths: ClusterPaths,
  kept: Kept,
): Promise<never> {
  const { clock, telemetry, signal } = options;
  for (let tries = 0; ; ) {
    const sinceMs = clock.monotonicMs();
    const server = kept.running;
    await unlessAborted(signal, server.connection.ended);
    if (clock.monotonicMs() - sinceMs >= STEADY_MS) tries = 0;
    let isReported = false;
    const report = () => {
      const detail = `process ${server.pid} is gone`;
      if (!isReported) telemetry.embeddedPostgres({ phase: 'lost', detail });
      isReported = true;
    };
    const backoff = new Backoff(RESTART_WAIT, () => 1);
    while (kept.running === server) {
      tries += 1;
      try {
        const timed = { ...options, startTimeoutMs: RESTART_TIMEOUT_MS };
        kept.running = await bringUp(timed, paths, { server, report });
        kept.trouble = undefined;
        telemetry.embeddedPostgres({ phase: 'ready', detail: `port ${server.port}, again` });
      } catch (error) {
        signal.throwIfAborted();
        if (isAborted(error)) throw error;
        kept.trouble = messageOf(error);
        telemetry.embeddedPostgres({ phase: 'not started', detail: kept.trouble });
        if (error instanceof TapekeepError && error.action === 'retry') tries -= 1;
        if (tries >= RESTARTS_MAX) throw notRestarted(paths, tries, error);
        await sleep(clock, backoff.nextMs(), signal);
      }
    }
  }
}

/** Leaves the server to those who still use it; the last one ends it. */
async function leave(
  options: EmbeddedOptions,
  paths: ClusterPaths,
  running: Running,
  timeoutMs = STOP_TIMEOUT_MS,
): Promise<void> {
  const { clock, telemetry } = options;
  const endMs = clock.monotonicMs() + timeoutMs;
  const deadlineMs = clock.monotonicMs() + Math.min(LEAVE_LOCK_MS, timeoutMs / 2);
  running.connection.keepAlive(true);
  try {
    await using _lock = await lockDataDir(paths, { clock, deadlineMs });
    const others = await letGo(options, paths, running, endMs);
    const detail = `still used by ${others.map((pid) => `process ${pid}`).join(', ')}`;
    if (others.length > 0) telemetry.embeddedPostgres({ phase: 'left', detail });
    else telemetry.embeddedPostgres({ phase: 'stopped' });
  } catch (error) {
    if (codeOf(error) !== 'embedded_postgres_locked') throw error;
    // Another process joins or leaves: the server is its own.
    await running.connection.close();
    telemetry.embeddedPostgres({ phase: 'left', detail: messageOf(error) });
  }
}

/**
 * Ends the server unless other processes use it, under the lock of the data folder.
 *
 * @returns the ids of the others
 */
async function letGo(
  { clock, telemetry }: EmbeddedOptions,
  { clusterDir }: ClusterPaths,
  running: Running,
  endMs?: number,
): Promise<number[]> {
  const found = await readPostmaster(clusterDir);
  // Another process may have started it anew since.
  const current =
    found === undefined || found.pid === running.pid
      ? running
      : ((await joinServer(found, { password: running.password, clusterDir, clock })) ?? running);
  const others = await otherUsers(current, clock);
  if (others.length === 0) {
    telemetry.embeddedPostgres({ phase: 'stopping' });
    if (await isServer(current, clusterDir)) {
      const leftMs = endMs === undefined ? undefined : endMs - clock.monotonicMs();
      await endServer(current.pid, clusterDir, clock, leftMs);
    }
  }
  await current.connection.close();
  return others;
}

function notRestarted({ clusterDir }: ClusterPaths, tries: number, error: unknown): StoreError {
  return new StoreError(
    'embedded_postgres_lost',
    `the embedded Postgres in ${clusterDir} is gone and could not be started again in ${tries} tries; what is stored is not touched by that. The last one failed: ${messageOf(error)}`,
    { cause: error },
  );
}

function removed({ clusterDir }: ClusterPaths): StoreError {
  return new StoreError(
    'embedded_postgres_failed',
    `the folder ${clusterDir} was taken away: put it back, or start anew`,
  );
}

function portTaken(port: number): StoreError {
  return new StoreError(
    'embedded_postgres_failed',
    `another program has taken port ${port}, by which this server is known: end that program, or name another port by database.embeddedPort (TAPEKEEP_DATABASE_EMBEDDED_PORT) and start again`,
  );
}
