import { randomBytes } from 'node:crypto';
import { codeOf, messageOf, TapekeepError } from '../../kernel/errors.js';
import type { Store } from '../../store/index.js';
import { coldOf, openArchive } from './database.js';
import type { Session } from './session.js';

/** An endpoint of archived rows while it is open. */
export interface Serving {
  close(): Promise<void>;
}

/** The table that there is not, by which a database asks whether it is answered (cold_server_trouble). */
const PROBE = "'cold_probe'";
/** Loopback, which a Postgres on this machine reaches. */
const LOOPBACK = '127.0.0.1';

/**
 * Answers Postgres for archived partitions: starts the endpoint and points the database at it. The login's password is
 * drawn here, and lives in the database alone.
 *
 * @returns null where nothing can be archived, or with a warning where it cannot listen
 * @throws StoreError
 */
export async function serveArchived(session: Session, store: Store): Promise<Serving | null> {
  if ((await store.sealing.coldLack()) !== null) return null;
  const { config, clock, telemetry } = session;
  const { ColdEndpoint } = await import('../../archive/serve/endpoint.js');
  const { SERVE_USER } = await import('../../archive/serve/login.js');
  const { system, databaseOid, tableOid, copy } = await store.sealing.identity();
  const names = ['archive', system ?? 'unknown', databaseOid, tableOid, copy];
  const dbname = names.filter((name) => name !== null).join('-');
  const password = randomBytes(32).toString('hex');
  const host = config.cold.serve.host ?? LOOPBACK;
  const warn = (message: string) =>
    telemetry.daemon.warned({ code: 'archived_rows_unreachable', message });
  const { port: wanted } = config.cold.serve;
  const starting = ColdEndpoint.start({
    ...{ host, port: wanted, identity: dbname, password },
    ...{ cold: coldOf(config), clock },
    telemetry: {
      ...telemetry.serve,
      statementRefused: (event) =>
        event.message.includes(PROBE) || telemetry.serve.statementRefused(event),
    },
    isOwnBackend: (pid, database) => store.sealing.isOwnBackend(pid, database),
    partitionOf: (name) => store.sealing.archived(name),
  });
  const endpoint = await starting.catch((error: unknown) => {
    warn(
      `archived rows cannot be answered at ${host}:${wanted} (${messageOf(error)}): set cold.serve.host and cold.serve.port to an address of this machine that is free`,
    );
    return null;
  });
  if (endpoint === null) return null;
  try {
    const { port } = endpoint.address;
    await store.sealing.pointColdServer({ host, port, user: SERVE_USER, password, dbname });
    const trouble = await store.sealing.coldServerTrouble();
    if (trouble !== null) {
      warn(
        `Postgres cannot reach ${host}:${port}, where archived rows are answered (${trouble}): a query of archived time ends with that error. Set cold.serve.host to an address of this machine that the database reaches`,
      );
    }
  } catch (error) {
    await endpoint.close();
    throw error;
  }
  return endpoint;
}

/**
 * Makes archived rows readable for a command: by what answers for them already (a daemon, `tapekeep db`), else by itself.
 *
 * @returns what is to be closed at the end; null where another process answers
 * @throws TapekeepError `archived_rows_unreachable`; StoreError
 */
export async function reachArchived(session: Session, store: Store): Promise<Serving | null> {
  if ((await store.sealing.coldServerTrouble()) === null) return null;
  const serving = await serveArchived(session, store);
  const trouble = await store.sealing.coldServerTrouble();
  if (trouble === null) return serving;
  await serving?.close();
  const text = `archived rows cannot be read (${trouble}): run it where the files are, or ask for a time that is not archived`;
  throw new TapekeepError('archived_rows_unreachable', text);
}

/** Answers for archived rows while a command that keeps a database up does its work. */
export async function whileServing<T>(
  session: Session,
  url: string,
  use: () => Promise<T>,
): Promise<T> {
  const store = await openArchive(session, url).catch((error: unknown) => {
    // Made by another version, or not yet: that is for other commands.
    if (codeOf(error) !== 'database_not_migrated') throw error;
    return null;
  });
  if (store === null) return await use();
  try {
    const serving = await serveArchived(session, store);
    try {
      return await use();
    } finally {
      await serving?.close();
    }
  } finally {
    await store.stop();
  }
}
