import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import type { Node } from 'libpg-query';
import { type Clock, endsInTime } from '../../kernel/clock.js';
import { messageOf } from '../../kernel/errors.js';
import { Mutex } from '../../kernel/mutex.js';
import type { ServeEvents } from '../../observe/events.js';
import type { ColdStorage } from '../cold/storage.js';
import { type DuckSession, openDuck, type ScratchDuck } from '../parquet/session.js';
import { asEndpointError, EndpointError, SQLSTATE } from './errors.js';
import { Frames, Replies } from './frames.js';
import { checkIdentity, checkPassword, type IsOwnBackend, readStartup, welcome } from './login.js';
import { Verifier } from './scram.js';
import { Session, type SessionLimits } from './session.js';
import { ColdTables, type ServedPartition } from './tables.js';

/** Limits of the endpoint. */
export interface ServeLimits extends SessionLimits {
  readonly connections: number;
  /** Bytes of one message. */
  readonly messageBytes: number;
  /** Memory of DuckDB, MB; beyond it DuckDB goes to the disk. */
  readonly memoryMb: number;
  /** Time for a login, ms. */
  readonly loginMs: number;
  /** Time for which a reader may take no rows, ms. */
  readonly stallMs: number;
}

const SERVE_LIMITS: ServeLimits = {
  ...{ connections: 100, cursors: 4096, fetchRows: 1_000_000 },
  ...{ messageBytes: 1024 * 1024, memoryMb: 512 },
  ...{ loginMs: 10_000, statementMs: 600_000, stallMs: 300_000 },
};

/** Options of {@link ColdEndpoint.start}. */
export interface ServeOptions {
  /** Address to listen on: loopback, unless the Postgres is elsewhere. */
  readonly host: string;
  /** 0 for any. */
  readonly port: number;
  /** The database's identity; a connection names it as its database. */
  readonly identity: string;
  readonly isOwnBackend: IsOwnBackend;
  /** Password of `tapekeep_cold`, printable ASCII. */
  readonly password: string;
  readonly cold: ColdStorage;
  /** Record of an archived partition; undefined if there is none of the name. */
  partitionOf(name: string): Promise<ServedPartition | undefined>;
  readonly clock: Clock;
  readonly telemetry: ServeEvents;
  /** Default: those that the guide names. */
  readonly limits?: Partial<ServeLimits>;
}

/** Time in which connections are told that the endpoint stops. */
const CLOSE_MS = 5_000;
const AHEAD_KB = 256;
const MAX_PID = 2 ** 31 - 1;

/** A connection with what ends it. */
interface Held {
  readonly socket: Socket;
  readonly secret: number;
  session: Session | undefined;
}

/**
 * Answers foreign tables of archived partitions: speaks the part of Postgres' protocol that postgres_fdw uses,
 * and reads Parquet files with DuckDB.
 */
export class ColdEndpoint {
  readonly #options: ServeOptions;
  readonly #limits: ServeLimits;
  readonly #verifier: Verifier;
  readonly #parse: (sql: string) => readonly Node[];
  readonly #tables: ColdTables;
  readonly #server: Server;
  readonly #held = new Map<number, Held>();
  readonly #answering = new Set<Promise<void>>();
  readonly #opening = new Mutex();
  #duck: ScratchDuck | undefined;
  #isClosed = false;

  private constructor(
    options: ServeOptions,
    verifier: Verifier,
    parse: (sql: string) => readonly Node[],
  ) {
    this.#options = options;
    this.#limits = { ...SERVE_LIMITS, ...options.limits };
    this.#verifier = verifier;
    this.#parse = parse;
    this.#tables = new ColdTables(options.cold);
    this.#server = createServer({ noDelay: true, keepAlive: true }, (socket) => {
      const answering = this.#answer(socket).finally(() => this.#answering.delete(answering));
      this.#answering.add(answering);
    });
  }

  /**
   * Starts to listen.
   *
   * @throws ColdError if DuckDB cannot read the folder; the system's error if the address cannot be used
   */
  static async start(options: ServeOptions): Promise<ColdEndpoint> {
    options.cold.assertReadable();
    const [verifier, parse] = [await Verifier.of(options.password), await loadParser()];
    const endpoint = new ColdEndpoint(options, verifier, parse);
    endpoint.#server.listen(options.port, options.host);
    await once(endpoint.#server, 'listening');
    return endpoint;
  }

  /** Place where it listens. */
  get address(): { readonly host: string; readonly port: number } {
    const address = this.#server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    return { host: this.#options.host, port };
  }

  /** Ends all connections: their statements get SQLSTATE 57P01. Safe to call twice. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#server.listening) this.#server.close();
    const stopping = new EndpointError(SQLSTATE.stopping, 'tapekeep is stopping', {
      isFatal: true,
      hint: 'Archived rows are read again when it runs.',
    });
    for (const { session, socket } of this.#held.values()) {
      if (session === undefined) socket.destroy();
      else session.end(stopping);
    }
    const { clock } = this.#options;
    const ended = Promise.all(this.#answering);
    if (!(await endsInTime(clock, CLOSE_MS, ended))) {
      for (const { socket } of this.#held.values()) socket.destroy();
      await ended;
    }
    await this.#duck?.close();
  }

  /** One connection, from its first byte to its last. Never throws. */
  async #answer(socket: Socket): Promise<void> {
    const { clock, telemetry } = this.#options;
    const pid = this.#newPid();
    const held: Held = { socket, secret: randomInt(MAX_PID), session: undefined };
    const frames = new Frames(socket, this.#limits.messageBytes);
    const out = new Replies(socket, clock, this.#limits.stallMs);
    try {
      if (this.#held.size >= this.#limits.connections || this.#isClosed) {
        const text = `too many connections: ${this.#limits.connections} are open`;
        throw new EndpointError(SQLSTATE.tooManyConnections, text, { isFatal: true });
      }
      this.#held.set(pid, held);
      const cancelTimer = clock.after(this.#limits.loginMs, () => socket.destroy());
      const isIn = await this.#login(frames, out, pid, held.secret).finally(cancelTimer);
      if (!isIn) return;
      const session = new Session(this.#servicesOf(), frames, out);
      held.session = session;
      socket.once('close', () => session.cancel());
      await session.run();
    } catch (error) {
      const known = asEndpointError(error);
      if (!this.#isClosed)
        telemetry.connectionEnded({ sqlstate: known.sqlstate, message: known.message });
      // A message that is half written stays so: the connection ends.
      out.error(
        known.isFatal ? known : new EndpointError(known.sqlstate, known.message, { isFatal: true }),
      );
    } finally {
      this.#held.delete(pid);
      await this.#end(socket, out);
    }
  }

  async #login(frames: Frames, out: Replies, pid: number, secret: number): Promise<boolean> {
    const { signal } = new AbortController();
    const startup = await readStartup(frames, out, signal);
    if (startup === null) return false;
    if ('pid' in startup) {
      const other = this.#held.get(startup.pid);
      if (other?.secret === startup.secret) other.session?.cancel();
      return false;
    }
    if (!(await checkPassword(frames, out, startup, this.#verifier, signal))) return false;
    const { identity, isOwnBackend } = this.#options;
    await checkIdentity(startup, identity, isOwnBackend);
    welcome(out, { pid, secret });
    return true;
  }

  /** Sends what is left, for as long as a login may take, and closes. */
  async #end(socket: Socket, out: Replies): Promise<void> {
    const { clock } = this.#options;
    const { signal } = new AbortController();
    const sent = out.flush(signal).catch(() => undefined);
    await endsInTime(clock, this.#limits.loginMs, sent);
    socket.end();
    // A client that never closes its side is not waited for.
    const cancel = clock.after(this.#limits.loginMs, () => socket.destroy(), { background: true });
    socket.once('close', cancel);
    socket.resume();
  }

  #servicesOf() {
    const { clock, telemetry, partitionOf } = this.#options;
    return {
      ...{ clock, telemetry, limits: this.#limits, tables: this.#tables, parse: this.#parse },
      partitionOf,
      duck: async () => await this.#openDuck(),
    };
  }

  async #openDuck(): Promise<DuckSession> {
    return await this.#opening.run(async () => {
      if (this.#isClosed) throw new EndpointError(SQLSTATE.stopping, 'tapekeep is stopping');
      const limits = { memoryMb: this.#limits.memoryMb, aheadKb: AHEAD_KB };
      this.#duck ??= await openDuck('serve', limits);
      return this.#duck.session;
    });
  }

  #newPid(): number {
    let pid = randomInt(1, MAX_PID);
    while (this.#held.has(pid)) pid = randomInt(1, MAX_PID);
    return pid;
  }
}

/** Postgres' own parser, loaded when an endpoint starts: it takes a tenth of a second. */
async function loadParser(): Promise<(sql: string) => readonly Node[]> {
  const { loadModule, parseSync } = await import('libpg-query');
  await loadModule();
  return (sql) => {
    if (sql.trim() === '') return [];
    try {
      return (parseSync(sql).stmts ?? []).flatMap(({ stmt }) => (stmt === undefined ? [] : [stmt]));
    } catch (error) {
      throw new EndpointError(SQLSTATE.syntax, messageOf(error), { cause: error });
    }
  };
}
