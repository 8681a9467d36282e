import { EndpointError, SQLSTATE } from './errors.js';
import { Fields, type Frames, type Replies } from './frames.js';
import { MECHANISM, type Verifier } from './scram.js';

/** The start of a connection: what is asked for, and who asks. */

/** The one user. */
export const SERVE_USER = 'tapekeep_cold';

const [CANCEL, SSL, GSS] = [80877102, 80877103, 80877104];
const VERSION = 3;
/** Requests for encryption before the start-up packet: one of each kind. */
const MAX_REQUESTS = 2;
/** Facts that clients need; they read the version to choose what they send. */
const STATUS = {
  server_version: '18.0',
  server_encoding: 'UTF8',
  client_encoding: 'UTF8',
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  integer_datetimes: 'on',
  standard_conforming_strings: 'on',
  is_superuser: 'off',
} as const;

/** Another connection's statement is to end. */
export interface CancelRequest {
  readonly pid: number;
  readonly secret: number;
}

/** A connection that began. */
export interface Startup {
  readonly user: string;
  readonly database: string;
  /** Process and database of the backend, as postgres_fdw names them. */
  readonly application: string;
}

const fatal = (sqlstate: string, message: string, hint?: string) =>
  new EndpointError(sqlstate, message, { isFatal: true, hint });

/**
 * Reads the start-up packet. Encryption is declined: the endpoint is for the same machine, or a network of trust.
 *
 * @returns null when the connection ended before
 */
export async function readStartup(
  frames: Frames,
  out: Replies,
  signal: AbortSignal,
): Promise<Startup | CancelRequest | null> {
  for (let requests = 0; requests <= MAX_REQUESTS; requests += 1) {
    const packet = await frames.startup();
    if (packet === null) return null;
    const fields = new Fields(packet);
    const code = fields.int32();
    if (code === CANCEL) return { pid: fields.int32(), secret: fields.int32() };
    if (code !== SSL && code !== GSS) return readParameters(code, fields, out);
    out.bytes(Buffer.from('N'));
    await out.flush(signal);
  }
  throw fatal(SQLSTATE.protocol, 'malformed start of a connection');
}

function readParameters(code: number, fields: Fields, out: Replies): Startup {
  const [major, minor] = [code >> 16, code & 0xffff];
  if (major !== VERSION) {
    throw fatal(
      SQLSTATE.protocol,
      `protocol ${major}.${minor}: only 3.0 is spoken, by postgres_fdw`,
    );
  }
  const given = new Map<string, string>();
  while (!fields.isAtEnd) {
    const name = fields.text();
    if (name === '') break;
    given.set(name, fields.text());
  }
  const unknown = [...given.keys()].filter((name) => name.startsWith('_pq_.'));
  if (minor > 0 || unknown.length > 0) {
    out
      .begin('v')
      .int32(VERSION << 16)
      .int32(unknown.length);
    for (const name of unknown) out.text(name);
    out.end();
  }
  const encoding = (given.get('client_encoding') ?? 'UTF8').replaceAll(/['"-]/g, '').toUpperCase();
  if (encoding !== 'UTF8' && encoding !== 'UNICODE') {
    throw fatal(SQLSTATE.badValue, `client_encoding ${encoding}: only UTF8 is spoken`);
  }
  const asked = ['options', 'replication'].find((name) => (given.get(name) ?? '') !== '');
  if (asked !== undefined) {
    throw fatal(SQLSTATE.unsupported, `connection parameter "${asked}" is not taken here`);
  }
  const user = given.get('user') ?? '';
  const application = given.get('application_name') ?? '';
  return { user, database: given.get('database') ?? user, application };
}

/** Checks the password. @returns false when the connection ended before. @throws EndpointError 28P01 */
export async function checkPassword(
  frames: Frames,
  out: Replies,
  { user }: Startup,
  verifier: Verifier,
  signal: AbortSignal,
): Promise<boolean> {
  const login = verifier.login();
  out
    .begin('R')
    .int32(10)
    .text(MECHANISM)
    .bytes(Buffer.from([0]))
    .end();
  await out.flush(signal);
  const first = await frames.next();
  if (first === null) return false;
  const fields = expectPassword(first.type, first.body);
  const mechanism = fields.text();
  if (mechanism !== MECHANISM) throw fatal(SQLSTATE.protocol, `unknown mechanism "${mechanism}"`);
  const clientFirst = fields.bytes(fields.int32()).toString('utf8');
  out
    .begin('R')
    .int32(11)
    .bytes(Buffer.from(login.challenge(clientFirst)))
    .end();
  await out.flush(signal);
  const last = await frames.next();
  if (last === null) return false;
  expectPassword(last.type, last.body);
  const proof = login.finish(last.body.toString('utf8'));
  if (proof === undefined || user !== SERVE_USER) {
    const hint =
      'Server and user mapping are set again by the next tapekeep start on this database.';
    throw fatal(SQLSTATE.wrongPassword, `password authentication failed for user "${user}"`, hint);
  }
  out.begin('R').int32(12).bytes(Buffer.from(proof)).end();
  out.begin('R').int32(0).end();
  return true;
}

function expectPassword(type: string, body: Buffer): Fields {
  if (type !== 'p') throw fatal(SQLSTATE.protocol, 'a password was expected');
  return new Fields(body);
}

/** Tells whether a backend, by its process and the name of its database, is one of the database that is served. */
export type IsOwnBackend = (pid: number, database: string) => Promise<boolean>;

/**
 * A restored dump names the endpoint, the identity and the password of its original until tapekeep has been run on it. Its
 * backends are not the original's.
 *
 * @throws EndpointError 3D000 for a database that the files do not belong to
 */
export async function checkIdentity(
  { database, application }: Startup,
  identity: string,
  isOwnBackend: IsOwnBackend,
): Promise<void> {
  const [, pid, name = ''] = /^(\d{1,9}) (.*)$/s.exec(application) ?? [];
  if (pid === undefined) {
    const text = `connection of "${application}": a backend of Postgres was expected to name itself`;
    throw fatal(SQLSTATE.wrongDatabase, text, 'Leave postgres_fdw.application_name unset.');
  }
  if (database === identity && (await isOwnBackend(Number(pid), name))) return;
  const text = `database "${name}" is not the one whose archived rows are served here`;
  const hint =
    'A restored copy of a database has files of its own: run tapekeep on the copy, which sets its foreign server.';
  throw fatal(SQLSTATE.wrongDatabase, text, hint);
}

/** Says that the connection is ready, and how its statements are cancelled. */
export function welcome(out: Replies, { pid, secret }: CancelRequest): void {
  for (const [name, value] of Object.entries(STATUS)) out.begin('S').text(name).text(value).end();
  out.begin('K').int32(pid).int32(secret).end();
}
