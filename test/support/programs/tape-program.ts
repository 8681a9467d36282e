import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { makeTrades, type RecordedTrade, tapeLines } from '../exchanges/recorded.js';
import { writeTape } from '../exchanges/tape-exchange.js';
import { makeDatabase, runSql } from '../postgres/postgres.js';
import { type CommandEnd, runCommand } from './commands.js';
import { Program, type SandboxReady, startSandbox } from './program.js';

/** First second of the tape. */
export const START_S = 1_760_000_040;
const SECONDS = 600;
export const TAPE_MARKET = 'BTC_USDT';

/** A time of the tape, so many seconds after its start, for the command line. */
export function at(seconds: number): string {
  return new Date((START_S + seconds) * 1000).toISOString();
}

/**
 * One tape, one archive, and the programs that a person runs around them. The exchange can be
 * stopped and opened again later in its own time, so that a test need not wait for time to pass.
 */
export class TapeProgram {
  readonly #t: TestContext;
  readonly trades: readonly RecordedTrade[];
  readonly databaseUrl: string;
  readonly #tape: string;
  #exchange: { readonly program: Program; readonly ready: SandboxReady } | undefined;

  private constructor(
    t: TestContext,
    trades: readonly RecordedTrade[],
    tape: string,
    databaseUrl: string,
  ) {
    this.#t = t;
    this.trades = trades;
    this.#tape = tape;
    this.databaseUrl = databaseUrl;
  }

  /**
   * @param database `empty` leaves making the schema to the first program that comes
   * @param isTraded whether a trade so many seconds after the start is on the tape
   */
  static async make(
    t: TestContext,
    seed: number,
    database: 'migrated' | 'empty' = 'migrated',
    isTraded: (seconds: number) => boolean = () => true,
  ): Promise<TapeProgram> {
    const trades = makeTrades({ seed, seconds: SECONDS, startS: START_S, flood: 1300 }).filter(
      ({ timeMs }) => isTraded(timeMs / 1000 - START_S),
    );
    const tape = await writeTape(t, tapeLines(trades));
    return new TapeProgram(t, trades, tape, await makeDatabase(database));
  }

  /** Opens the exchange (again), so many seconds into the tape. */
  async openExchange(seconds: number, ...more: string[]): Promise<void> {
    // At another address it would have to be found out anew how it counts.
    const port = this.#exchange === undefined ? '0' : new URL(this.#exchange.ready.url).port;
    await this.#exchange?.program.dispose();
    const tape = ['--tape', this.#tape, '--market', TAPE_MARKET, '--no-rate-limit'];
    this.#exchange = await startSandbox([
      ...tape,
      '--start-offset',
      `${seconds}s`,
      '--port',
      port,
      ...more,
    ]);
    const { program } = this.#exchange;
    this.#t.after(() => program.dispose());
  }

  /** Changes, or asks for, what goes wrong at the exchange. */
  async faults(method: 'GET' | 'PUT' | 'DELETE', rules?: readonly object[]) {
    const reply = await fetch(`${this.#ready.url}/sandbox/faults`, {
      method,
      ...(rules === undefined
        ? {}
        : {
            body: JSON.stringify({ rules }),
            headers: { 'content-type': 'application/json' },
          }),
    });
    assert.equal(reply.status, 200);
    return (await reply.json()) as { result: { report: { rule: string; fired: number }[] } };
  }

  get #ready(): SandboxReady {
    assert.ok(this.#exchange !== undefined);
    return this.#exchange.ready;
  }

  /** Nothing of the past is collected unless it is asked for. */
  get env(): Record<string, string> {
    return {
      TAPEKEEP_EXCHANGE_URL: this.#ready.url,
      TAPEKEEP_REALTIME_URL: this.#ready.realtimeUrl,
      TAPEKEEP_DATABASE_URL: this.databaseUrl,
      TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '50',
      TAPEKEEP_STREAMS_TRADES_HISTORY: 'none',
      TAPEKEEP_STREAMS_CANDLES_HISTORY: 'none',
      TAPEKEEP_STREAMS_CANDLES_INTERVALS_S: '60',
      TAPEKEEP_VERIFICATION_ENABLED: 'false',
      TAPEKEEP_HTTP_PORT: '0',
    };
  }

  /** Runs the program; `debug` makes it log every commit. */
  start(args: readonly string[], env: Readonly<Record<string, string>> = {}): Program {
    const logging = ['--log-level', 'debug', '--log-format', 'json'];
    const program = new Program([...logging, ...args], { env: { ...this.env, ...env } });
    this.#t.after(() => program.dispose());
    return program;
  }

  /** Runs a command that only prints, in the process that all those of a test file share. */
  async ask(...args: string[]): Promise<CommandEnd> {
    return await runCommand(args, this.env);
  }

  /** Runs a command as a process of its own. */
  async run(...args: string[]): Promise<CommandEnd> {
    const program = new Program(args, { env: this.env });
    this.#t.after(() => program.dispose());
    const { code } = await program.ended();
    return { code, out: program.text('stdout'), err: program.text('stderr') };
  }

  /** A daemon that has stored something and knows how the server counts. */
  async startDaemon(env: Readonly<Record<string, string>> = {}): Promise<Program> {
    const daemon = this.start(['start'], env);
    await daemon.until(async () => {
      const rows = await runSql<{ modes: object }>(
        this.databaseUrl,
        'SELECT since_modes AS modes FROM archive',
      ).catch(() => []);
      return Object.keys(rows[0]?.modes ?? {}).length === 2;
    });
    return daemon;
  }

  async stop(daemon: Program): Promise<void> {
    daemon.kill('SIGTERM');
    assert.deepEqual(await daemon.ended(), { code: 0, signal: null }, daemon.dump());
  }

  /** Ids of the tape's trades in a span, as text; seconds after its start. */
  idsBetween(fromS: number, toS: number): string[] {
    return this.trades
      .filter(({ timeMs }) => timeMs >= (START_S + fromS) * 1000 && timeMs < (START_S + toS) * 1000)
      .map(({ id }) => String(id));
  }

  /** Stored ids of a span; of the trades with exact time alone where `isTimed`. */
  async storedBetween(fromS: number, toS: number, isTimed = false): Promise<string[]> {
    const rows = await runSql<{ tid: string }>(
      this.databaseUrl,
      `SELECT tid::text FROM trade WHERE (executed_at IS NOT NULL OR NOT $3)
         AND traded_at >= to_timestamp($1) AND traded_at < to_timestamp($2) ORDER BY trade.tid`,
      [START_S + fromS, START_S + toS, isTimed],
    );
    return rows.map(({ tid }) => tid);
  }
}
