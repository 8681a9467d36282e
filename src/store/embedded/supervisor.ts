import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import type { Clock } from '../../kernel/clock.js';
import { AbortedError, codeOf, messageOf } from '../../kernel/errors.js';
import { isAlive } from '../../kernel/processes.js';
import type { StoreEvents } from '../../observe/events.js';
import { StoreError } from '../errors.js';
import { type Account, chooseAccount, describeAccount } from './accounts.js';
import { findBinaries } from './binaries.js';
import {
  type ClusterPaths,
  clusterPaths,
  hasCluster,
  makeCluster,
  readPassword,
} from './cluster.js';
import { fullDisk } from './full-disk.js';
import { keepRunning } from './keeping.js';
import { programUrl, settleLogins, writeProgramPassword } from './logins.js';
import { MINIMAL_ENV, mayBePostgres } from './processes.js';
import {
  endOrphans,
  endServer,
  findRunning,
  freePort,
  GIVEN_UP_STOP_MS,
  launchServer,
  readPostmaster,
  type StartOptions,
} from './server.js';
import { joinUsers, leave, lockUnlessReadOnly, type Running, type ServerUser } from './sharing.js';

/** What {@link startEmbeddedPostgres} needs. */
export interface EmbeddedOptions {
  /** Folder of the installation; the cluster lives in `postgres` below it. */
  readonly dataDir: string;
  readonly clock: Clock;
  readonly telemetry: StoreEvents;
  /** Receives the server's own log lines. */
  readonly log?: (line: string) => void;
  /** Whole environment of the server's processes. */
  readonly env?: Readonly<Record<string, string>>;
  /** Deadline of start and of stop. Default 60,000. */
  readonly startTimeoutMs?: number;
  /** Called when the server was killed and cannot be started again. */
  readonly onLost?: (error: Error) => void;
  /** Gives up a start that is under way. */
  readonly signal?: AbortSignal;
}

export interface EmbeddedPostgres {
  /** Connection string, with the password. Loopback only. */
  readonly url: string;
  /**
   * Leaves the server, and ends it if no other process uses it: a fast shutdown, and harder ways when that
   * does not end it in time. The first call counts.
   *
   * @param options `timeoutMs` for all of it; 30 s when it is not given
   */
  stop(options?: { readonly timeoutMs?: number }): Promise<void>;
}

const START_TIMEOUT_MS = 60_000;
/** Recovery after a crash reads the journal again, whatever the size of the archive. */
const RESTART_TIMEOUT_MS = 300_000;
/** A port that was free a moment ago may be taken by the time the server listens. */
const PORT_TRIES = 3;

/**
 * Runs the Postgres that ships with tapekeep, on files below `dataDir`, or joins those that use it
 * already: the last one to leave ends it, whichever started it.
 *
 * States of the data folder: *empty* → *cluster made* (initdb, complete or not there at all) →
 * *server running* ⇄ *server down*. A server that is killed while it is used is started again on its port,
 * and `onLost` is called when that cannot be done. A server whose users are all gone without leaving, as after a
 * kill, is adopted by the next one, who then is the last. The server listens on the loopback interface
 * only, with a random password kept beside the cluster.
 *
 * @throws {@link StoreError} when it cannot run here; the message says what to do. The signal's reason
 * when it aborts; no unused server is left running then.
 */
export async function startEmbeddedPostgres(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const paths = clusterPaths(resolve(options.dataDir));
  await makeDataDir(paths.dataDir);
  const deadlineMs = deadlineOf(options);
  let user: ServerUser | undefined;
  const lock = await lockUnlessReadOnly(paths, { ...options, deadlineMs });
  try {
    user = await joinUsers(paths.usersDir);
    const others = await user.others();
    const running = await bringUp(options, paths, others.length > 0).catch(async (error: Error) => {
      const isGivenUp = options.signal?.aborted === true;
      if (isGivenUp && others.length === 0) await endAnyServer(options.clock, paths);
      throw (await fullDisk(paths.dataDir, error)) ?? error;
    });
    options.telemetry.embeddedPostgres({ phase: 'ready', detail: `port ${running.port}` });
    return joined(options, paths, user, running);
  } catch (error) {
    await user?.leave();
    const isPassing = error instanceof StoreError && error.action === 'retry';
    const phase = isPassing ? 'not started' : 'failed';
    const isGivenUp = options.signal?.aborted === true;
    const detail = messageOf(error);
    options.telemetry.embeddedPostgres({ phase: isGivenUp ? 'stopped' : phase, detail });
    throw error;
  } finally {
    await lock?.release();
  }
}

function deadlineOf({ clock, startTimeoutMs }: EmbeddedOptions): number {
  return clock.monotonicMs() + (startTimeoutMs ?? START_TIMEOUT_MS);
}

/** A start that was given up leaves no server behind, be it new or from an earlier run. */
async function endAnyServer(clock: Clock, paths: ClusterPaths): Promise<void> {
  const { clusterDir } = paths;
  const found = await readPostmaster(clusterDir);
  if (found === undefined || !isAlive(found.pid) || !(await mayBePostgres(found.pid))) return;
  await endServer(found.pid, await findBinaries(), clusterDir, clock, GIVEN_UP_STOP_MS);
}

/** Whether an embedded archive was ever made below `dataDir`. */
export function hasEmbeddedCluster(dataDir: string): Promise<boolean> {
  return hasCluster(clusterPaths(resolve(dataDir)));
}

async function makeDataDir(dataDir: string): Promise<void> {
  try {
    await mkdir(dataDir, { recursive: true });
  } catch (error) {
    const full = await fullDisk(dirname(dataDir), error);
    if (full !== undefined) throw full;
    throw new StoreError(
      'embedded_postgres_failed',
      'fatal',
      `cannot make the data folder ${dataDir} (${codeOf(error)}): make it a writable folder, or name another one by dataDir (TAPEKEEP_DATA_DIR)`,
      { cause: error },
    );
  }
}

/**
 * The server, found or started.
 *
 * @param port given at a restart: the one that its users know, and nothing is made anew then
 */
async function bringUp(
  options: EmbeddedOptions,
  paths: ClusterPaths,
  isShared: boolean,
  port?: number,
): Promise<Running> {
  const { clock, telemetry, signal } = options;
  const deadlineMs = deadlineOf(options);
  const isRestart = port !== undefined;
  const found = await findServer(options, paths, deadlineMs);
  if (found !== undefined) {
    const phase = isShared ? 'joined' : 'adopted';
    telemetry.embeddedPostgres({ phase, detail: `process ${found.pid}` });
    // Its first user may have been killed before it came to that.
    if (!isRestart) await admitPrograms(paths, found);
    signal?.throwIfAborted();
    return found;
  }
  const binaries = await findBinaries();
  const env = options.env ?? MINIMAL_ENV;
  const account = await chooseAccount(binaries, paths.dataDir, paths.clusterDir, env);
  signal?.throwIfAborted();
  const log = options.log === undefined ? undefined : byLine(options.log);
  if (!(await hasCluster(paths))) {
    if (isRestart) throw removed(paths);
    telemetry.embeddedPostgres({ phase: 'initialising', detail: describeAccount(account) });
    await makeCluster(paths, binaries, account, env, log, signal);
  }
  const password = await readPassword(paths);
  const start: StartOptions = {
    clusterDir: paths.clusterDir,
    password,
    binaries,
    account,
    env,
    clock,
    deadlineMs: deadlineOf(options),
    signal,
    ...(log === undefined ? {} : { log }),
  };
  await endOrphans(paths.clusterDir, clock);
  telemetry.embeddedPostgres({ phase: 'starting', detail: describeAccount(account) });
  const launched = await launchOnFreePort(start, paths, account, port);
  try {
    await admitPrograms(paths, { port: launched.port, password });
    signal?.throwIfAborted();
  } catch (error) {
    await endServer(launched.pid, binaries, paths.clusterDir, clock);
    throw error;
  }
  return { ...launched, password };
}

async function admitPrograms(
  { programPasswordFile }: ClusterPaths,
  { port, password }: Pick<Running, 'port' | 'password'>,
): Promise<void> {
  await settleLogins(port, password);
  await writeProgramPassword(programPasswordFile, password);
}

/** The server that runs on these files, if one does. */
async function findServer(
  { clock, signal }: EmbeddedOptions,
  paths: ClusterPaths,
  deadlineMs: number,
): Promise<Running | undefined> {
  const { clusterDir } = paths;
  if (!(await hasCluster(paths)) || (await readPostmaster(clusterDir)) === undefined) {
    return undefined;
  }
  const password = await readPassword(paths);
  const found = await findRunning({ clusterDir, password, clock, deadlineMs, signal });
  return found === undefined ? undefined : { ...found, password };
}

/** The port of last time if it is free, so that saved connections of people go on working. */
async function launchOnFreePort(
  start: StartOptions,
  paths: ClusterPaths,
  account: Account,
  onlyPort?: number,
): Promise<{ pid: number; port: number }> {
  const lastPort = Number((await readFile(paths.portFile, 'utf8').catch(() => '')).trim()) || 0;
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort(attempt === 1 ? (onlyPort ?? lastPort) : 0);
    if (onlyPort !== undefined && port !== onlyPort) throw portTaken(onlyPort);
    try {
      const pid = await launchServer({ ...start, account }, port);
      await writeFile(paths.portFile, `${port}\n`);
      return { pid, port };
    } catch (error) {
      start.signal?.throwIfAborted();
      const isPortTaken = messageOf(error).includes('Address already in use');
      if (!isPortTaken || onlyPort !== undefined || attempt >= PORT_TRIES) throw error;
    }
  }
}

function joined(
  options: EmbeddedOptions,
  paths: ClusterPaths,
  user: ServerUser,
  running: Running,
): EmbeddedPostgres {
  const ending = new AbortController();
  let current = running;
  const kept = keepRunning(running, {
    ...{ clock: options.clock, telemetry: options.telemetry, signal: ending.signal },
    clusterDir: paths.clusterDir,
    startAgain: async () => {
      current = await startAgain({ ...options, signal: ending.signal }, paths, running.port);
      return current;
    },
  }).catch((error: Error) => {
    if (ending.signal.aborted) return;
    options.telemetry.embeddedPostgres({ phase: 'failed', detail: messageOf(error) });
    options.onLost?.(error);
  });
  let stopping: Promise<void> | undefined;
  return {
    url: programUrl(running.port, running.password),
    stop(limits) {
      ending.abort(new AbortedError());
      stopping ??= kept.then(() => leave(options, paths, user, current, limits?.timeoutMs));
      return stopping;
    },
  };
}

/** After its loss, by whichever of its users has the lock first. */
async function startAgain(
  options: EmbeddedOptions,
  paths: ClusterPaths,
  port: number,
): Promise<Running> {
  const timed = { ...options, startTimeoutMs: RESTART_TIMEOUT_MS };
  const lock = await lockUnlessReadOnly(paths, { ...timed, deadlineMs: deadlineOf(timed) });
  try {
    const running = await bringUp(timed, paths, true, port).catch(async (error: Error) => {
      throw (await fullDisk(paths.dataDir, error)) ?? error;
    });
    if (running.port !== port) throw portTaken(port);
    options.telemetry.embeddedPostgres({ phase: 'ready', detail: `port ${port}, again` });
    return running;
  } finally {
    await lock?.release();
  }
}

function removed({ clusterDir }: ClusterPaths): StoreError {
  return new StoreError(
    'embedded_postgres_failed',
    'fatal',
    `the folder ${clusterDir} was taken away: put it back, or start anew`,
  );
}

function portTaken(port: number): StoreError {
  return new StoreError(
    'embedded_postgres_failed',
    'fatal',
    `another program has taken port ${port}, which the users of this server know it by: the next start finds a free one`,
  );
}

/** Cuts a child's output into lines. */
function byLine(log: (line: string) => void): (text: string) => void {
  let rest = '';
  return (text) => {
    const lines = (rest + text).split('\n');
    rest = (lines.pop() ?? '').slice(-4_096);
    for (const line of lines) if (line.trim() !== '') log(line);
  };
}
