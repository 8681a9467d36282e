import { readFile, stat } from 'node:fs/promises';
import { StoreError } from '../errors.js';
import type { Binaries } from './binaries.js';
import { type Command, runToEnd } from './processes.js';

/**
 * Which OS account the server runs as. Postgres refuses to run as root, so under root there are
 * two ways: as another user (who must reach the programs and the data folder), or, on Linux, in a
 * user namespace in which root's own files belong to an unprivileged id (which reaches everything
 * that root reaches).
 */
export type Account =
  | { readonly kind: 'self' }
  | {
      readonly kind: 'user' | 'namespace';
      readonly name: string;
      readonly uid: number;
      readonly gid: number;
    };

type OtherAccount = Exclude<Account, { kind: 'self' }>;

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
async function createPostgresUser(env: Readonly<Record<string, string>>): Promise<void> {
  const rootEnv = { ...env, PATH: `/usr/sbin:/sbin:${env.PATH ?? '/usr/bin:/bin'}` };
  const useradd = ['--system', '--user-group', '--no-create-home', '--shell', '/bin/false'];
  const { code } = await runToEnd({ file: 'useradd', args: [...useradd, 'postgres'] }, rootEnv);
  if (code !== 0)
    await runToEnd({ file: 'adduser', args: ['-S', '-D', '-H', 'postgres'] }, rootEnv);
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
  env: Readonly<Record<string, string>>,
): Promise<boolean> {
  const version = await runToEnd(commandAs(account, binaries.postgres, ['--version']), env);
  if (version.code !== 0) return false;
  // The cluster's folder itself will be handed to the account; its parents must let it through.
  const probe = ['-c', 'cd "$1"', 'sh', reachableDir];
  return (await runToEnd(commandAs(account, '/bin/sh', probe), env)).code === 0;
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
  env: Readonly<Record<string, string>>,
): Promise<Account> {
  const self = process.getuid?.();
  if (self !== 0) {
    const owner = await stat(clusterDir).catch(() => undefined);
    if (self === undefined || owner === undefined || owner.uid === self) return { kind: 'self' };
    throw new StoreError(
      'embedded_postgres_needs_user',
      'fatal',
      `the database in ${clusterDir} belongs to uid ${owner.uid}, not to you (${self}): run tapekeep as the user who made it, give it another data folder, or set TAPEKEEP_DATABASE_URL`,
    );
  }
  const existing = await accountOfCluster(clusterDir, await candidates());
  if (existing !== undefined) {
    const usable = await firstUsable(existing, binaries, dataDir, env);
    if (usable !== undefined) return usable;
    throw noAccount(dataDir, `the database there belongs to uid ${existing[0]?.uid ?? 0}`);
  }
  if (!(await candidates()).some(({ name }) => name === 'postgres')) await createPostgresUser(env);
  const entries = await candidates();
  const ways: OtherAccount[] = [
    ...entries.map((entry) => ({ kind: 'user' as const, ...entry })),
    ...(process.platform === 'linux'
      ? entries.map((entry) => ({ kind: 'namespace' as const, ...entry }))
      : []),
  ];
  const usable = await firstUsable(ways, binaries, dataDir, env);
  if (usable !== undefined) return usable;
  throw noAccount(dataDir, 'no other user can reach it and user namespaces are not allowed');
}

async function firstUsable(
  ways: readonly OtherAccount[],
  binaries: Binaries,
  dataDir: string,
  env: Readonly<Record<string, string>>,
): Promise<OtherAccount | undefined> {
  for (const way of ways) if (await canServe(way, binaries, dataDir, env)) return way;
  return undefined;
}

function noAccount(dataDir: string, why: string): StoreError {
  return new StoreError(
    'embedded_postgres_needs_user',
    'fatal',
    `Postgres refuses to run as root and cannot run as another user in ${dataDir} (${why}): run tapekeep as a normal user, move the project and its data folder to where every user may go, or set TAPEKEEP_DATABASE_URL`,
  );
}
