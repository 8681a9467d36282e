import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { systemClock } from '../../../src/kernel/clock.js';
import { openLive } from '../../../src/sandbox/live/open-live.js';
import { serve } from '../exchanges/served.js';
import { judgeClaims } from '../oracle/claims.js';
import { makeDatabase, runSql } from '../postgres/postgres.js';
import { openSql } from '../postgres/postgres-server.js';
import { Program } from '../programs/program.js';

/** Requests a second that each daemon may send, and how many at once after a pause. */
const RATE_PER_S = 10;
const BURST = 10;

/** An exchange of the present that notes each request, and daemons of one archive beside it. */
export class StandbyWorld {
  readonly #t: TestContext;
  readonly databaseUrl: string;
  readonly #url: string;
  readonly #realtimeUrl: string;
  /** When each request was answered, by the monotonic clock of this process. */
  readonly #answeredMs: number[] = [];

  private constructor(t: TestContext, databaseUrl: string, url: string, realtimeUrl: string) {
    this.#t = t;
    this.databaseUrl = databaseUrl;
    this.#url = url;
    this.#realtimeUrl = realtimeUrl;
  }

  static async open(t: TestContext): Promise<StandbyWorld> {
    const backend = await openLive({ seed: 23 }, systemClock);
    const variants = { rateLimit: false } as const;
    const { server, record } = await serve(t, backend, systemClock, { variants, control: true });
    const url = await makeDatabase('migrated');
    const world = new StandbyWorld(t, url, server.url, server.realtimeUrl);
    const served = record.served.bind(record);
    record.served = (event) => {
      served(event);
      if (event.endpoint !== 'unknown') world.#answeredMs.push(systemClock.monotonicMs());
    };
    return world;
  }

  /** Starts a daemon; a database of its own URL leads it through a proxy. */
  start(env: Readonly<Record<string, string>> = {}): Program {
    const daemon = new Program(['--log-level', 'debug', '--log-format', 'json', 'start'], {
      env: {
        TAPEKEEP_EXCHANGE_URL: this.#url,
        TAPEKEEP_REALTIME_URL: this.#realtimeUrl,
        TAPEKEEP_DATABASE_URL: this.databaseUrl,
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
    this.#t.after(() => daemon.dispose());
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
    await daemon.until(async () => {
      const sql = 'SELECT FROM trade WHERE received_at > to_timestamp($1 / 1000.0) LIMIT 1';
      return (await runSql(this.databaseUrl, sql, [wallMs])).length > 0;
    });
  }

  /** Resolves when states are covered beyond an instant, of all markets. */
  async statesAfter(daemon: Program, wallMs: number): Promise<void> {
    await daemon.until(async () => {
      const rows = await runSql<{ isLater: boolean }>(
        this.databaseUrl,
        `SELECT coalesce(max(upper(span)) > to_timestamp($1 / 1000.0), false) AS "isLater"
         FROM stream LEFT JOIN coverage USING (stream_id) WHERE kind = 'states' GROUP BY stream_id`,
        [wallMs],
      );
      return rows.length > 0 && rows.every(({ isLater }) => isLater);
    });
  }

  /** Resolves when the trades of all markets are covered up to an instant, without a gap since the oldest of them. */
  async isWholeUntil(daemon: Program, wallMs: number): Promise<void> {
    await daemon.until(async () => {
      const rows = await runSql<{ whole: boolean }>(
        this.databaseUrl,
        `SELECT coalesce(range_agg(span) @> tstzrange(min(lower(span)), to_timestamp($1 / 1000.0)), false) AS whole
         FROM stream LEFT JOIN coverage USING (stream_id) WHERE kind = 'trades' GROUP BY stream_id`,
        [wallMs],
      );
      return rows.length > 0 && rows.every(({ whole }) => whole);
    });
  }

  /** Asserts that daemons together kept to the limit of one, in every stretch of time. */
  assertWithinLimit(): void {
    const times = this.#answeredMs;
    assert.ok(times.length > 5 * RATE_PER_S, `only ${times.length} requests`);
    // An answer is noted somewhat later than its request came.
    const slack = RATE_PER_S;
    for (const [first, fromMs] of times.entries()) {
      for (let last = first; last < times.length; last += 1) {
        const lengthMs = (times[last] ?? 0) - fromMs;
        const most = BURST + (RATE_PER_S * lengthMs) / 1000 + slack;
        const sent = last - first + 1;
        assert.ok(sent <= most, `${sent} requests in ${Math.round(lengthMs)} ms`);
      }
    }
  }

  /** Stops daemons, and holds what the archive claims then against what the exchange issued. */
  async judge(...daemons: readonly Program[]): Promise<void> {
    for (const daemon of daemons) daemon.kill('SIGTERM');
    for (const daemon of daemons) assert.equal((await daemon.ended()).code, 0, daemon.dump());
    const stoppedMs = Date.now();
    const archive = await openSql(this.databaseUrl);
    try {
      const { lies, proven } = await judgeClaims(archive, this.#url, stoppedMs);
      assert.deepEqual(
        Object.entries(lies).filter(([, found]) => found !== 0),
        [],
      );
      assert.ok(proven > 0);
    } finally {
      await archive.end();
    }
  }

  /** Longest time without covered states, milliseconds: from the first covered instant to the last, over all markets. */
  async stateGapMs(): Promise<number> {
    const [row] = await runSql<{ ms: number }>(
      this.databaseUrl,
      `SELECT coalesce(max(extract(epoch FROM from_at - until_at)), 0)::float8 * 1000 AS ms FROM (
         SELECT lower(span) AS from_at, lag(upper(span)) OVER (PARTITION BY stream_id ORDER BY span) AS until_at
         FROM coverage JOIN stream USING (stream_id) WHERE kind = 'states') holes`,
    );
    return row?.ms ?? Number.NaN;
  }
}

function count(daemon: Program, text: string): number {
  return daemon.lines.stderr.filter((line) => line.includes(text)).length;
}
