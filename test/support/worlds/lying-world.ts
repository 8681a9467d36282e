import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { WebSocket } from 'ws';
import { makeDatabase, runSql } from '../postgres/postgres.js';
import { Program, type SandboxReady, startSandbox } from '../programs/program.js';

export const MARKET = 'BTC_USDT';

interface Covered {
  readonly kind: string;
  readonly fromMs: number;
  readonly toMs: number;
}

/** An exchange of the present that knows all it ever did, and a daemon beside it, as processes. */
export class LyingWorld {
  readonly databaseUrl: string;
  readonly #ready: SandboxReady;
  readonly #t: TestContext;

  private constructor(t: TestContext, databaseUrl: string, ready: SandboxReady) {
    this.#t = t;
    this.databaseUrl = databaseUrl;
    this.#ready = ready;
  }

  static async open(t: TestContext): Promise<LyingWorld> {
    const databaseUrl = await makeDatabase('migrated');
    const live = ['--market', MARKET, '--seed', '11', '--keep-all', '--no-rate-limit'];
    const { program, ready } = await startSandbox(live);
    t.after(() => program.dispose());
    return new LyingWorld(t, databaseUrl, ready);
  }

  start(env: Readonly<Record<string, string>> = {}): Program {
    const logging = ['--log-level', 'debug', '--log-format', 'json'];
    const daemon = new Program([...logging, 'start'], {
      env: {
        TAPEKEEP_EXCHANGE_URL: this.#ready.url,
        TAPEKEEP_REALTIME_URL: this.#ready.realtimeUrl,
        ...this.env,
        TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '30',
        TAPEKEEP_STREAMS_TRADES_HISTORY: 'none',
        TAPEKEEP_STREAMS_CANDLES_HISTORY: 'none',
        TAPEKEEP_STREAMS_DEPTH_SCHEDULE: '* * * * * *',
        TAPEKEEP_STREAMS_TICKERS_SCHEDULE: '* * * * * *',
        TAPEKEEP_VERIFICATION_ENABLED: 'false',
        TAPEKEEP_HTTP_PORT: '0',
        ...env,
      },
    });
    this.#t.after(() => daemon.dispose());
    return daemon;
  }

  get env(): Record<string, string> {
    return { TAPEKEEP_DATABASE_URL: this.databaseUrl };
  }

  async stop(daemon: Program): Promise<void> {
    daemon.kill('SIGTERM');
    assert.deepEqual(await daemon.ended(), { code: 0, signal: null }, daemon.dump());
  }

  /** Sets what goes wrong at the exchange; answers with how often each rule has fired so far. */
  async faults(rules?: readonly object[]): Promise<number[]> {
    const put = {
      body: JSON.stringify({ rules }),
      headers: { 'content-type': 'application/json' },
    };
    const how = rules === undefined ? {} : { method: 'PUT', ...put };
    const reply = await fetch(`${this.#ready.url}/sandbox/faults`, how);
    assert.equal(reply.status, 200);
    const { result } = (await reply.json()) as { result: { report: { fired: number }[] } };
    return result.report.map(({ fired }) => fired);
  }

  /** Resolves when the exchange's time reaches an instant: its states are an event each. */
  async untilTime(ms: number): Promise<void> {
    const socket = new WebSocket(this.#ready.realtimeUrl);
    const request = { method: 'state.subscribe', params: [MARKET, 60], id: 1 };
    socket.on('open', () => socket.send(JSON.stringify(request)));
    try {
      await new Promise<void>((resolve, reject) => {
        socket.on('error', reject);
        socket.on('message', () => {
          if (Date.now() >= ms) resolve();
        });
      });
    } finally {
      socket.terminate();
    }
  }

  async covered(): Promise<Covered[]> {
    return await runSql<Covered>(
      this.databaseUrl,
      `SELECT kind, extract(epoch FROM lower(span))::float8 * 1000 AS "fromMs",
              extract(epoch FROM upper(span))::float8 * 1000 AS "toMs"
       FROM coverage JOIN stream USING (stream_id) ORDER BY 1, 2`,
    );
  }

  /** End of what is covered of a kind; 0 for none. */
  async coveredUntil(kind: string): Promise<number> {
    const own = (await this.covered()).filter((one) => one.kind === kind);
    return Math.max(0, ...own.map(({ toMs }) => toMs));
  }

  /** Asserts that nothing is covered of time that has not come. */
  async assertNoFuture(): Promise<void> {
    const covered = await this.covered();
    const nowMs = Date.now();
    for (const { kind, toMs } of covered) {
      const aheadMs = toMs - nowMs;
      assert.ok(aheadMs <= 1, `${kind} is covered ${aheadMs} ms into the future`);
    }
  }

  /** Trades that the exchange issued in covered time and that are not stored. */
  async claimedAndMissing(): Promise<number[]> {
    const spans = (await this.covered()).filter(({ kind }) => kind === 'trades');
    const stored = new Set(
      (await runSql<{ tid: string }>(this.databaseUrl, 'SELECT tid::text FROM trade')).map(
        ({ tid }) => Number(tid),
      ),
    );
    const reply = await fetch(`${this.#ready.url}/sandbox/truth?market=${MARKET}`);
    const issued = (await reply.text()).split('\n').filter((line) => line !== '');
    return issued
      .map((line) => JSON.parse(line) as { id: number; timeUs: number })
      .filter(({ timeUs }) =>
        spans.some(({ fromMs, toMs }) => fromMs <= timeUs / 1000 && timeUs / 1000 < toMs),
      )
      .map(({ id }) => id)
      .filter((id) => !stored.has(id));
  }
}
