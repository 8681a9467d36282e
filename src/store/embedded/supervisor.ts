import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Clock } from '../../kernel/clock.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import type { EmbeddedOptions, EmbeddedPostgres } from '../api.js';
import { StoreError } from '../errors.js';
import { type Account, chooseAccount, describeAccount } from './accounts.js';
import { type Binaries, findBinaries } from './binaries.js';
import {
  type ClusterPaths,
  clusterPaths,
  hasCluster,
  makeCluster,
  readPassword,
} from './cluster.js';
import { type DataDirLock, lockDataDir } from './lock.js';
import { embeddedUrl, ensureDatabase, readPostmaster } from './probe.js';
import { isAlive, MINIMAL_ENV, mayBePostgres } from './processes.js';
import {
  endServer,
  findRunning,
  freePort,
  GIVEN_UP_STOP_MS,
  launchServer,
  type StartOptions,
} from './server.js';

const START_TIMEOUT_MS = 60_000;
/** A port that was free a moment ago may be taken by the time the server listens. */
const PORT_TRIES = 3;

/** A start that can be given up. */
export interface AbortableOptions extends EmbeddedOptions {
  readonly signal?: AbortSignal;
}

/** A server whose end can be given a time. */
export interface StoppableEmbeddedPostgres extends EmbeddedPostgres {
  /**
   * Fast shutdown, and harder ways when that does not end it in time. The first call counts.
   *
   * @param options `timeoutMs` for all of it; 30 s when it is not given
   */
  stop(options?: { readonly timeoutMs?: number }): Promise<void>;
}

/**
 * Runs the Postgres that ships with tapekeep, on files below `dataDir`.
 *
 * States of the data folder: *empty* → *cluster made* (initdb, complete or not there at all) →
 * *server running* ⇄ *server down*. A server that outlived its daemon is adopted. The server
 * listens on the loopback interface only, with a random password kept beside the cluster.
 *
 * @throws {@link StoreError} when another tapekeep runs it, or it can not run here; the message
 * says what to do. The signal's reason when it aborts; no server is left running then.
 */
export async function startEmbeddedPostgres(
  options: AbortableOptions,
): Promise<StoppableEmbeddedPostgres> {
  const paths = clusterPaths(resolve(options.dataDir));
  await makeDataDir(paths.dataDir);
  const lock = await lockDataDir(paths.lockFile, paths.dataDir);
  try {
    const binaries = await findBinaries();
    const running = await bringUp(options, paths, binaries).catch(async (error: Error) => {
      if (options.signal?.aborted === true) await endAnyServer(options.clock, paths, binaries);
      throw error;
    });
    options.telemetry.embeddedPostgres({ phase: 'ready', detail: `port ${running.port}` });
    return owned(options, paths, binaries, lock, running);
  } catch (error) {
    await lock.release();
    const phase = options.signal?.aborted === true ? 'stopped' : 'failed';
    options.telemetry.embeddedPostgres({ phase, detail: messageOf(error) });
    throw error;
  }
}

/** A start that was given up leaves no server behind, be it new or from an earlier run. */
async function endAnyServer(clock: Clock, paths: ClusterPaths, binaries: Binaries): Promise<void> {
  const { clusterDir } = paths;
  const found = await readPostmaster(clusterDir);
  if (found === undefined || !isAlive(found.pid) || !(await mayBePostgres(found.pid))) return;
  await endServer(found.pid, binaries, clusterDir, clock, GIVEN_UP_STOP_MS);
}

/** Whether an embedded archive was ever made below `dataDir`. */
export function hasEmbeddedCluster(dataDir: string): Promise<boolean> {
  return hasCluster(clusterPaths(resolve(dataDir)));
}

/**
 * Finds the server that a daemon runs on `dataDir`, for a command that wants to look into the same
 * archive. It is not the command's to stop.
 */
export async function findEmbeddedPostgres(
  options: Pick<EmbeddedOptions, 'dataDir' | 'clock'>,
): Promise<{ readonly url: string } | undefined> {
  const paths = clusterPaths(resolve(options.dataDir));
  if (!(await hasCluster(paths)) || (await readPostmaster(paths.clusterDir)) === undefined) {
    return undefined;
  }
  const password = await readPassword(paths);
  const deadlineMs = options.clock.monotonicMs() + START_TIMEOUT_MS;
  const { clusterDir } = paths;
  const running = await findRunning({ clusterDir, password, clock: options.clock, deadlineMs });
  return running === undefined ? undefined : { url: embeddedUrl(running.port, password) };
}

interface Running {
  readonly pid: number;
  readonly port: number;
  readonly password: string;
}

async function makeDataDir(dataDir: string): Promise<void> {
  try {
    await mkdir(dataDir, { recursive: true });
  } catch (error) {
    throw new StoreError(
      'embedded_postgres_failed',
      'fatal',
      `can not make the data folder ${dataDir} (${codeOf(error)}): make it a writable folder, or name another one by dataDir (TAPEKEEP_DATA_DIR)`,
      { cause: error },
    );
  }
}

async function bringUp(
  options: AbortableOptions,
  paths: ClusterPaths,
  binaries: Binaries,
): Promise<Running> {
  const { clock, telemetry, signal } = options;
  const env = options.env ?? MINIMAL_ENV;
  const account = await chooseAccount(binaries, paths.dataDir, paths.clusterDir, env);
  signal?.throwIfAborted();
  const log = options.log === undefined ? undefined : byLine(options.log);
  if (!(await hasCluster(paths))) {
    telemetry.embeddedPostgres({ phase: 'initialising', detail: describeAccount(account) });
    await makeCluster(paths, binaries, account, env, log, signal);
  }
  const password = await readPassword(paths);
  const deadlineMs = clock.monotonicMs() + (options.startTimeoutMs ?? START_TIMEOUT_MS);
  const start: StartOptions = {
    clusterDir: paths.clusterDir,
    password,
    binaries,
    account,
    env,
    clock,
    deadlineMs,
    signal,
    ...(log === undefined ? {} : { log }),
  };
  const adopted = await findRunning(start);
  if (adopted !== undefined) {
    telemetry.embeddedPostgres({ phase: 'adopted', detail: `process ${adopted.pid}` });
    await ensureDatabase(adopted.port, password);
    signal?.throwIfAborted();
    return { ...adopted, password };
  }
  telemetry.embeddedPostgres({ phase: 'starting', detail: describeAccount(account) });
  const launched = await launchOnFreePort(start, paths, account);
  try {
    await ensureDatabase(launched.port, password);
    signal?.throwIfAborted();
  } catch (error) {
    await endServer(launched.pid, binaries, paths.clusterDir, clock);
    throw error;
  }
  return { ...launched, password };
}

/** The port of last time if it is free, so that saved connections of people go on working. */
async function launchOnFreePort(
  start: StartOptions,
  paths: ClusterPaths,
  account: Account,
): Promise<{ pid: number; port: number }> {
  const lastPort = Number((await readFile(paths.portFile, 'utf8').catch(() => '')).trim()) || 0;
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort(attempt === 1 ? lastPort : 0);
    try {
      const pid = await launchServer({ ...start, account }, port);
      await writeFile(paths.portFile, `${port}\n`);
      return { pid, port };
    } catch (error) {
      start.signal?.throwIfAborted();
      const isPortTaken = messageOf(error).includes('Address already in use');
      if (!isPortTaken || attempt >= PORT_TRIES) throw error;
    }
  }
}

function owned(
  options: EmbeddedOptions,
  paths: ClusterPaths,
  binaries: Binaries,
  lock: DataDirLock,
  running: Running,
): StoppableEmbeddedPostgres {
  let stopping: Promise<void> | undefined;
  const end = async (timeoutMs?: number) => {
    options.telemetry.embeddedPostgres({ phase: 'stopping' });
    // Only a process that still is this cluster's server: ids are reused.
    const current = await readPostmaster(paths.clusterDir);
    if (current?.pid === running.pid) {
      await endServer(running.pid, binaries, paths.clusterDir, options.clock, timeoutMs);
    }
    await lock.release();
    options.telemetry.embeddedPostgres({ phase: 'stopped' });
  };
  return {
    url: embeddedUrl(running.port, running.password),
    stop(limits) {
      stopping ??= end(limits?.timeoutMs);
      return stopping;
    },
  };
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
