import type { createExchangeClock } from '../client/index.js';
import { Collector } from '../collect/collector.js';
import { exchangeNameOf } from '../config/load.js';
import type { Config } from '../config/schema.js';
import { type Clock, sleep } from '../kernel/clock.js';
import { codeOf, messageOf, TapekeepError } from '../kernel/errors.js';
import { systemRandom } from '../kernel/random.js';
import { Backoff } from '../kernel/retry.js';
import type { ObservedTelemetry } from '../observe/telemetry.js';
import type { StatusServer } from '../status/server.js';
import type { Store } from '../store/index.js';
import { type RunningExchange, startBuiltInExchange } from './built-in-exchange.js';
import { type DaemonView, openDaemonStatus } from './daemon-status.js';
import { type Database, migrateDatabase, openArchive, openDatabase } from './database.js';
import { type ExchangeAccess, openExchange } from './exchange.js';
import { guardIdentity } from './identity.js';

/** What the operator is told once everything stands. */
export interface DaemonAddresses {
  readonly exchange: string;
  readonly database: string;
  readonly status: string | null;
}

export interface DaemonOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly telemetry: ObservedTelemetry;
  readonly exchangeTime: ReturnType<typeof createExchangeClock>;
  /** Called once when something happened after which going on would be wrong. */
  readonly onFatal: (error: Error) => void;
}

const HOUSEKEEPING_MS = 15_000;
const PARTITION_ROUNDS = 40;
/** Intake gets this long to end at a stop; what is still under way then is collected again. */
const INTAKE_STOP_MS = 3500;
const EXCHANGE_RETRY = { baseMs: 500, capMs: 15_000 };
/** Sandboxes name themselves by this beginning of their identity. */
const SANDBOX_IDENTITY = 'sandbox-';

/**
 * The collecting daemon: wires the rooms together, starts them in order and stops them in reverse.
 *
 * States: *new* → *starting* (database, built-in exchange, status pages; then waiting for the
 * exchange's first answer, as long as it takes) → *running* → *stopping* → *stopped*. A failure while
 * starting stops what was started.
 */
export class Daemon {
  readonly #options: DaemonOptions;
  readonly #stopping = new AbortController();
  #database: Database | undefined;
  #store: Store | undefined;
  #builtIn: RunningExchange | undefined;
  #access: ExchangeAccess | undefined;
  #status: StatusServer | undefined;
  #collector: Collector | undefined;
  #housekeeping: Promise<void> | undefined;
  #identity: { readonly value: string | null } | undefined;
  #phase = 'starting';
  #lastTickMs: number;
  #lastAnswerMs: number | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: DaemonOptions) {
    this.#options = options;
    this.#lastTickMs = options.clock.monotonicMs();
  }

  /** Starts everything that does not depend on the exchange's answering. */
  async open(): Promise<DaemonAddresses> {
    const { config, clock, telemetry, exchangeTime } = this.#options;
    this.#phase = 'starting the database';
    const database = await openDatabase(config, clock, telemetry.store);
    this.#database = database;
    this.#phase = 'migrating the database';
    await migrateDatabase(config, database.url, telemetry.store);
    const exchangeNowMs = () => exchangeTime.nowMs();
    const store = await openArchive(config, database.url, clock, telemetry.store, exchangeNowMs);
    this.#store = store;
    await store.acquireWriterLock();
    await store.closeOrphanSessions();
    const address = await this.#exchangeAddress();
    this.#access = openExchange(config, address, clock, telemetry, exchangeTime);
    this.#status = await openDaemonStatus(this.#options, () => this.view);
    return {
      exchange: address.url,
      database: describeDatabase(database.url),
      status: this.#status?.url ?? null,
    };
  }

  /** Waits for the exchange's first answer, as long as it takes, and checks whose archive this is. */
  async connect(): Promise<void> {
    const { config, exchangeTime } = this.#options;
    const { signal } = this.#stopping;
    const [store, access] = [this.#store, this.#access];
    if (store === undefined || access === undefined) throw new Error('open() comes first');
    this.#phase = 'waiting for the exchange';
    const identity = await this.#firstAnswer(access, signal);
    await store.claimArchive({
      name: exchangeNameOf(config),
      baseUrl: config.exchange.url ?? 'built-in',
      isSandbox: identity?.startsWith(SANDBOX_IDENTITY) ?? false,
      identity,
    });
    await store.makePartitionsAhead(exchangeTime.nowMs());
    this.#identity = { value: identity };
  }

  /** Whether the exchange has answered at all. */
  get isConnected(): boolean {
    return this.#identity !== undefined;
  }

  /** Collects until {@link Daemon.stop}. */
  async collect(): Promise<void> {
    const { config, clock, telemetry, exchangeTime, onFatal } = this.#options;
    const [store, access, identity] = [this.#store, this.#access, this.#identity];
    if (store === undefined || access === undefined || identity === undefined) {
      throw new Error('connect() comes first');
    }
    const guarded = guardIdentity(access.client, identity.value, onFatal);
    const collector = new Collector({
      settings: config,
      exchange: {
        call: async (name, params, options) => {
          const reply = await guarded.call(name, params, options);
          this.#lastAnswerMs = clock.monotonicMs();
          return reply;
        },
      },
      archive: store,
      openStateFeed: access.openStateFeed,
      time: exchangeTime,
      clock,
      random: systemRandom,
      telemetry: telemetry.collect,
      ...(config.account.enabled
        ? { account: { schedule: config.account.schedule, archive: store } }
        : {}),
    });
    this.#collector = collector;
    this.#housekeeping = this.#keepHouse(store);
    await collector.start();
    this.#phase = 'collecting';
  }

  /** Stops intake, stores what has arrived, closes everything. Safe to call twice. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    const { clock, telemetry } = this.#options;
    this.#phase = 'stopping';
    this.#stopping.abort();
    const patience = new AbortController();
    const late = sleep(clock, INTAKE_STOP_MS, patience.signal).catch(() => undefined);
    const steps: Array<[string, (() => Promise<unknown>) | undefined]> = [
      ['collector', () => Promise.race([this.#collector?.stop(), late])],
      ['client', () => Promise.resolve(this.#access?.close())],
      ['store', () => Promise.resolve(this.#store?.stop())],
      ['housekeeping', () => Promise.resolve(this.#housekeeping)],
      ['status', () => Promise.resolve(this.#status?.stop())],
      ['exchange', () => Promise.resolve(this.#builtIn?.stop())],
      ['database', () => Promise.resolve(this.#database?.stop())],
    ];
    for (const [name, step] of steps) {
      try {
        await step?.();
      } catch (error) {
        telemetry.daemon.warned({ code: codeOf(error), message: `${name}: ${messageOf(error)}` });
      }
    }
    patience.abort();
    this.#phase = 'stopped';
  }

  async #exchangeAddress() {
    const { config, clock, telemetry } = this.#options;
    if (config.exchange.url !== null) {
      return { url: config.exchange.url, realtimeUrl: config.realtime.url };
    }
    this.#builtIn = await startBuiltInExchange(config, clock, telemetry.server);
    const { url, realtimeUrl } = this.#builtIn.server;
    return { url, realtimeUrl };
  }

  /** Asks until the exchange answers; its answer sets the clock and tells who it is. */
  async #firstAnswer(access: ExchangeAccess, signal: AbortSignal): Promise<string | null> {
    const { clock, telemetry } = this.#options;
    const backoff = new Backoff(EXCHANGE_RETRY, systemRandom);
    for (;;) {
      try {
        const reply = await access.client.call('markets', {}, { signal, priority: 0 });
        this.#lastAnswerMs = clock.monotonicMs();
        return reply.identity;
      } catch (error) {
        if (signal.aborted) throw error;
        if (error instanceof TapekeepError && error.action === 'fatal') throw error;
        telemetry.collect.pollFailed({
          stream: 'markets',
          market: '*',
          code: codeOf(error),
          message: messageOf(error),
          action: 'retry',
        });
        await sleep(clock, backoff.nextMs(), signal);
      }
    }
  }

  /** Partitions made ahead, and the count of gaps for the metrics. */
  async #keepHouse(store: Store): Promise<void> {
    const { clock, telemetry, exchangeTime } = this.#options;
    const { signal } = this.#stopping;
    for (let round = 1; !signal.aborted; round += 1) {
      this.#lastTickMs = clock.monotonicMs();
      try {
        if (round % PARTITION_ROUNDS === 0) await store.makePartitionsAhead(exchangeTime.nowMs());
        await store.closeFilledGaps();
        const rows = await store.statusRows(exchangeTime.nowMs());
        const gaps = rows.map(({ kind, market, openGaps: count, gapS, unfillableS }) => {
          const lengthMs = (gapS - unfillableS) * 1000;
          return { stream: kind, market, count, lengthMs, unfillableMs: unfillableS * 1000 };
        });
        telemetry.collect.gapsCounted({ gaps });
      } catch (error) {
        if (!signal.aborted) {
          telemetry.daemon.warned({ code: codeOf(error), message: messageOf(error) });
        }
      }
      await sleep(clock, HOUSEKEEPING_MS, signal).catch(() => undefined);
    }
  }

  /** What the status pages show. */
  get view(): DaemonView {
    const nowMs = this.#options.clock.monotonicMs();
    return {
      phase: this.#phase,
      markets: this.#collector?.markets.length ?? 0,
      idleMs: this.#housekeeping === undefined ? 0 : nowMs - this.#lastTickMs,
      silentMs: this.#lastAnswerMs === undefined ? undefined : nowMs - this.#lastAnswerMs,
      pingDatabase: async () => this.#store?.ping(),
    };
  }
}

/** A database's address without its password. */
function describeDatabase(url: string): string {
  const shown = new URL(url);
  shown.password = '';
  return shown.href;
}
