import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, cp, mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import { systemClock } from '../../../src/kernel/clock.js';
import { findBinaries } from '../../../src/store/embedded/binaries.js';
import { clusterPaths } from '../../../src/store/embedded/cluster.js';
import { freePort } from '../../../src/store/embedded/server.js';
import { startEmbeddedPostgres } from '../../../src/store/index.js';
import { PostgresProxy } from './postgres-proxy.js';
import { asSuperuser, makeTempDir, openSql, quietStoreEvents, runSql } from './postgres-server.js';

/** Real servers that replicate: a primary, and asynchronous standbys of it that can be cut off and promoted. */

const SETTINGS = {
  ...{ listen_addresses: '127.0.0.1', unix_socket_directories: '', wal_level: 'logical' },
  ...{ fsync: 'off', wal_keep_size: '256MB', max_wal_senders: 8, max_connections: 60 },
  ...{ timezone: 'UTC', log_timezone: 'UTC', hot_standby: 'on' },
};

/** A server with nothing but the files of its cluster. */
export class BareServer {
  readonly url: string;
  readonly clusterDir: string;
  readonly #child: ChildProcess;

  private constructor(url: string, clusterDir: string, child: ChildProcess) {
    this.url = url;
    this.clusterDir = clusterDir;
    this.#child = child;
  }

  /**
   * @param like the address of a server with the same logins
   * @param program of another installation
   */
  static async start(clusterDir: string, like: string, program?: string): Promise<BareServer> {
    const postgres = program ?? (await findBinaries()).postgres;
    const { uid, gid } = await stat(clusterDir);
    const port = await freePort(0);
    const given = Object.entries({ ...SETTINGS, port }).flatMap((entry) => ['-c', entry.join('=')]);
    const child = spawn(postgres, ['-D', clusterDir, ...given], {
      ...(process.getuid?.() === 0 ? { uid, gid } : {}),
      ...{ env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' }, cwd: '/' },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const said: string[] = [];
    for await (const line of createInterface({ input: child.stderr })) {
      said.push(line);
      if (!line.includes('ready to accept')) continue;
      child.stderr.resume();
      const url = new URL(like);
      url.port = String(port);
      return new BareServer(url.href, clusterDir, child);
    }
    throw new Error(`no server came of ${clusterDir}:\n${said.join('\n')}`);
  }

  /** A new cluster under a folder, with a superuser as its only login. */
  static async make(folder: string): Promise<BareServer> {
    const dataDir = join(folder, 'first');
    const telemetry = quietStoreEvents();
    const made = await startEmbeddedPostgres({ dataDir, clock: systemClock, telemetry });
    const url = await asSuperuser(made.url, dataDir);
    await made.stop();
    return await BareServer.start(clusterPaths(dataDir).clusterDir, url);
  }

  /** A new cluster of another installation, whose folder of programs is given; root's programs run as its user. */
  static async makeOf(programs: string, folder: string): Promise<BareServer> {
    const clusterDir = join(folder, 'other');
    await mkdir(clusterDir, { mode: 0o700 });
    const account = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
    if (account.uid !== undefined) await chown(clusterDir, account.uid, account.gid);
    const settings = ['--auth=trust', '--username=postgres', '--encoding=UTF8', '--locale=C'];
    const made = spawn(join(programs, 'initdb'), ['-D', clusterDir, ...settings], {
      ...{ ...account, cwd: '/', stdio: 'ignore', env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' } },
    });
    const [code] = (await once(made, 'exit')) as [number | null];
    if (code !== 0) throw new Error(`initdb of ${programs} ended with ${code}`);
    const like = 'postgres://postgres@127.0.0.1/postgres';
    return await BareServer.start(clusterDir, like, join(programs, 'postgres'));
  }

  /** Ends it at once, as a machine does that loses its power. */
  kill(): Promise<void> {
    return this.#end('SIGQUIT');
  }

  /** Ends it in order: its standbys have all that it committed. */
  stop(): Promise<void> {
    return this.#end('SIGINT');
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill(signal);
    await ended;
  }

  async promote(): Promise<void> {
    await runSql(this.url, 'SELECT pg_promote(true, 60)');
  }
}

/** A standby with the wire that it follows its primary by. */
export interface Standby {
  readonly server: BareServer;
  /** From here on it learns nothing more. */
  cutOff(): Promise<void>;
}

/** Copies a running server and lets the copy follow it. Resolves when it has all that the primary had. */
export async function startStandby(primary: BareServer, clusterDir: string): Promise<Standby> {
  const backup = await openSql(primary.url);
  try {
    await backup.run(`SELECT pg_backup_start('standby', true)`);
    const { uid, gid } = await stat(primary.clusterDir);
    await mkdir(clusterDir, { mode: 0o700 });
    for (const name of await readdir(primary.clusterDir)) {
      if (name.startsWith('postmaster.') || name === 'standby.signal') continue;
      await cp(join(primary.clusterDir, name), join(clusterDir, name), {
        ...{ recursive: true, preserveTimestamps: true },
        // Files come and go while it runs; what matters of them is in the journal.
        errorOnExist: false,
      }).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error;
      });
    }
    const [label] = await backup.run<{ labelfile: string }>(
      'SELECT labelfile FROM pg_backup_stop()',
    );
    await writeFile(join(clusterDir, 'backup_label'), label?.labelfile ?? '');
    const wire = new PostgresProxy(primary.url);
    const { hostname, port, username, password } = new URL(await wire.start());
    const conninfo = `host=${hostname} port=${port} user=${username} password=${decodeURIComponent(password)}`;
    await writeFile(
      join(clusterDir, 'postgresql.auto.conf'),
      `primary_conninfo = '${conninfo}'\nwal_retrieve_retry_interval = '100ms'\n`,
    );
    await writeFile(join(clusterDir, 'standby.signal'), '');
    await ownAll(clusterDir, uid, gid);
    const server = await BareServer.start(clusterDir, primary.url);
    await caughtUp(primary, server);
    return {
      server,
      async cutOff() {
        wire.retarget(undefined);
        wire.endAll();
        await wire.stop();
      },
    };
  } finally {
    await backup.end();
  }
}

async function ownAll(folder: string, uid: number, gid: number): Promise<void> {
  if (process.getuid?.() !== 0) return;
  await chown(folder, uid, gid);
  for (const entry of await readdir(folder, { recursive: true })) {
    await chown(join(folder, entry), uid, gid);
  }
}

async function caughtUp(primary: BareServer, standby: BareServer): Promise<void> {
  const [now] = await runSql<{ lsn: string }>(
    primary.url,
    'SELECT pg_current_wal_lsn()::text AS lsn',
  );
  const follow = await openSql(standby.url);
  const REACHED = 'SELECT coalesce(pg_last_wal_replay_lsn() >= $1::pg_lsn, false) AS "isThere"';
  for (let isThere = false; !isThere; ) {
    isThere = (await follow.run<{ isThere: boolean }>(REACHED, [now?.lsn]))[0]?.isThere === true;
  }
  await follow.end();
}

/** A primary in a folder of its own; servers that are added end with the test, before their folder goes. */
export async function openServers(t: TestContext) {
  const folder = await makeTempDir();
  const primary = await BareServer.make(folder);
  const servers = [primary];
  t.after(async () => {
    // A server that runs writes into it.
    for (const server of servers) await removeServer(server);
    await rm(folder, { recursive: true, force: true });
  });
  return { folder, primary, servers };
}

/** Deletes what a server left. */
export async function removeServer(server: BareServer): Promise<void> {
  await server.kill();
  await rm(server.clusterDir, { recursive: true, force: true });
}
