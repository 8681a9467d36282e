import { type ChildProcess, spawn } from 'node:child_process';
import { readdir, readFile, rm, stat, statfs } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { release } from 'node:os';
import { dirname, join } from 'node:path';
import { type Clock, sleep } from '../../kernel/clock.js';
import { messageOf } from '../../kernel/errors.js';
import { isAlive } from '../../kernel/processes.js';
import { StoreError } from '../errors.js';
import { type Account, collectOutput, commandAs, MINIMAL_ENV } from './accounts.js';
import type { Binaries } from './binaries.js';
import { fullDisk } from './cluster.js';
import { joinServer, type Running } from './logins.js';
import { endServer, type Whose, whose } from './processes.js';

/** How often a starting or ending server is looked at. */
const LOOK_EVERY_MS = 25;
/** For a server that never served: it has nothing to write out. */
const GIVEN_UP_STOP_MS = 4_000;

/** A server needs that much at once: some segments of its journal, of 16 MiB each. */
const SCARCE_BYTES = 64 * 2 ** 20;

/** Settings of the embedded server, given on its command line so that none goes stale in a file. */
function settings(port: number, syncMethod: string): string[] {
  const values: Record<string, string | number> = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    password_encryption: 'scram-sha-256',
    max_connections: 100,
    shared_buffers: '128MB',
    max_wal_size: '1GB',
    recovery_init_sync_method: syncMethod,
    wal_compression: 'on',
    fsync: 'on',
    synchronous_commit: 'on',
    full_page_writes: 'on',
    timezone: 'UTC',
    log_timezone: 'UTC',
    // The server outlives a killed daemon, so its log must not hang on the daemon's pipe. A ring
    // of seven daily files, each begun anew.
    logging_collector: 'on',
    log_directory: 'log',
    log_filename: 'server-%a.log',
    log_truncate_on_rotation: 'on',
    log_rotation_age: '1d',
    log_rotation_size: 0,
    log_min_messages: 'warning',
    log_min_error_statement: 'panic',
  };
  return Object.entries(values).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

/**
 * How a server that was killed makes sure, before it recovers, that all files are on the disk. One by one takes
 * seconds for thousands of partitions; the whole file system at once reports every error since Linux 5.8.
 *
 * @param kernel its version
 */
export function syncMethodOf(platform: NodeJS.Platform, kernel: string): 'fsync' | 'syncfs' {
  if (platform !== 'linux') return 'fsync';
  const [, major = 0, minor = 0] = /^(\d+)\.(\d+)/.exec(kernel)?.map(Number) ?? [];
  return major > 5 || (major === 5 && minor >= 8) ? 'syncfs' : 'fsync';
}

/** A port of the loopback interface that is free now; `preferred` if that one is. */
export async function freePort(preferred: number): Promise<number> {
  return (await tryListen(preferred)) ?? (await tryListen(0)) ?? 0;
}

function tryListen(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
      const address = server.address();
      const got = typeof address === 'object' && address !== null ? address.port : undefined;
      server.close(() => resolve(got));
    });
  });
}

export interface StartOptions {
  readonly clusterDir: string;
  readonly password: string;
  readonly binaries: Binaries;
  readonly account: Account;
  readonly clock: Clock;
  readonly deadlineMs: number;
  /** Ends a start that is under way. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Starts the server in a process group of its own: a Ctrl-C on the terminal must not end it before
 * the daemon has flushed. Returns when it answers.
 *
 * @throws {@link StoreError} with the end of the server's log.
 */
export async function launchServer(options: StartOptions, port: number): Promise<Running> {
  const { binaries, account, clusterDir, clock } = options;
  const given = settings(port, syncMethodOf(process.platform, release()));
  const serving = ['-D', clusterDir, ...given];
  const { file, args, uid, gid } = commandAs(account, binaries.postgres, serving);
  const before = await endOfLog(clusterDir);
  let child: ChildProcess;
  try {
    child = spawn(file, [...args], {
      ...{ uid, gid, env: MINIMAL_ENV },
      cwd: '/',
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
  } catch (error) {
    throw await launchFailed(clusterDir, messageOf(error), { cause: error });
  }
  const output = collectOutput(child);
  let isGone = false;
  const gone = () => {
    isGone = true;
  };
  child.once('exit', gone).once('error', gone);
  // Neither the process nor its pipe keeps ours alive; the supervisor decides when it ends.
  child.unref();
  (child.stderr as Socket | null)?.unref();
  while (!isGone && options.signal?.aborted !== true && clock.monotonicMs() < options.deadlineMs) {
    const found = await readPostmaster(clusterDir);
    if (found !== undefined && found.pid === child.pid) {
      const running = await joinServer(found, options);
      if (running !== undefined) return running;
    }
    await sleep(clock, LOOK_EVERY_MS);
  }
  if (!isGone && child.pid !== undefined) {
    await endServer(child.pid, clusterDir, clock, GIVEN_UP_STOP_MS);
  }
  options.signal?.throwIfAborted();
  const said = isGone ? output() : `${output()}\nno answer in time`;
  throw await launchFailed(clusterDir, said, { before });
}

/** @param about `before`: where its log ended before this start */
async function launchFailed(
  clusterDir: string,
  said: string,
  about: { readonly before?: LogEnd; readonly cause?: unknown },
): Promise<StoreError> {
  const { earlier, now } = await readLog(clusterDir, about.before);
  const full =
    (await fullDisk(dirname(clusterDir), said)) ?? (await fullByLog(clusterDir, earlier + now));
  if (full !== undefined) return full;
  const own = reasonOf(`${said}\n${now}`) ?? lastLines(`${now}\n${said}`, 6);
  const [, advice = ''] = ADVICE.find(([pattern]) => pattern.test(own)) ?? [];
  const before = lastLines(earlier, 3);
  const text = [
    `the embedded Postgres in ${clusterDir} did not start: ${own.slice(0, 1_000)}`,
    advice.replace('FOLDER', clusterDir),
    before === '' ? '' : `its log from before: ${before.slice(0, 500)}`,
  ];
  const message = text.filter((part) => part !== '').join('; ');
  return new StoreError('embedded_postgres_failed', message, { cause: about.cause });
}

/** What to do about it, by what the server says. */
const ADVICE: ReadonlyArray<readonly [RegExp, string]> = [
  [
    /incompatible with server/,
    'start the tapekeep that made it, or bring the archive over as "Upgrade" in docs/guides/keeping-an-archive.md says',
  ],
  [/invalid permissions/, 'run chmod 700 FOLDER'],
  [
    /wrong ownership/,
    'run tapekeep as the user that owns FOLDER, or pass the folder on with chown',
  ],
  [/Permission denied/, 'all files below FOLDER must belong to the user that the server runs as'],
];

function lastLines(text: string, count: number): string {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return lines.slice(-count).join(' | ');
}

/** What a server says last before it gives up, with its own detail and hint. */
function reasonOf(text: string): string | undefined {
  const lines = text.split('\n').map((line) => line.replace(/^.*?\b(?=[A-Z]+: {2})/, ''));
  const at = lines.findLastIndex((line) => /^(FATAL|PANIC): {2}/.test(line));
  if (at === -1) return undefined;
  const added = lines.slice(at + 1, at + 3).filter((line) => /^(DETAIL|HINT): {2}/.test(line));
  return [lines[at] ?? '', ...added].map((line) => line.replace(/^[A-Z]+: {2}/, '')).join('; ');
}

/** A disk that the log calls full, where it has hardly any room now: its newest lines may be of last week. */
async function fullByLog(clusterDir: string, log: string): Promise<StoreError | undefined> {
  const { bavail, bsize } = await statfs(clusterDir);
  return bavail * bsize < SCARCE_BYTES ? await fullDisk(dirname(clusterDir), log) : undefined;
}

/** The newest file of a server's log, and how long it is. */
interface LogEnd {
  readonly path: string;
  readonly size: number;
}

async function endOfLog(clusterDir: string): Promise<LogEnd> {
  const dir = join(clusterDir, 'log');
  let newest = { path: '', size: 0, at: 0 };
  for (const name of await readdir(dir).catch(() => [])) {
    const path = join(dir, name);
    const { mtimeMs: at, size } = (await stat(path).catch(() => undefined)) ?? {
      mtimeMs: 0,
      size: 0,
    };
    if (at > newest.at) newest = { path, size, at };
  }
  return newest;
}

/** The end of the log: what a start has added, and what stood there before it. */
async function readLog(clusterDir: string, before?: LogEnd) {
  const { path } = await endOfLog(clusterDir);
  const bytes = await readFile(path).catch(() => Buffer.alloc(0));
  const isSame = before !== undefined && before.path === path && before.size <= bytes.length;
  const at = before === undefined ? bytes.length : isSame ? before.size : 0;
  const end = (part: Buffer) => part.subarray(-2_000).toString('utf8');
  return { earlier: end(bytes.subarray(0, at)), now: end(bytes.subarray(at)) };
}

/**
 * Joins a server that still runs on the cluster, as after a kill of the daemon. Waits for one that is starting or
 * going down, and ends it when the signal aborts that. A `postmaster.pid` whose process id belongs to another
 * program by now, also to another server, is removed, because Postgres itself would refuse to start over it.
 *
 * @param options.onWait called once, when a process is waited for
 */
export async function findRunning(
  options: Pick<StartOptions, 'clusterDir' | 'password' | 'clock' | 'deadlineMs' | 'signal'> & {
    readonly onWait?: (pid: number) => void;
  },
): Promise<Running | undefined> {
  const { clusterDir, clock, signal } = options;
  for (let isNoted = false; ; ) {
    const found = await readPostmaster(clusterDir);
    if (found === undefined || !isAlive(found.pid)) return undefined;
    const owner = await whose(found.pid, clusterDir);
    if (owner === 'other') {
      await rm(join(clusterDir, 'postmaster.pid'), { force: true });
      return undefined;
    }
    const running = await joinServer(found, options);
    if (running !== undefined) return running;
    if (signal?.aborted === true) {
      if (owner === 'ours') await endServer(found.pid, clusterDir, clock, GIVEN_UP_STOP_MS);
      signal.throwIfAborted();
    }
    if (clock.monotonicMs() >= options.deadlineMs) {
      // Where the disk is full, no one can log in.
      const full = await fullByLog(clusterDir, (await readLog(clusterDir)).earlier);
      throw full ?? noAnswer(clusterDir, found, owner);
    }
    if (!isNoted) options.onWait?.(found.pid);
    isNoted = true;
    await sleep(clock, LOOK_EVERY_MS);
  }
}

function noAnswer(
  clusterDir: string,
  { pid, port }: Pick<Running, 'pid' | 'port'>,
  owner: Whose,
): StoreError {
  const file = join(clusterDir, 'postmaster.pid');
  const text =
    owner === 'ours'
      ? `a Postgres server (process ${pid}) holds ${clusterDir} but does not answer on port ${port} to the stored password; end that process, then start again`
      : `${file} names process ${pid}, which runs, and nothing shows whether it is the server of this folder: it does not answer on port ${port} to the stored password. End it if it is that server, or remove ${file} if it is another program; then start again`;
  return new StoreError('embedded_postgres_failed', text);
}

/**
 * Reads `postmaster.pid` of a server that runs, or ran until it was killed (line 1: process id, line 4:
 * port); undefined when there is none.
 */
export async function readPostmaster(
  clusterDir: string,
): Promise<Pick<Running, 'pid' | 'port'> | undefined> {
  const text = await readFile(join(clusterDir, 'postmaster.pid'), 'utf8').catch(() => '');
  const lines = text.split('\n');
  const pid = Number(lines[0]);
  if (!Number.isInteger(pid) || pid < 1) return undefined;
  // A server that has only begun to start has not written its port yet.
  return { pid, port: Number(lines[3] ?? '') || 0 };
}
