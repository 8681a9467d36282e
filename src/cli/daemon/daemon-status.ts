import type { Collector } from '../../collect/collector.js';
import type { StandingStream } from '../../collect/ledgers.js';
import type { StretchedStream } from '../../collect/paces.js';
import { type HealthReport, healthReport, shared } from '../../console/health.js';
import {
  type StatusServer,
  type StatusServerOptions,
  startStatusServer,
} from '../../console/server.js';
import { idleText, sharesOf } from '../../console/shares.js';
import { type DiskSpace, standingText } from '../../console/state.js';
import {
  archiveStatus,
  type KnownExchange,
  type LedgerCount,
  statusOf,
  statusRows,
} from '../../console/status-document.js';
import { shownDuration } from '../../kernel/durations.js';
import { messageOf } from '../../kernel/errors.js';
import type { Store } from '../../store/index.js';
import { VERSION } from '../command.js';
import type { Database } from '../opening/database.js';
import type { ExchangeAccess } from '../opening/exchange.js';
import type { Session } from '../opening/session.js';
import { STANDING_BY } from './holding.js';

/** What operators may know of a daemon at one instant. */
export interface DaemonView {
  /** What it is doing, in words. */
  readonly phase: string;
  /** What is collected from. */
  readonly exchange: KnownExchange;
  /** After which it cannot go on, and ends. */
  readonly failure: Error | undefined;
  /** Why the embedded server cannot be started again, or the database is waited for; undefined while neither is so. */
  readonly databaseTrouble: string | undefined;
  /** Addresses of the archive; undefined while the server is being started. */
  readonly database: Pick<Database, 'url' | 'readerUrl'> | undefined;
  /** What is there of it: undefined before its turn has come at the start. */
  readonly collector: Collector | undefined;
  readonly access: ExchangeAccess | undefined;
  readonly store: Store | undefined;
  /** Time since its loops last turned, milliseconds. */
  readonly idleMs: number;
  /** Time since the exchange last answered; undefined before the first answer. */
  readonly silentMs: number | undefined;
  /** The ledger as it was last gone through; undefined before the first time. */
  readonly counted: LedgerCount | undefined;
  /** As last measured. */
  readonly disks: readonly DiskSpace[];
  /** Name of the other daemon that holds the archive, while this one stands by. */
  readonly heldBy: string | undefined;
  /** Daemons that stand by for this one. */
  readonly standbys: readonly string[];
  /** What of the archive the settings leave out, in words; undefined: nothing, or not known yet. */
  readonly leftOut: string | undefined;
}

/** Limit of a heartbeat's age: loops run several times within it. */
const STALE_TICK_MS = 60_000;
/** The exchange counts as answering when it did so within this time beyond three schedules. */
const EXCHANGE_SILENCE_MS = 15_000;
const SILENT_PERIODS = 3;
/** A commit that takes longer means that nothing is stored at present. */
const COMMIT_STUCK_MS = 15_000;

/** A database that does not answer in this time is named, before the whole look has taken too long. */
const PING_LIMIT_MS = 3_000;

/** Checks of a daemon: whether it can help itself, and whether it collects. */
export interface DaemonChecks {
  health(): Promise<HealthReport>;
  ready(): Promise<HealthReport>;
}

export function daemonChecks({ config, clock }: Session, look: () => DaemonView): DaemonChecks {
  const ping = shared(clock, PING_LIMIT_MS, async () => await look().store?.ping());
  return {
    health: async () => health(look()),
    ready: () => ready(look(), ping, config.http.notReadyAfter),
  };
}

/** Opens the console of a daemon, unless they are switched off. */
export async function openDaemonStatus(
  { config, clock, telemetry, exchangeTime }: Session,
  look: () => DaemonView,
  checks: DaemonChecks,
  sources: Pick<StatusServerOptions, 'handlers' | 'live'>,
): Promise<StatusServer | undefined> {
  if (!config.http.enabled) return undefined;
  const { host, port, token, viewerToken } = config.http;
  const { certFile, keyFile } = config.http.tls;
  return startStatusServer({
    ...{ host, port, token, viewerToken, version: VERSION },
    tls: certFile === null || keyFile === null ? null : { certFile, keyFile },
    clock,
    telemetry: telemetry.daemon,
    metricsText: () => telemetry.metricsText(),
    ...checks,
    ...sources,
    nowMs: () => exchangeTime.nowMs(),
    disks: () => look().disks,
    knownMarkets: () => knownMarkets(look(), config.markets),
    statusJson: (selection, reports) => {
      const nowMs = exchangeTime.nowMs();
      const view = look();
      const { collector, access } = view;
      const counts = telemetry.counts.snapshot();
      const { requests, failedRequests, lastFailure } = counts;
      return {
        ...statusOf(VERSION, view.exchange, nowMs, view.leftOut),
        archive: view.counted === undefined ? null : archiveStatus(view.counted, nowMs, selection),
        daemon: {
          phase: phaseText(view),
          share: config.collector.share,
          heldBy: view.heldBy ?? null,
          standbys: [...view.standbys],
          isTimeSettled: exchangeTime.lived !== undefined,
          isTimeDisputed: exchangeTime.isDisputed,
          timeBasis: exchangeTime.basis === 'local' ? 'local' : 'exchange',
          markets: collector?.markets.length ?? 0,
          wantedMarkets: collector?.wantedMarkets.length ?? 0,
          leftOutMarkets: collector?.leftOutMarkets ?? 0,
          missingMarkets: [...(collector?.missingMarkets ?? [])],
          ...{ requests, failedRequests, lastFailedRequest: lastFailure },
          requestsPerS: access?.requestsPerS() ?? 0,
          requestsWaiting: access?.requestsWaiting() ?? 0,
          stretched: collector?.stretched.map(stretchedOf) ?? [],
          ...standingOfAll(collector?.standing ?? []),
          rows: statusRows(counts, nowMs),
          ...reports,
        },
      };
    },
  });
}

/** A market that was just opened is collected before it is counted. */
function knownMarkets(
  { counted, collector }: DaemonView,
  configured: readonly string[],
): ReadonlySet<string> | undefined {
  if (counted === undefined) return undefined;
  const wanted = collector?.wantedMarkets ?? [];
  return new Set([...configured, ...wanted, ...counted.streams.map((one) => one.market)]);
}

function stretchedOf({ stream, scheduleMs, paceMs }: StretchedStream) {
  return { stream, scheduleS: scheduleMs / 1000, paceS: Math.round(paceMs / 1000) };
}

/** Streams that a document lists; an exchange that is down stops all of them. */
const LISTED_STANDING = 100;

/** @param streams the longest first */
function standingOfAll(streams: readonly StandingStream[]) {
  const standing = streams.slice(0, LISTED_STANDING).map(standingOf);
  return { standing, standingStreams: streams.length };
}

function standingOf({ market, kind, variant, standingMs, reason, note }: StandingStream) {
  const intervalS = variant === 0 ? null : variant;
  const standingS = Math.round(standingMs / 1000);
  return { market, kind, intervalS, standingS, reason, note };
}

/** What it is doing; markets that are open already are collected while the rest is opened. */
function phaseText({ phase, collector }: DaemonView): string {
  if (phase !== 'opening the markets') return phase;
  const { markets = [], wantedMarkets = [] } = collector ?? {};
  if (wantedMarkets.length === 0) return 'waiting for the list of markets';
  return `${phase}: ${markets.length} of ${wantedMarkets.length}, which are collected already`;
}

const ago = (ms: number) => `${shownDuration(ms)} ago`;

/** Whether the process can help itself. */
export function isHealthy({ idleMs, failure }: Pick<DaemonView, 'idleMs' | 'failure'>): boolean {
  return idleMs < STALE_TICK_MS && failure === undefined;
}

function health({ idleMs, failure }: DaemonView): HealthReport {
  const detail = `last turn ${ago(idleMs)}`;
  return healthReport([
    { name: 'loops', ok: idleMs < STALE_TICK_MS, detail },
    ...(failure === undefined ? [] : [{ name: 'going on', ok: false, detail: failure.message }]),
  ]);
}

/** @param standingLimitMs a stream that stands for longer makes the daemon not ready */
async function ready(
  view: DaemonView,
  ping: () => Promise<void>,
  standingLimitMs: number,
): Promise<HealthReport> {
  const { phase, silentMs, collector, store } = view;
  const unanswered =
    store === undefined ? 'not open yet' : await ping().then(() => undefined, messageOf);
  // That no one answers at an address says less than why.
  const pingFailure = unanswered && (view.databaseTrouble ?? unanswered);
  const database = {
    name: 'database',
    ok: pingFailure === undefined,
    ...(pingFailure && { detail: pingFailure }),
  };
  if (phase === STANDING_BY) {
    const detail = `another daemon holds the archive (${view.heldBy ?? 'not seen yet'})`;
    const checks = [{ name: 'standby', ok: true, detail }, database];
    return { ...healthReport(checks), state: 'standby' };
  }
  const oldestCommitMs = store?.oldestCommitMs() ?? 0;
  const outage = store?.outage();
  const spooled = store?.spooledBytes() ?? 0;
  const isStoring =
    pingFailure === undefined && outage === undefined && oldestCommitMs < COMMIT_STUCK_MS;
  const limitMs = EXCHANGE_SILENCE_MS + SILENT_PERIODS * (collector?.shortestPeriodMs ?? 0);
  // While nothing can be stored nothing is asked: then its silence says nothing about the exchange.
  const isAnswering = silentMs !== undefined && (silentMs < limitMs || !isStoring);
  const standing = (collector?.standing ?? []).filter(
    ({ standingMs }) => standingMs > standingLimitMs,
  );
  const idle = view.counted?.holders && idleText(sharesOf(view.counted.holders));
  const answer = silentMs === undefined ? 'no answer yet' : `last answer ${ago(silentMs)}`;
  return healthReport([
    { name: 'phase', ok: phase === 'collecting', detail: phaseText(view) },
    database,
    {
      name: 'archive',
      ok: isStoring,
      detail: `oldest commit under way for ${shownDuration(oldestCommitMs)}${spooled === 0 ? '' : `, ${spooled} bytes in the spool`}${outage === undefined ? '' : `: ${outage}`}`,
    },
    { name: 'exchange', ok: isAnswering, detail: answer },
    {
      name: 'streams',
      ok: standing.length === 0,
      detail:
        standing.length === 0
          ? `the coverage of no stream stands still for longer than ${shownDuration(standingLimitMs)}`
          : `coverage does not grow: ${standingText(standing.map(standingOf))}`,
    },
    ...(idle === undefined ? [] : [{ name: 'shares', ok: true, detail: idle }]),
    // Settings are no fault; but what they leave out stands still, and no other check says so.
    ...(view.leftOut === undefined ? [] : [{ name: 'settings', ok: true, detail: view.leftOut }]),
  ]);
}
