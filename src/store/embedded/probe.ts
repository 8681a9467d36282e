import { readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { codeOf } from '../../kernel/errors.js';
import { superuserUrl } from './logins.js';

/** What `postmaster.pid` says about a server that runs, or ran until it was killed. */
export interface Postmaster {
  readonly pid: number;
  readonly port: number;
}

/** Reads `postmaster.pid` (line 1: process id, line 4: port); undefined when there is none. */
export async function readPostmaster(clusterDir: string): Promise<Postmaster | undefined> {
  const text = await readFile(join(clusterDir, 'postmaster.pid'), 'utf8').catch(() => '');
  const lines = text.split('\n');
  const pid = Number(lines[0]);
  if (!Number.isInteger(pid) || pid < 1) return undefined;
  // A server that has only begun to start has not written its port yet.
  return { pid, port: Number(lines[3] ?? '') || 0 };
}

/** How a server answered: it serves this cluster, it does not (yet), or it serves another one. */
export type ProbeResult = 'serving' | 'silent' | 'other';

const PROBE_TIMEOUT_MS = 5_000;
/** Wrong password, no such user, no such database: somebody else's server. */
const NOT_OURS = new Set(['28P01', '28000', '3D000']);

/** Asks the server at `port` which cluster it serves. */
export async function probeServer(
  port: number,
  password: string,
  clusterDir: string,
): Promise<ProbeResult> {
  if (port === 0) return 'silent';
  const client = new pg.Client({
    connectionString: superuserUrl(port, password),
    application_name: 'tapekeep-probe',
    connectionTimeoutMillis: PROBE_TIMEOUT_MS,
    query_timeout: PROBE_TIMEOUT_MS,
  });
  client.on('error', () => undefined);
  try {
    await client.connect();
    const { rows } = await client.query<{ data_directory: string }>('SHOW data_directory');
    const served = await realpath(rows[0]?.data_directory ?? '').catch(() => '');
    return served === (await realpath(clusterDir)) ? 'serving' : 'other';
  } catch (error) {
    return NOT_OURS.has(codeOf(error)) ? 'other' : 'silent';
  } finally {
    await client.end().catch(() => undefined);
  }
}
