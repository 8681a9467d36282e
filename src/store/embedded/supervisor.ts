import { access, constants, readFile, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { type Clock, sleep, unlessAborted } from '../../kernel/clock.js';
import { AbortedError, codeOf, isAborted, messageOf, TapekeepError } from '../../kernel/errors.js';
import { FileLock } from '../../kernel/file-lock.js';
import { makeFolder } from '../../kernel/folders.js';
import { isAlive } from '../../kernel/processes.js';
import { systemRandom } from '../../kernel/random.js';
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
  makeCluster,
  readPassword,
} from './cluster.js';
import {
  isServer,
  joinServer,
  programUrl,
  type Reader,
  type ReaderWanted,
  type Running,
  readerUrl,
  readReader,
  settleLogins,
  settleReader,
  writeProgramPassword,
} from './logins.js';
import { endOrphans, endServer, STOP_TIMEOUT_MS, whose } from './processes.js';
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
  /**
   * Given by a program that is to stay: it also takes the server over when the owner ends. Called when the server
   * cannot be started again.
   */
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
   * Ends the server where this process owns it: a fast shutdown, and harder ways when that does not end it in
   * time. The first call counts.
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
/** Attempts to start a lost server again, without a steady time between them. */
const RESTARTS_MAX = 7;
/** A server that ran for so long is steady: the next loss is a new one. */
const STEADY_MS = 60_000;
/** Without jitter: one process starts it. */
const RESTART_WAIT = { baseMs: 500, capMs: 10_000 };

/**
 * Runs the Postgres that ships with tapekeep, on files below `dataDir`, or finds the one that runs there.
 *
 * The first process that needs the server owns it: it holds the lock of the data folder, starts the server, starts it
 * again on its port when it is lost, and ends it. Other processes connect to it, and never end it. A server whose owner
 * was killed belongs to the next process. The server listens on the loopback interface only, with a random password kept
 * beside the cluster.
 *
 * @throws {@link StoreError} when it cannot run here; the message says what to do. The signal's reason
 * when it aborts; no server without an owner is left running then.
 */
export async function startEmbeddedPostgres(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const paths = clusterPaths(resolve(options.dataDir));
  await makeDataDir(paths.dataDir);
  try {
    const held = await bringUp(options, paths);
    options.telemetry.embeddedPostgres({ phase: 'ready', detail: `port ${held.port}` });
    return await supervise(options, paths, held);
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

/** A server whose logins are made. */
interface Served extends Running, EmbeddedAddresses {}

function served(server: Running, reader: Reader): Served {
  const { port, password } = server;
  return { ...server, url: programUrl(port, password), readerUrl: readerUrl(port, reader) };
}

/** The server that runs on these files, whoever owns it; undefined when none does. */
async function findServer(paths: ClusterPaths, clock: Clock): Promise<Served | undefined> {
  const { clusterDir } = paths;
  const found = await readPostmaster(clusterDir);
  if (found === undefined || !isAlive(found.pid)) return undefined;
  const password = await readPassword(paths);
  const server = await joinServer(found, { password, clusterDir, clock });
  // The owner writes it when all else is made.
  const reader = await readReader(paths.readerFile);
  if (server !== undefined && reader !== undefined) return served(server, reader);
  await server?.connection.close();
  return undefined;
}

/** The addresses of the server that runs on the files below `dataDir`; undefined when none does. */
export async function findEmbeddedPostgres(
  dataDir: string,
  clock: Clock,
): Promise<EmbeddedAddresses | undefined> {
  const found = await findServer(clusterPaths(resolve(dataDir)), clock);
  await found?.connection.close();
  return found;
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

/** A server, with the way to give its ownership back; without one another process owns it. */
interface Held extends Served {
  readonly release?: (() => Promise<void>) | undefined;
}

/**
 * Takes the ownership and runs the server, or finds that of its owner. Waits for an owner that starts or stops it.
 *
 * @param lost given at a restart: its users know its port, and no cluster is made then
 */
async function bringUp(options: EmbeddedOptions, paths: ClusterPaths, lost?: Held): Promise<Held> {
  const { clock, signal } = options;
  let found: Served | undefined;
  const isFound = async () => {
    found = await findServer(paths, clock);
    return found !== undefined;
  };
  try {
    const release = lost?.release ?? (await lockOf(options, paths).acquire(signal, isFound));
    try {
      const server = found ?? (await runServer(options, paths, lost?.port));
      if (server.port === (lost?.port ?? server.port)) return { ...server, release };
      await server.connection.close();
      throw portTaken(lost?.port ?? server.port);
    } catch (error) {
      if (lost?.release === undefined) await release?.();
      throw error;
    }
  } catch (error) {
    throw (await fullDisk(paths.dataDir, error)) ?? error;
  }
}

/** Held by the owner for as long as it lives. Postgres' own `postmaster.pid` keeps two servers off one cluster. */
export function lockOf(
  options: Pick<EmbeddedOptions, 'clock' | 'telemetry' | 'startTimeoutMs'>,
  { lockFile, dataDir }: ClusterPaths,
): FileLock {
  const { clock, telemetry, startTimeoutMs: waitMs = START_TIMEOUT_MS } = options;
  return new FileLock({
    ...{ path: lockFile, clock, random: systemRandom, waitMs },
    onWait: (holder) =>
      telemetry.embeddedPostgres({ phase: 'waiting', detail: `${holder} starts or stops it` }),
    refusal: (holder) =>
      new StoreError(
        'embedded_postgres_locked',
        `another tapekeep (${holder}) has been starting or stopping the database in ${dataDir} for long: see what it reports, try again when it has ended, end it if it hangs, or give this one another dataDir (TAPEKEEP_DATA_DIR)`,
      ),
  });
}

/** As its owner: takes over a server that was left running, or starts one, and makes the logins. */
async function runServer(
  options: EmbeddedOptions,
  paths: ClusterPaths,
  port?: number,
): Promise<Served> {
  const { clusterDir } = paths;
  const { clock, telemetry, signal, reader = AS_IT_IS } = options;
  let server: Running | undefined;
  if ((await hasCluster(paths)) && (await readPostmaster(clusterDir)) !== undefined) {
    const onWait = (pid: number) =>
      telemetry.embeddedPostgres({
        phase: 'waiting',
        detail: `process ${pid} does not answer yet`,
      });
    const limits = { password: await readPassword(paths), deadlineMs: deadlineOf(options), onWait };
    server = await findRunning({ clusterDir, clock, signal, ...limits });
    if (server !== undefined) {
      telemetry.embeddedPostgres({ phase: 'taken over', detail: `process ${server.pid}` });
    }
  }
  server ??= await startServer(options, paths, port);
  try {
    await settleLogins(server, clock);
    await writeProgramPassword(paths.programPasswordFile, server.password);
    const settled = await settleReader(server, paths.readerFile, reader);
    signal?.throwIfAborted();
    return served(server, settled);
  } catch (error) {
    await stopServer(options, paths, server);
    throw error;
  }
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
  held: Held;
  trouble: string | undefined;
}

async function supervise(
  options: EmbeddedOptions,
  paths: ClusterPaths,
  held: Held,
): Promise<EmbeddedPostgres> {
  const { url, readerUrl, release } = held;
  if (release === undefined && options.onLost === undefined) {
    await held.connection.close();
    return { url, readerUrl, trouble: () => undefined, stop: () => Promise.resolve() };
  }
  const ending = new AbortController();
  const kept: Kept = { held, trouble: undefined };
  const keeping = keepRunning({ ...options, signal: ending.signal }, paths, kept).catch(
    (error: Error) => {
      if (ending.signal.aborted) return;
      options.telemetry.embeddedPostgres({ phase: 'failed', detail: messageOf(error) });
      options.onLost?.(error);
    },
  );
  let stopping: Promise<void> | undefined;
  return {
    ...{ url, readerUrl },
    trouble: () => kept.trouble,
    stop(limits) {
      ending.abort(new AbortedError());
      stopping ??= keeping.then(() => leave(options, paths, kept.held, limits?.timeoutMs));
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
    const { held } = kept;
    held.connection.keepAlive(false);
    await unlessAborted(signal, held.connection.ended);
    if (clock.monotonicMs() - sinceMs >= STEADY_MS) tries = 0;
    if (held.release !== undefined && (await whose(held.pid, paths.clusterDir)) === 'other') {
      telemetry.embeddedPostgres({ phase: 'lost', detail: `process ${held.pid} is gone` });
    }
    const backoff = new Backoff(RESTART_WAIT, () => 1);
    while (kept.held === held) {
      tries += 1;
      try {
        const timed = { ...options, startTimeoutMs: RESTART_TIMEOUT_MS };
        kept.held = await bringUp(timed, paths, held);
        kept.trouble = undefined;
        telemetry.embeddedPostgres({ phase: 'ready', detail: `port ${held.port}, again` });
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

/** Ends the server where it is owned, then gives the ownership back. */
async function leave(
  options: EmbeddedOptions,
  paths: ClusterPaths,
  { release, ...server }: Held,
  timeoutMs?: number,
): Promise<void> {
  server.connection.keepAlive(true);
  if (release === undefined) return await server.connection.close();
  await stopServer(options, paths, server, timeoutMs);
  options.telemetry.embeddedPostgres({ phase: 'stopped' });
  await release();
}

async function stopServer(
  { clock, telemetry }: EmbeddedOptions,
  { clusterDir }: ClusterPaths,
  server: Running,
  timeoutMs = STOP_TIMEOUT_MS,
): Promise<void> {
  telemetry.embeddedPostgres({ phase: 'stopping' });
  if (await isServer(server, clusterDir)) await endServer(server.pid, clusterDir, clock, timeoutMs);
  await server.connection.close();
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
    `data directory ${clusterDir} is missing; restore it or choose another`,
  );
}

function portTaken(port: number): StoreError {
  return new StoreError(
    'embedded_postgres_failed',
    `another program has taken port ${port}, by which this server is known: end that program, or name another port by database.embeddedPort (TAPEKEEP_DATABASE_EMBEDDED_PORT) and start again`,
  );
}
