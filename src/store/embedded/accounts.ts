import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { readFile, stat } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { messageOf } from '../../kernel/errors.js';
import { StoreError } from '../errors.js';
import type { Binaries } from './binaries.js';

/** Environment of the server's processes: nothing of ours, so nothing of ours can leak there. */
export const MINIMAL_ENV = { PATH: '/usr/bin:/bin', LC_ALL: 'C' };
type Env = typeof MINIMAL_ENV;

/** Most output of a child that is kept for an error message. */
const MAX_KEPT_OUTPUT = 16_384;

/** A program with its arguments, and the OS account to run it as (undefined: our own). */
export interface Command {
  readonly file: string;
  readonly args: readonly string[];
  readonly uid?: number;
  readonly gid?: number;
}

export interface Finished {
  /** Exit code; null when it could not be started or was killed. */
  readonly code: number | null;
  /** Both output streams, the newest part. */
  readonly output: string;
}

/** Collects the newest part of a child's output. The returned function reads it. */
export function collectOutput(child: ChildProcess): () => string {
  let output = '';
  const keep = (chunk: Buffer) => {
    output = (output + chunk.toString('utf8')).slice(-MAX_KEPT_OUTPUT);
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  return () => output.trim();
}

/**
 * Runs a program to its end. Never rejects: a program that cannot start has a null code. An abort
 * asks it to end (SIGTERM); its end is awaited all the same.
 */
export function runToEnd(
  { file, args, uid, gid }: Command,
  { signal, env = MINIMAL_ENV }: { signal?: AbortSignal | undefined; env?: Env } = {},
): Promise<Finished> {
  return new Promise((resolve) => {
    try {
      const stdio: SpawnOptions['stdio'] = ['ignore', 'pipe', 'pipe'];
      const child = spawn(file, [...args], { uid, gid, env, cwd: '/', stdio });
      const output = collectOutput(child);
      const end = () => child.kill('SIGTERM');
      child.once('error', (error) => resolve({ code: null, output: error.message }));
      child.once('close', (code) => {
        signal?.removeEventListener('abort', end);
        resolve({ code, output: output() });
      });
      if (signal?.aborted === true) end();
      else signal?.addEventListener('abort', end, { once: true });
    } catch (error) {
      resolve({ code: null, output: messageOf(error) });
    }
  });
}

/**
 * Which OS account the server runs as. Postgres refuses to run as root, so under root there are
 * two ways: as another user (who must reach the programs and the data folder), or, on Linux, in a
 * user namespace in which root's own files belong to an unprivileged id (which reaches everything
 * that root reaches).
 */
export type Account = { readonly kind: 'self' } | OtherAccount;

interface OtherAccount extends PasswdEntry {
  readonly kind: 'user' | 'namespace';
}

/** Users that may lend their id, the fitting one first. */
const CANDIDATES = ['postgres', 'nobody', 'daemon'];

interface PasswdEntry {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** Who owns what the account writes: the owner seen from outside a namespace is root itself. */
export function fileOwner(account: Account): { uid: number; gid: number } | undefined {
  return account.kind === 'user' ? { uid: account.uid, gid: account.gid } : undefined;
}

/** Wraps a program so that it runs as the account. */
export function commandAs(account: Account, file: string, args: readonly string[]): Command {
  if (account.kind === 'self') return { file, args };
  if (account.kind === 'user') return { file, args, uid: account.uid, gid: account.gid };
  const ids = [`--map-user=${account.uid}`, `--map-group=${account.gid}`];
  return { file: 'unshare', args: ['--user', ...ids, '--', file, ...args] };
}

export function describeAccount(account: Account): string {
  if (account.kind === 'self') return 'as this user';
  if (account.kind === 'user') return `as user ${account.name}`;
  return `in a user namespace as ${account.name}`;
}

async function readPasswd(): Promise<PasswdEntry[]> {
  const text = await readFile('/etc/passwd', 'utf8').catch(() => '');
  return text
    .split('\n')
    .map((line) => line.split(':'))
    .filter((fields) => fields.length >= 4)
    .map(([name, , uid, gid]) => ({ name: name ?? '', uid: Number(uid), gid: Number(gid) }))
    .filter(({ name, uid, gid }) => name !== '' && uid > 0 && gid > 0);
}

/** Makes the user `postgres` where the system lets us; failing is no error, others can serve. */
async function createPostgresUser(): Promise<void> {
  const env = { ...MINIMAL_ENV, PATH: `/usr/sbin:/sbin:${MINIMAL_ENV.PATH}` };
  const useradd = ['--system', '--user-group', '--no-create-home', '--shell', '/bin/false'];
  const { code } = await runToEnd({ file: 'useradd', args: [...useradd, 'postgres'] }, { env });
  if (code !== 0)
    await runToEnd({ file: 'adduser', args: ['-S', '-D', '-H', 'postgres'] }, { env });
}

async function candidates(): Promise<PasswdEntry[]> {
  const entries = await readPasswd();
  return CANDIDATES.flatMap((name) => entries.filter((entry) => entry.name === name).slice(0, 1));
}

/** Tries for real: can the account start the server's program, and write where its data will be? */
async function canServe(
  account: OtherAccount,
  binaries: Binaries,
  reachableDir: string,
): Promise<boolean> {
  const version = await runToEnd(commandAs(account, binaries.postgres, ['--version']));
  if (version.code !== 0) return false;
  // The cluster's folder itself will be handed to the account; its parents must let it through.
  const probe = ['-c', 'cd "$1"', 'sh', reachableDir];
  return (await runToEnd(commandAs(account, '/bin/sh', probe))).code === 0;
}

/** The account whose files these are: a cluster stays with the owner that it was made for. */
async function accountOfCluster(
  clusterDir: string,
  entries: readonly PasswdEntry[],
): Promise<OtherAccount[] | undefined> {
  const owner = await stat(clusterDir).catch(() => undefined);
  if (owner === undefined) return undefined;
  const asNamespace = entries.map((entry) => ({ kind: 'namespace' as const, ...entry }));
  if (owner.uid === 0) return asNamespace;
  const known = (await readPasswd()).find(({ uid }) => uid === owner.uid);
  return [{ kind: 'user', name: known?.name ?? `${owner.uid}`, uid: owner.uid, gid: owner.gid }];
}

/**
 * Chooses the account for a cluster in `clusterDir` (which may not exist yet) below `dataDir`
 * (which must).
 *
 * @throws {@link StoreError} when root has no way to run the server here.
 */
export async function chooseAccount(
  binaries: Binaries,
  dataDir: string,
  clusterDir: string,
): Promise<Account> {
  const self = process.getuid?.();
  if (self !== 0) {
    const owner = await stat(clusterDir).catch(() => undefined);
    if (self === undefined || owner?.uid === self) return { kind: 'self' };
    if (owner === undefined) return hasName() ? { kind: 'self' } : await named(binaries, dataDir);
    throw new StoreError(
      'embedded_postgres_needs_user',
      `the database in ${clusterDir} belongs to uid ${owner.uid}, not to you (${self}): run tapekeep as the user who made it, give it another data folder, or set TAPEKEEP_DATABASE_URL`,
    );
  }
  const existing = await accountOfCluster(clusterDir, await candidates());
  if (existing !== undefined) {
    const owned = `the database there belongs to uid ${existing[0]?.uid ?? 0}`;
    return await firstUsable(existing, binaries, dataDir, owned);
  }
  if (!(await candidates()).some(({ name }) => name === 'postgres')) await createPostgresUser();
  const entries = await candidates();
  const ways: OtherAccount[] = [
    ...entries.map((entry) => ({ kind: 'user' as const, ...entry })),
    ...(process.platform === 'linux'
      ? entries.map((entry) => ({ kind: 'namespace' as const, ...entry }))
      : []),
  ];
  const none = 'no other user can reach it and user namespaces are not allowed';
  return await firstUsable(ways, binaries, dataDir, none);
}

/** Whether the system has a name for this user. In a container it may be any number. */
function hasName(): boolean {
  try {
    return userInfo().username !== '';
  } catch {
    return false;
  }
}

/** Of those who make a database Postgres asks the name. A user without one can have another's in a namespace. */
async function named(binaries: Binaries, dataDir: string): Promise<Account> {
  const ways = (await candidates()).map((entry) => ({ kind: 'namespace' as const, ...entry }));
  for (const way of ways) if (await canServe(way, binaries, dataDir)) return way;
  throw new StoreError(
    'embedded_postgres_needs_user',
    `this user (uid ${process.getuid?.()}) has no name, which Postgres needs to make a database in ${dataDir}, and user namespaces are not allowed here: add a line for the uid to /etc/passwd, run tapekeep as a user that has one, or set TAPEKEEP_DATABASE_URL`,
  );
}

async function firstUsable(
  ways: readonly OtherAccount[],
  binaries: Binaries,
  dataDir: string,
  lack: string,
): Promise<OtherAccount> {
  for (const way of ways) if (await canServe(way, binaries, dataDir)) return way;
  throw new StoreError(
    'embedded_postgres_needs_user',
    `Postgres refuses to run as root and cannot run as another user in ${dataDir} (${lack}): run tapekeep as a normal user, move the project and its data folder to where every user may go, or set TAPEKEEP_DATABASE_URL`,
  );
}
