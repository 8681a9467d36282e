import { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import pg from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import { AbortedError } from '../../kernel/errors.js';
import {
  type ConnectionOptions,
  clientConfig,
  connectFailure,
  sessionSettings,
} from '../connection.js';
import type { Runner } from '../database.js';
import { actionOf, toStoreError } from '../sqlstate.js';

/** Read ahead of a slow reader, bytes. */
const READ_AHEAD = 256 * 1024;
/** A lock that is not had by then is for another time. */
const LOCK_TIMEOUT_MS = 30_000;
/** The server looks this often whether we are still there: a killed program frees its locks. */
const LOOK_FOR_CLIENT = `
  DO $$ BEGIN
    PERFORM set_config('client_connection_check_interval', '1s', false);
  EXCEPTION WHEN OTHERS THEN NULL;
  END $$`;

/**
 * A connection for statements that take as long as they take. What ends it is the work, its signal, or
 * the wire.
 *
 * States: *open* → *lost*.
 */
export class LongConnection implements Runner {
  readonly #client: pg.Client;
  readonly #socket: Socket;
  readonly #signal: AbortSignal;
  readonly #onAbort: () => void;
  #isLost = false;
  /** What the server, or the wire, said when it ended the connection while nothing ran on it. */
  #lostBy: unknown;

  private constructor(client: pg.Client, socket: Socket, signal: AbortSignal) {
    this.#client = client;
    this.#socket = socket;
    this.#signal = signal;
    client.on('error', (error) => {
      this.#isLost = true;
      this.#lostBy ??= error;
    });
    client.on('end', () => {
      this.#isLost = true;
    });
    this.#onAbort = () => this.destroy();
    signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** @throws StoreError naming host, port and database; the signal's reason */
  static async open(options: ConnectionOptions, signal: AbortSignal): Promise<LongConnection> {
    signal.throwIfAborted();
    const socket = new Socket();
    try {
      const client = new pg.Client({ ...clientConfig(options), stream: () => socket });
      const connection = new LongConnection(client, socket, signal);
      await client.connect();
      await client.query(sessionSettings(0));
      await client.query(`SET lock_timeout = ${LOCK_TIMEOUT_MS}; SET enable_sort = on`);
      await client.query(LOOK_FOR_CLIENT);
      return connection;
    } catch (error) {
      socket.destroy();
      signal.throwIfAborted();
      throw connectFailure(error, options.databaseUrl);
    }
  }

  async rows<Row extends object>(sql: string, values: readonly unknown[] = []): Promise<Row[]> {
    return await this.#guard(async () => (await this.#client.query<Row>(sql, [...values])).rows);
  }

  single<Row extends object>(sql: string, values: readonly unknown[] = []): Promise<Row[]> {
    return this.rows<Row>(sql, values);
  }

  /** What `COPY … TO STDOUT` writes. A reader that leaves before the end ends the connection. */
  async *copyOut(sql: string): AsyncGenerator<Buffer> {
    this.#check();
    let isWhole = false;
    try {
      const stream = this.#client.query(copyTo(sql, { highWaterMark: READ_AHEAD }));
      for await (const piece of stream as AsyncIterable<Buffer>) yield piece;
      isWhole = true;
    } catch (error) {
      this.#signal.throwIfAborted();
      throw failure(error);
    } finally {
      if (!isWhole) this.destroy();
    }
  }

  /** Feeds one buffer to `COPY … FROM STDIN`. */
  async copyIn(sql: string, data: Buffer): Promise<void> {
    await this.#guard(async () => {
      const source = Readable.from([data], { objectMode: false });
      await pipeline(source, this.#client.query(copyFrom(sql)));
    });
  }

  async close(): Promise<void> {
    this.#signal.removeEventListener('abort', this.#onAbort);
    if (!this.#isLost) await this.#client.end().catch(() => undefined);
    this.destroy();
  }

  destroy(): void {
    this.#isLost = true;
    this.#socket.destroy();
  }

  #check(): void {
    this.#signal.throwIfAborted();
    if (this.#lostBy !== undefined) throw failure(this.#lostBy);
    if (this.#isLost) throw new AbortedError('the connection is closed');
  }

  async #guard<T>(work: () => Promise<T>): Promise<T> {
    this.#check();
    try {
      return await work();
    } catch (error) {
      this.#signal.throwIfAborted();
      throw failure(error);
    }
  }
}

function failure(error: unknown): Error {
  return toStoreError(
    error,
    actionOf(error) === 'retry' ? 'the database is in trouble' : 'refused',
  );
}
