import pg from 'pg';
import type { Clock } from '../kernel/clock.js';
import { addedByServer, messageOf } from '../kernel/errors.js';
import { SSL_MODES, tlsRefusal, withUrlHost } from '../kernel/tls.js';
import { StoreError, sqlstateOf } from './errors.js';

/** The address of the server: what it says, what the driver is given of it, and why no connection came about. */

export interface ConnectionOptions {
  readonly databaseUrl: string;
  readonly clock: Clock;
  readonly connectTimeoutMs: number;
  readonly statementTimeoutMs: number;
}

/** TCP keepalive finds a server that vanished without a word. */
const KEEPALIVE_AFTER_MS = 10_000;
/** Wrong password, no right to log in or to connect, no such database. */
const LOGIN_REFUSED = /^(28...|3D...|42501)$/;
/** What to do about it, by what the server says. */
const LOGIN_ADVICE: ReadonlyArray<readonly [RegExp, string]> = [
  [
    /no encryption/,
    'its pg_hba.conf has no line that lets in this user, database and address, or one for encrypted connections alone: those are asked for by ?sslmode=verify-full in database.url',
  ],
  [/pg_hba\.conf/, 'its pg_hba.conf has no line that lets in this user, database and address'],
  [
    /client certificate/,
    'it asks for a certificate of the client: name its files by sslcert=FILE and sslkey=FILE in database.url',
  ],
  [
    /permission denied for database/,
    'the user has no right to connect to it: GRANT CONNECT ON DATABASE gives it, there',
  ],
  [/not permitted to log in/, 'the role has no login: ALTER ROLE with LOGIN gives it one, there'],
  [
    /permission denied to set parameter/,
    'ALTER ROLE or ALTER DATABASE sets it to a value that tapekeep cannot work with, and this user may not change it: let an administrator reset it there',
  ],
  [/^/, 'check the user, the password and the database name'],
];

/**
 * The address as the driver is given it. Its next version will check no certificate under `prefer` and `require`,
 * and no host name under `verify-ca`; they mean `verify-full` here, as before.
 */
function connectionString(address: string): string {
  const databaseUrl = withUrlHost(address);
  const url = new URL(databaseUrl);
  const mode = url.searchParams.get('sslmode');
  const isCompatible = url.searchParams.get('uselibpqcompat') === 'true';
  if (mode === null || isCompatible || !/^(prefer|require|verify-ca)$/.test(mode)) {
    return databaseUrl;
  }
  url.searchParams.set('sslmode', 'verify-full');
  return url.href;
}

/**
 * The driver's client. What a session is to be comes from the address alone: PGOPTIONS, PGREPLICATION and
 * PGSSLNEGOTIATION of the shell are meant for other servers.
 */
export class Client extends pg.Client {
  constructor(config: pg.ClientConfig & { readonly connectionString: string }) {
    super({ sslnegotiation: 'postgres', ...config } as pg.ClientConfig);
    const { searchParams } = new URL(config.connectionString);
    // The driver has them; its types do not.
    const { connectionParameters } = this as unknown as {
      readonly connectionParameters: Record<'options' | 'replication', string | null>;
    };
    connectionParameters.options = searchParams.get('options');
    connectionParameters.replication = searchParams.get('replication');
  }
}

/** Where a connection string leads, for messages: never with the password. */
export function describeAddress(databaseUrl: string): string {
  try {
    const { host, port, database } = new Client({
      connectionString: connectionString(databaseUrl),
    });
    return `${host}:${port}, database ${database ?? '(none)'}`;
  } catch {
    return 'the address given';
  }
}

/** @throws {@link StoreError} `bad_database_url` */
export function clientConfig({
  databaseUrl,
  connectTimeoutMs,
}: ConnectionOptions): pg.ClientConfig & { readonly connectionString: string } {
  if (!/^postgres(ql)?:\/\//.test(databaseUrl) || !URL.canParse(withUrlHost(databaseUrl))) {
    throw new StoreError(
      'bad_database_url',
      'the database URL is not of the form postgres://user:password@host:port/database',
    );
  }
  const mode = new URL(withUrlHost(databaseUrl)).searchParams.get('sslmode') ?? 'disable';
  if (!SSL_MODES.includes(mode)) {
    const text = `sslmode=${mode} in the database URL is not known: allowed are ${SSL_MODES.join(', ')}`;
    throw new StoreError('bad_database_url', text);
  }
  try {
    // It reads the files that the address names.
    new Client({ connectionString: connectionString(databaseUrl) });
  } catch (error) {
    throw connectFailure(error, databaseUrl);
  }
  return {
    connectionString: connectionString(databaseUrl),
    application_name: 'tapekeep',
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEPALIVE_AFTER_MS,
  };
}

/** What keeps a connection from being encrypted as database.url asks, and what to do. */
function tlsFailure(error: unknown): string | undefined {
  const { syscall, path } = error as NodeJS.ErrnoException;
  if (syscall === 'open' && path !== undefined) {
    return `the file ${path}, which database.url names, cannot be read (${messageOf(error)})`;
  }
  if (/does not support SSL/.test(messageOf(error))) {
    return 'it is not set up for TLS: set ssl = on there, or sslmode=disable in database.url';
  }
  const refusal = tlsRefusal(error);
  if (refusal === undefined) return undefined;
  return `${refusal}; for Postgres sslrootcert=FILE in database.url names an authority as well`;
}

/** A failed connect in words that name where it went. Refusals by the server keep their action. */
export function connectFailure(error: unknown, databaseUrl: string): Error {
  if (error instanceof StoreError) return error;
  const where = describeAddress(databaseUrl);
  const refused = tlsFailure(error);
  if (refused !== undefined) {
    return new StoreError(
      'database_tls_refused',
      `no TLS connection to Postgres at ${where}: ${refused}`,
      { cause: error },
    );
  }
  const sqlstate = sqlstateOf(error);
  const inner = error instanceof AggregateError ? error.errors.map(messageOf).join('; ') : '';
  const detail = messageOf(error) || inner || 'no reason given';
  const text = `cannot connect to Postgres at ${where} (${detail}${addedByServer(error)})`;
  const context = { cause: error, sqlstate };
  if (sqlstate !== undefined && LOGIN_REFUSED.test(sqlstate)) {
    const [, advice] = LOGIN_ADVICE.find(([said]) => said.test(detail)) ?? [];
    // As with a certificate: a password is changed back while rows wait; a start does not wait for it.
    return new StoreError('database_login_refused', `${text}: ${advice}`, context);
  }
  return sqlstate?.startsWith('42') === true
    ? new StoreError('database_failed', text, { ...context, action: 'fatal' })
    : new StoreError(
        'database_unreachable',
        `${text}: check that the server runs and is reached from here, and database.url (TAPEKEEP_DATABASE_URL)`,
        context,
      );
}
