import { exchangeNameOf } from '../../config/load.js';
import { reportOf } from '../../console/health.js';
import type { StatusServer } from '../../console/server.js';
import { AbortedError, type TapekeepError } from '../../kernel/errors.js';
import type { StoreEvents } from '../../observe/events.js';
import { fullDisk, type Store } from '../../store/index.js';
import { boundedStep } from '../ending.js';
import type { Circumstances } from '../notices/notices.js';
import { type RunningNotices, startNotices } from '../notices/webhook.js';
import {
  describeDatabase,
  migrateDatabase,
  openArchive,
  ownOf,
  refuseSecondWriter,
  startEmbedded,
} from '../opening/database.js';
import {
  archiveIdentityOf,
  type ExchangeAddress,
  exchangeAddress,
  proxiesOf,
} from '../opening/exchange.js';
import type { Session } from '../opening/session.js';
import { whenDatabaseAnswers } from '../opening/waiting.js';
import type { RunningExchange } from '../sandbox/built-in-exchange.js';
import { type ConsoleSources, consoleSources } from './console-sources.js';
import {
  type DaemonChecks,
  type DaemonView,
  daemonChecks,
  isHealthy,
  openDaemonStatus,
} from './daemon-status.js';
import { type Hold, Holding, type Taken } from './holding.js';
import { Term } from './term.js';

/** Ready notice for the operator. */
export interface DaemonAddresses {
  readonly exchange: string;
  /** Null where no states are collected. */
  readonly realtime: string | null;
  /** Proxies in front of them; null where there are none. */
  readonly proxy: string | null;
  readonly database: string;
  readonly status: string | null;
}

export interface DaemonOptions extends Session {
  /** How long a start waits for the database, milliseconds; default {@link DATABASE_WAIT_MS}. */
  readonly waitMs?: number | undefined;
  /** Called once when something happened after which going on would be wrong. */
  readonly onFatal: (error: Error) => void;
}

export const SIMULATING_PAST = 'simulating the past of the built-in exchange';
/** The embedded server gets this long at least to start. */
const EMBEDDED_START_MS = 60_000;
/** A database that starts beside the daemon, or recovers from a crash, is up by then. */
const DATABASE_WAIT_MS = 120_000;
/** All of a stop; container runtimes kill after 10 s. */
const STOP_MS = 9000;
/** Part of it that a standby gets to be ready. */
const STOP_HANDOVER_MS = 3500;
/** Time for that in a handover without a stop. */
const HANDOVER_WAIT_MS = 15_000;
/** The part of it that is kept for the embedded server, which must not be left running. */
const SERVER_STOP_MS = 3500;

/** Where the archive is, and how to let go of it in the time that is left. */
interface OpenDatabase {
  readonly url: string;
  readonly readerUrl: string;
  readonly stop?: (limits: { readonly timeoutMs: number }) => Promise<void>;
  readonly trouble?: () => string | undefined;
}

/**
 * The collecting daemon: wires the rooms together, starts them in order and stops them in reverse.
 *
 * States: *new* → *starting* (database, built-in exchange, console; then waiting for the
 * exchange's first answer, as long as it takes) → *running* → *stopping* → *stopped*. A failure while
 * starting stops what was started. A stop at any time gives up what is being started, waits until
 * that is known to have ended, and ends in bounded time whatever the database does.
 */
export class Daemon {
  readonly #options: DaemonOptions;
  readonly #stopping = new AbortController();
  #database: OpenDatabase | undefined;
  /** What is being started; never rejects. */
  #stage: Promise<unknown> = Promise.resolve();
  #store: Store | undefined;
  /** Address of the exchange, once that is known. */
  #address: ExchangeAddress = { url: '', realtimeUrl: null };
  #builtIn: RunningExchange | undefined;
  readonly #holding: Holding;
  #hold: Hold | undefined;
  #term: Term | undefined;
  /** Lets one term follow another; never rejects. */
  #terms: Promise<void> = Promise.resolve();
  #sources: ConsoleSources | undefined;
  #status: StatusServer | undefined;
  readonly #checks: DaemonChecks;
  #notices: RunningNotices | undefined;
  #hasCollected = false;
  #phase = 'starting';
  #failure: Error | undefined;
  /** Why the database is waited for; undefined while it is not. */
  #awaited: string | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: DaemonOptions) {
    this.#options = options;
    this.#checks = daemonChecks(options, () => this.view);
    this.#holding = new Holding({
      ...options,
      stopping: this.#stopping.signal,
      enter: (phase) => this.#enter(phase),
      retrying: (work) => this.#retrying(work),
    });
  }

  /** Starts everything that does not depend on the exchange's answering. */
  open(): Promise<DaemonAddresses> {
    return this.#asStage(() => this.#open());
  }

  /** Waits for the exchange's first answer, as long as it takes, and checks whose archive this is. */
  connect(): Promise<void> {
    return this.#asStage(() => this.#connect());
  }

  /** Collects until {@link Daemon.stop}. */
  collect(): Promise<void> {
    return this.#asStage(() => this.#collect());
  }

  async #open(): Promise<DaemonAddresses> {
    const { config, telemetry } = this.#options;
    const { signal } = this.#stopping;
    // First of all: what takes long must not look dead from outside.
    try {
      const sources = consoleSources(
        this.#options,
        () => this.view,
        () => void this.#status?.noteState(),
      );
      this.#sources = sources;
      this.#status = await openDaemonStatus(this.#options, () => this.view, this.#checks, sources);
    } catch (error) {
      await refuseSecondWriter(this.#options);
      throw error;
    }
    this.#notices = startNotices(this.#options, {
      exchange: () => this.view.exchange.name,
      circumstances: () => this.#circumstances(),
    });
    this.#enter('starting the database');
    const database = await this.#openDatabase();
    this.#database = database;
    this.#enter('migrating the database');
    const { roles } = await this.#retrying(() => {
      return migrateDatabase(this.#options, database.url);
    });
    if (roles.state !== 'busy' && roles.note !== null) {
      telemetry.daemon.warned({ code: 'roles_unsettled', message: roles.note });
    }
    const store = await this.#openStore();
    const isHeld = await this.#holding.isFree(store);
    if (config.exchange.url === null) this.#enter(SIMULATING_PAST);
    const { address, builtIn } = await exchangeAddress(this.#options);
    this.#builtIn = builtIn;
    this.#address = address;
    signal.throwIfAborted();
    if (isHeld) await this.#beginTerm(store).catch((error: unknown) => this.#unlessOver(error));
    return {
      exchange: address.url,
      realtime: config.streams.states.enabled ? address.realtimeUrl : null,
      proxy: proxiesOf(this.#options, address),
      database: describeDatabase(database.url),
      status: this.#status?.url ?? null,
    };
  }

  async #openStore(): Promise<Store> {
    const { url } = this.#database ?? { url: '' };
    const opening = () => openArchive(this.#options, url, ownOf(this.#options.config));
    this.#store = await this.#retrying(opening, (late) => late.stop());
    return this.#store;
  }

  /** @param freed how the archive came to this daemon; undefined: nobody held it */
  async #beginTerm(store: Store, freed?: Taken): Promise<void> {
    const { telemetry } = this.#options;
    this.#hold = this.#holding.hold(store, freed, {
      onLost: (heldBy) => {
        telemetry.daemon.holdLost({ heldBy });
        this.#term?.end({ isLost: true });
      },
      onAsked: () => void this.#handOver(HANDOVER_WAIT_MS).then(() => this.#term?.end()),
    });
    this.#term = new Term({
      ...this.#options,
      ...{ store, sending: this.#hold.sending, warm: this.#hold.warm },
      stopping: this.#stopping.signal,
      enter: (phase) => this.#enter(phase),
      retrying: (work) => this.#retrying(work),
      onFatal: (error) => this.#fail(error),
    });
    await this.#term.open(this.#address);
  }

  /** Lets the archive go; a new store knows nothing of what the old one remembered. */
  async #endTerm(): Promise<void> {
    await this.#stopTerm(() => Number.POSITIVE_INFINITY);
    this.#term = undefined;
    this.#stopping.signal.throwIfAborted();
    await this.#openStore();
  }

  async #stopTerm(leftMs: () => number): Promise<void> {
    await this.#term?.stop(leftMs, async () => await this.#hold?.lease.stop());
  }

  async #connect(): Promise<void> {
    for (;;) {
      try {
        await this.#connectTerm();
        return;
      } catch (error) {
        this.#unlessOver(error);
        await this.#endTerm();
      }
    }
  }

  /** @throws a failure that is not due to the end of the term, which another one follows */
  #unlessOver(error: unknown): void {
    if (this.#term?.isOver !== true) throw error;
  }

  /** Connects the term that there is, or the next one, for which it stands by as long as it takes. */
  async #connectTerm(): Promise<void> {
    const store = this.#store;
    if (store === undefined) throw new Error('open() comes first');
    if (this.#term === undefined) {
      const freed = await this.#holding.standBy(store, this.#address);
      await this.#beginTerm(store, freed);
    }
    await this.#term?.connect();
  }

  /** Why the archive may be that of another exchange, which only an answer can tell. */
  get identityConflict(): TapekeepError | undefined {
    return this.#term?.identityConflict;
  }

  /** Whether the exchange has answered at all. */
  get isConnected(): boolean {
    return this.#term?.identity !== undefined;
  }

  async #collect(): Promise<void> {
    await this.#collectTerm();
    this.#hasCollected = true;
    this.#terms = this.#followTerms().catch((error: Error) => {
      if (!this.#stopping.signal.aborted) this.#fail(error);
    });
  }

  /** Collects, unless the term ends meanwhile: then the next one follows. */
  async #collectTerm(): Promise<void> {
    await this.#term?.collect().catch((error: unknown) => this.#unlessOver(error));
  }

  /** Lets one term follow another until the daemon stops. */
  async #followTerms(): Promise<void> {
    for (;;) {
      await this.#term?.untilEnd();
      this.#stopping.signal.throwIfAborted();
      await this.#endTerm();
      await this.#connect();
      await this.#collectTerm();
    }
  }

  /** Waits until a standby receives what the exchange pushes, so that nothing pushed is missing between the two. */
  async #handOver(limitMs: number): Promise<void> {
    const { lease } = this.#hold ?? {};
    if (lease === undefined || lease.standbys.length === 0) return;
    this.#holding.giveWay();
    await lease.ask();
    await lease.untilReady(limitMs);
    await this.#term?.confirmStates();
  }

  /** Stops intake, stores what has arrived, closes everything. Safe to call twice. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    const { clock } = this.#options;
    const endMs = clock.monotonicMs() + STOP_MS;
    if (this.#term?.isCollecting === true) await this.#handOver(STOP_HANDOVER_MS);
    this.#phase = 'stopping';
    this.#stopping.abort(new AbortedError());
    const leftMs = () => Math.max(0, endMs - clock.monotonicMs());
    const lastNotice = this.#notices?.stop(this.#failure);
    // Only when the stage has ended is it known what there is to stop.
    const stages = () => Promise.all([this.#stage, this.#terms]);
    await boundedStep(this.#options, 'start', leftMs(), stages);
    const reservedMs = this.#database?.stop === undefined ? 0 : SERVER_STOP_MS;
    await this.#stopTerm(() => leftMs() - reservedMs);
    const steps: Array<[string, () => Promise<unknown> | undefined]> = [
      ['store', () => this.#store?.stop()],
      ['status', () => this.#stopStatus()],
      ['notices', () => lastNotice],
      ['exchange', () => this.#builtIn?.stop()],
    ];
    for (const [name, step] of steps) {
      await boundedStep(this.#options, name, Math.max(0, leftMs() - reservedMs), step);
    }
    const timeoutMs = Math.max(leftMs(), reservedMs);
    await boundedStep(this.#options, 'database', timeoutMs + 1000, () =>
      this.#database?.stop?.({ timeoutMs }),
    );
    this.#phase = 'stopped';
  }

  async #stopStatus(): Promise<void> {
    this.#sources?.stop();
    await this.#status?.stop();
  }

  #asStage<T>(work: () => Promise<T>): Promise<T> {
    const running = work();
    this.#stage = running.catch(() => undefined);
    return running;
  }

  /** @throws AbortedError after a stop, which alone names the phase then */
  #enter(phase: string): void {
    this.#stopping.signal.throwIfAborted();
    this.#phase = phase;
  }

  #retrying<T>(work: () => Promise<T>, discard?: (late: T) => Promise<void>): Promise<T> {
    const { clock, telemetry, config } = this.#options;
    const onOwnDisk = () =>
      work().catch(async (error: Error) => {
        throw (await fullDisk(config.dataDir, error)) ?? error;
      });
    const databaseAwaited: StoreEvents['databaseAwaited'] = (event) => {
      this.#awaited = event.detail;
      telemetry.store.databaseAwaited(event);
    };
    return whenDatabaseAnswers(
      {
        ...{ clock, telemetry: { databaseAwaited }, waitMs: this.#waitMs },
        ...{ databaseUrl: this.#database?.url ?? null, signal: this.#stopping.signal },
      },
      config.database.url === null ? onOwnDisk : work,
      discard,
    ).finally(() => {
      this.#awaited = undefined;
    });
  }

  /** Gathers what notices are about; never rejects. */
  async #circumstances(): Promise<Circumstances> {
    const reports = [this.#checks.health, this.#checks.ready].map((check) => reportOf(check));
    const checks = (await Promise.all(reports)).flatMap((report) => report.checks);
    const unfillableS = this.#term?.counted?.streams.reduce((sum, one) => sum + one.unfillableS, 0);
    const unfillableMs = unfillableS === undefined ? undefined : unfillableS * 1000;
    return { checks, disks: this.#term?.disks ?? [], unfillableMs };
  }

  /** Health fails from here on: only a new start can help. */
  #fail(error: Error): void {
    this.#failure ??= error;
    this.#options.onFatal(error);
  }

  /** Limited at a start only, when a person is there to read the message. */
  get #waitMs(): number {
    if (this.#hasCollected) return Number.POSITIVE_INFINITY;
    return this.#options.waitMs ?? DATABASE_WAIT_MS;
  }

  /** The configured Postgres, or the embedded one, started if need be. */
  async #openDatabase(): Promise<OpenDatabase> {
    const configured = this.#options.config.database.url;
    if (configured !== null) return { url: configured, readerUrl: configured };
    const { signal } = this.#stopping;
    const starting = () =>
      startEmbedded(this.#options, {
        signal,
        // Recovery after a crash may take its time.
        startTimeoutMs: Math.max(EMBEDDED_START_MS, this.#waitMs),
        onLost: (error) => this.#fail(error),
      });
    const server = await this.#retrying(starting);
    const { url, readerUrl, trouble } = server;
    return { url, readerUrl, trouble, stop: (limits) => server.stop(limits) };
  }

  /** Whether its loops turn, as `/healthz` says. */
  get isAlive(): boolean {
    return isHealthy(this.view);
  }

  /** Progress of the first walk through history, a line a kind. */
  get firstHistory(): readonly string[] {
    return this.#term?.firstHistory ?? [];
  }

  /** All that the console shows. */
  get view(): DaemonView {
    const nowMs = this.#options.clock.monotonicMs();
    const term = this.#term;
    const { lastAnswerMs } = term ?? {};
    return {
      phase: this.#phase,
      exchange:
        term?.identity === undefined
          ? { name: exchangeNameOf(this.#options.config) }
          : archiveIdentityOf(this.#options.config, term.identity.value),
      failure: this.#failure,
      databaseTrouble: this.#database?.trouble?.() ?? this.#awaited,
      ...{ collector: term?.collector, access: term?.access, store: this.#store },
      database: this.#database,
      idleMs: term?.idleMs ?? 0,
      silentMs: lastAnswerMs === undefined ? undefined : nowMs - lastAnswerMs,
      ...{ counted: term?.counted, disks: term?.disks ?? [], leftOut: term?.leftOut },
      ...{ heldBy: this.#holding.heldBy, standbys: this.#holding.standbys },
    };
  }
}
