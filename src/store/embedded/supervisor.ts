import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
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
import { MINIMAL_ENV } from './processes.js';
import { endServer, findRunning, freePort, launchServer, type StartOptions } from './server.js';

const START_TIMEOUT_MS = 60_000;
/** A port that was free a moment ago may be taken by the time the server listens. */
const PORT_TRIES = 3;

/**
 * Runs the Postgres that ships with tapekeep, on files below `dataDir`.
 *
 * States of the data folder: *empty* → *cluster made* (initdb, complete or not there at all) →
 * *server running* ⇄ *server down*. A server that outlived its daemon is adopted. The server
 * listens on the loopback interface only, with a random password kept beside the cluster.
 *
 * @throws {@link StoreError} when another tapekeep runs it, or it can not run here; the message
 * says what to do.
 */
export async function startEmbeddedPostgres(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const paths = clusterPaths(resolve(options.dataDir));
  await makeDataDir(paths.dataDir);
  const lock = await lockDataDir(paths.lockFile, paths.dataDir);
  try {
    const binaries = await findBinaries();
    const running = await bringUp(options, paths, binaries);
    options.telemetry.embeddedPostgres({ phase: 'ready', detail: `port ${running.port}` });
    return owned(options, paths, binaries, lock, running);
  } catch (error) {
    await lock.release();
    options.telemetry.embeddedPostgres({ phase: 'failed', detail: messageOf(error) });
    throw error;
  }
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
  options: EmbeddedOptions,
  paths: ClusterPaths,
  binaries: Binaries,
): Promise<Running> {
  const { clock, telemetry } = options;
  const env = options.env ?? MINIMAL_ENV;
  const account = await chooseAccount(binaries, paths.dataDir, paths.clusterDir, env);
  const log = options.log === undefined ? undefined : byLine(options.log);
  if (!(await hasCluster(paths))) {
    telemetry.embeddedPostgres({ phase: 'initialising', detail: describeAccount(account) });
    await makeCluster(paths, binaries, account, env, log);
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
    ...(log === undefined ? {} : { log }),
  };
  const adopted = await findRunning(start);
  if (adopted !== undefined) {
    telemetry.embeddedPostgres({ phase: 'adopted', detail: `process ${adopted.pid}` });
    await ensureDatabase(adopted.port, password);
    return { ...adopted, password };
  }
  telemetry.embeddedPostgres({ phase: 'starting', detail: describeAccount(account) });
  const launched = await launchOnFreePort(start, paths, account);
  try {
    await ensureDatabase(launched.port, password);
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
): EmbeddedPostgres {
  let stopping: Promise<void> | undefined;
  const end = async () => {
    options.telemetry.embeddedPostgres({ phase: 'stopping' });
    // Only a process that still is this cluster's server: ids are reused.
    const current = await readPostmaster(paths.clusterDir);
    if (current?.pid === running.pid) {
      await endServer(running.pid, binaries, paths.clusterDir, options.clock);
    }
    await lock.release();
    options.telemetry.embeddedPostgres({ phase: 'stopped' });
  };
  return {
    url: embeddedUrl(running.port, running.password),
    stop() {
      stopping ??= end();
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
