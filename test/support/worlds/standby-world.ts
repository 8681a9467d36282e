import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../../src/kernel/clock.js';
import { openLive } from '../../../src/sandbox/live/open-live.js';
import type { Backend } from '../../../src/server/backend.js';
import { type Served, type ServerRecord, serve } from '../exchanges/served.js';
import { type Claims, judgeClaims } from '../oracle/claims.js';
import { openSql, runSql } from '../postgres/postgres-server.js';
import { Program } from '../programs/program.js';

/** Requests a second that each daemon may send, and how many at once after a pause. */
export const RATE_PER_S = 10;
export const BURST = 10;

/** A test, or a benchmark: the world ends with it. */
export interface Owner {
  after(end: () => Promise<void>): void;
}

/** An exchange of the present that notes each request, and daemons of one archive beside it. */
export class StandbyWorld {
  readonly #t: Owner;
  readonly databaseUrl: string;
  readonly #url: string;
  readonly #realtimeUrl: string;
  readonly #record: Pick<ServerRecord, 'open'>;
  /** When each request was answered, by the monotonic clock of this process. */
  readonly #answeredMs: number[] = [];

  private constructor(t: Owner, databaseUrl: string, { server, record }: Served<Backend>) {
    this.#t = t;
    this.databaseUrl = databaseUrl;
    this.#url = server.url;
    this.#realtimeUrl = server.realtimeUrl;
    this.#record = record;
  }

  /** @param databaseUrl of a migrated database of its own */
  static async open(t: Owner, databaseUrl: string): Promise<StandbyWorld> {
    const backend = await openLive({ seed: 23 }, systemClock);
    const variants = { rateLimit: false } as const;
    const exchange = await serve(t, backend, systemClock, { variants, control: true });
    const { record } = exchange;
    const world = new StandbyWorld(t, databaseUrl, exchange);
    const served = record.served.bind(record);
    record.served = (event) => {
      served(event);
      if (event.endpoint !== 'unknown') world.#answeredMs.push(systemClock.monotonicMs());
    };
    return world;
  }

  /** Connections for states that are open, of all daemons. */
  get connections(): number {
    return this.#record.open;
  }

  /** Addresses of the exchange and the database, for a command. */
  get addresses(): Readonly<Record<string, string>> {
    return {
      TAPEKEEP_EXCHANGE_URL: this.#url,
      TAPEKEEP_REALTIME_URL: this.#realtimeUrl,
      TAPEKEEP_DATABASE_URL: this.databaseUrl,
    };
  }

  /**
   * Starts a daemon; a database of its own URL leads it through a proxy.
   *
   * @param level of its log: a wait asks again after each line
   */
  start(env: Readonly<Record<string, string>> = {}, level = 'debug'): Program {
    // As on a machine of its own.
    const dataDir = mkdtempSync(join(tmpdir(), 'tapekeep-standby-'));
    const daemon = new Program(['--log-level', level, '--log-format', 'json', 'start'], {
      env: {
        ...this.addresses,
        TAPEKEEP_DATA_DIR: dataDir,
        TAPEKEEP_DATABASE_POOL_SIZE: '2',
        TAPEKEEP_EXCHANGE_REQUESTS_PER_S: String(RATE_PER_S),
        TAPEKEEP_STREAMS_TRADES_SCHEDULE: '* * * * * *',
        TAPEKEEP_STREAMS_TRADES_HISTORY: '10m',
        TAPEKEEP_STREAMS_CANDLES_HISTORY: '10m',
        TAPEKEEP_STREAMS_CANDLES_INTERVALS_S: '60',
        TAPEKEEP_VERIFICATION_ENABLED: 'false',
        TAPEKEEP_HTTP_PORT: '0',
        ...env,
      },
    });
    this.#t.after(async () => {
      await daemon.dispose();
      rmSync(dataDir, { recursive: true });
    });
    return daemon;
  }

  /** Resolves when a daemon has taken the archive, this time or an earlier one. */
  async holds(daemon: Program, times = 1): Promise<void> {
    await daemon.until(async () => count(daemon, 'archive taken') >= times);
  }

  async standsBy(daemon: Program, times = 1): Promise<void> {
    await daemon.until(async () => count(daemon, 'standing by; another') >= times);
  }

  /** Resolves when trades were received after an instant of this machine. */
  async storesAfter(daemon: Program, wallMs: number): Promise<void> {
    await daemon.until(() => this.hasTradesAfter(wallMs));
  }

  async hasTradesAfter(wallMs: number): Promise<boolean> {
    const sql = 'SELECT FROM trade WHERE received_at > to_timestamp($1 / 1000.0) LIMIT 1';
    return (await runSql(this.databaseUrl, sql, [wallMs])).length > 0;
  }

  /** Resolves when states are covered beyond an instant, of all markets. */
  async statesAfter(daemon: Program, wallMs: number): Promise<void> {
    await daemon.until(() => this.isCoveredAfter('states', wallMs));
  }

  /** Returns true if the streams of a kind are covered beyond an instant, of all markets. */
  async isCoveredAfter(kind: string, wallMs: number): Promise<boolean> {
    const rows = await runSql<{ isLater: boolean }>(
      this.databaseUrl,
      `SELECT coalesce(max(upper(span)) > to_timestamp($2 / 1000.0), false) AS "isLater"
       FROM stream LEFT JOIN coverage USING (stream_id) WHERE kind = $1 GROUP BY stream_id`,
      [kind, wallMs],
    );
    return rows.length > 0 && rows.every(({ isLater }) => isLater);
  }

  /** Resolves when the trades of all markets are covered up to an instant, without a gap since the oldest of them. */
  async isWholeUntil(daemon: Program, wallMs: number): Promise<void> {
    await daemon.until(() => this.isWhole(wallMs));
  }

  async isWhole(wallMs: number): Promise<boolean> {
    const rows = await runSql<{ whole: boolean }>(
      this.databaseUrl,
      `SELECT coalesce(range_agg(span) @> tstzrange(min(lower(span)), to_timestamp($1 / 1000.0)), false) AS whole
       FROM stream LEFT JOIN coverage USING (stream_id) WHERE kind = 'trades' GROUP BY stream_id`,
      [wallMs],
    );
    return rows.length > 0 && rows.every(({ whole }) => whole);
  }

  /** Requests that the exchange answered. */
  get requests(): number {
    return this.#answeredMs.length;
  }

  /**
   * The most requests that all daemons together sent at once, beyond the rate of one: in the stretch of time in which
   * they were the most.
   *
   * @param from leaves out so many requests that came before
   */
  mostAtOnce(from = 0): number {
    let [most, least] = [0, Number.POSITIVE_INFINITY];
    for (const [at, answeredMs] of this.#answeredMs.slice(from).entries()) {
      const ahead = at - (RATE_PER_S * answeredMs) / 1000;
      least = Math.min(least, ahead);
      most = Math.max(most, ahead - least + 1);
    }
    return most;
  }

  /** Asserts that daemons together kept to the limit of one, in every stretch of time. */
  assertWithinLimit(): void {
    assert.ok(this.requests > 5 * RATE_PER_S, `only ${this.requests} requests`);
    // An answer is noted somewhat later than its request came.
    const slack = RATE_PER_S;
    const most = this.mostAtOnce();
    assert.ok(most <= BURST + slack, `${most} requests at once`);
  }

  /** Stops daemons, and holds what the archive claims then against what the exchange issued. */
  async judge(...daemons: readonly Program[]): Promise<Claims> {
    for (const daemon of daemons) daemon.kill('SIGTERM');
    for (const daemon of daemons) assert.equal((await daemon.ended()).code, 0, daemon.dump());
    const stoppedMs = Date.now();
    const archive = await openSql(this.databaseUrl);
    try {
      const claims = await judgeClaims(archive, this.#url, stoppedMs);
      assert.deepEqual(
        Object.entries(claims.lies).filter(([, found]) => found !== 0),
        [],
      );
      assert.ok(claims.proven > 0);
      return claims;
    } finally {
      await archive.end();
    }
  }

  /**
   * Longest time without covered states, milliseconds: from the first covered instant to the last, over all markets.
   *
   * @param kind of the streams
   * @param sinceMs leaves out what ended before it
   */
  async gapMs(kind = 'states', sinceMs = 0): Promise<number> {
    const [row] = await runSql<{ ms: number }>(
      this.databaseUrl,
      `SELECT coalesce(max(extract(epoch FROM from_at - until_at)), 0)::float8 * 1000 AS ms FROM (
         SELECT lower(span) AS from_at, lag(upper(span)) OVER (PARTITION BY stream_id ORDER BY span) AS until_at
         FROM coverage JOIN stream USING (stream_id) WHERE kind = $1) holes
       WHERE from_at > to_timestamp($2 / 1000.0)`,
      [kind, sinceMs],
    );
    return row?.ms ?? Number.NaN;
  }
}

function count(daemon: Program, text: string): number {
  return daemon.lines.stderr.filter((line) => line.includes(text)).length;
}
