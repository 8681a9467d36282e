import { obtain } from '../kernel/bounded.js';
import { shownDuration } from '../kernel/durations.js';
import { isoMs } from '../kernel/timestamp.js';
import { event, type Failure, type Recorder } from './entry.js';
import { slug } from './labels.js';
import type { GapSums, RowOutcome } from './run-counts.js';

/** The log shows the first names of long lists. */
const sample = (names: readonly string[]) => names.slice(0, 20);

/** Number and length of gaps, summed up over the markets. */
function gapsByStream(gaps: readonly (GapSums & { readonly stream: string })[]) {
  const sums = new Map<string, GapSums>();
  for (const { stream, ...gap } of gaps) {
    const sum = sums.get(stream) ?? { count: 0, lengthMs: 0, lostCount: 0 };
    sums.set(stream, {
      count: sum.count + gap.count,
      lengthMs: sum.lengthMs + gap.lengthMs,
      lostCount: sum.lostCount + gap.lostCount,
    });
  }
  return sums;
}

/** A stream of a market. */
export interface Stream {
  readonly stream: string;
  readonly market: string;
}

/** Level of a failed poll, by what follows from it. */
const POLL_LEVEL = { retry: 'warn', skip: 'warn', fatal: 'error' } as const;

/** Collecting. Rows and pages are trace and debug; suspect completeness is warn. */
export const COLLECT = {
  /** Rows that arrived from the exchange, before anything is decided about them. */
  received: event<Stream & { count: number }>({
    level: 'trace',
    text: 'rows received',
    record(recorder, { stream: name, count }) {
      const stream = recorder.stream(name);
      recorder.metrics.move('rows_received_total', count, { stream });
      recorder.counts.received(stream, count);
    },
  }),
  /** Their outcomes. Over all outcomes the counts equal those received, less those in flight. */
  settled: event<Stream & { outcome: RowOutcome; count: number }>({
    level: (one) => (isAlarming(one) ? 'warn' : 'trace'),
    text: (one) => (isAlarming(one) ? `rows ${one.outcome}` : 'rows settled'),
    flood: (one) => (isAlarming(one) ? `rows ${one.stream} ${one.outcome}` : undefined),
    moves: { rows_total: 'count' },
    record: (recorder, { stream, outcome, count }) =>
      recorder.counts.settled(recorder.stream(stream), outcome, count),
  }),
  /** Newest stored time of a stream, exchange time. The lag is derived from it at each scrape. */
  progressed: event<Stream & { newestMs: number }>({
    level: 'trace',
    text: 'progressed',
    record(recorder, { stream, market, newestMs }) {
      const at = recorder.metrics.label('market', market);
      recorder.counts.progressed(recorder.stream(stream), at, newestMs);
    },
  }),
  pollFailed: event<Stream & Failure & { action: 'retry' | 'skip' | 'fatal' }>({
    level: ({ action }) => POLL_LEVEL[action],
    text: 'poll failed',
    flood: ({ stream, code, action }) => `poll ${stream} ${code} ${action}`,
    fields: ({ message, ...fields }) => ({ ...fields, error: message }),
    moves: { poll_failures_total: 1 },
  }),
  /** The newest trades of a market were asked for, and stored. */
  headPolled: event<
    Stream & {
      /** Trigger: the state feed or the tickers, asked for by the schedule, and so on. */
      cause: 'pushed' | 'swept' | 'stored' | 'urgent' | 'floor' | 'spare';
      /** Time from the sign of a trade to the poll; undefined without a sign. */
      waitMs: number | undefined;
      /** How old the new trades were once they were stored, exchange time. */
      agesMs: readonly number[];
    }
  >({
    level: 'trace',
    text: 'newest trades polled',
    fields: ({ agesMs, ...fields }) => ({ ...fields, rows: agesMs.length }),
    moves: { head_polls_total: 1, head_poll_wait_seconds: 'waitMs' },
    record({ metrics }, { agesMs }) {
      for (const ms of agesMs) metrics.move('trade_age_seconds', ms / 1000);
    },
  }),
  /** A scheduled run found the one before still going, and was left out. */
  runSkipped: event<{ stream: string }>({
    level: 'debug',
    text: 'run skipped: previous run in progress',
    moves: { runs_skipped_total: 1 },
  }),
  /** The watchdog found a schedule that missed two runs in a row. */
  scheduleMissed: event<{ schedule: string }>({
    level: 'warn',
    text: 'schedule missed two runs; running now',
    flood: ({ schedule }) => `missed ${schedule}`,
    moves: { schedules_missed_total: 1 },
  }),
  /** Streams that the request budget lets be polled less often than scheduled, as of now; none when that is over. */
  pacesStretched: event<{
    streams: readonly { stream: string; scheduleMs: number; paceMs: number }[];
  }>({
    level: ({ streams }) => (streams.length > 0 ? 'warn' : 'info'),
    text: ({ streams }) =>
      streams.length > 0
        ? 'request budget too small; polling less often than scheduled'
        : 'request budget sufficient; polling as scheduled',
    fields: ({ streams }) =>
      Object.fromEntries(
        streams.map(({ stream, scheduleMs, paceMs }) => [
          stream,
          `every ${shownDuration(paceMs)} instead of ${shownDuration(scheduleMs)}`,
        ]),
      ),
    record(recorder, { streams }) {
      recorder.metrics.reset('stretched_pace_seconds');
      for (const { stream, paceMs } of streams) {
        const at = { stream: recorder.stream(stream) };
        recorder.metrics.move('stretched_pace_seconds', paceMs / 1000, at);
      }
    },
  }),
  walkStepped: event<Stream & { pages: number; connected: boolean }>({
    level: 'debug',
    text: 'walked through history',
    moves: { walks_total: 1, walk_pages_total: 'pages' },
  }),
  /** Streams whose coverage does not grow, as of now, the longest first. Those of one kind and reason are one line. */
  streamsStanding: event<{
    streams: readonly {
      kind: string;
      market: string;
      variant: number;
      standingMs: number;
      reason: string;
      note: string;
    }[];
  }>({
    level: () => undefined,
    text: '',
    record(recorder, { streams }) {
      const { metrics } = recorder;
      metrics.reset('standing_seconds');
      const alike = new Map<string, (typeof streams)[number][]>();
      const labelled = streams.map((one) => {
        obtain(alike, `standing ${one.kind} ${one.reason}`, () => []).push(one);
        return { ...one, market: metrics.label('market', one.market) };
      });
      // The value set last is shown: for candles of several lengths, and of markets that share a label, the longest.
      for (const { kind, market, standingMs } of labelled.toReversed()) {
        const at = { stream: recorder.stream(kind), market };
        metrics.move('standing_seconds', Math.max(0, standingMs / 1000), at);
      }
      for (const [key, group] of alike) {
        const [{ kind, market, ...longest }] = group as [(typeof streams)[number]];
        const more = group.length === 1 ? {} : { others: group.length - 1 };
        const text = 'stream stalled: coverage not advancing';
        const logged = { stream: kind, market, ...longest, ...more };
        recorder.logger.writeRepeating('warn', key, text, logged);
      }
    },
  }),
  /** The exchange began the ids of a market's trades anew. */
  idsBegunAnew: event<{
    market: string;
    firstId: number;
    lastIdBefore: number;
    atMs: number;
  }>({
    level: 'warn',
    text: 'exchange restarted its trade ids; trades stay ordered by time',
    fields: ({ market, atMs, ...ids }) => ({ market, at: isoMs(atMs), ...ids }),
    moves: { id_epochs_total: 1 },
  }),
  /** Stored rows that later answers showed to be no trades went to quarantine. */
  tradesExposed: event<Stream & { count: number; note: string }>({
    level: 'warn',
    text: 'invalid trades moved to quarantine; refetching their time range',
    moves: { trades_exposed_total: 'count' },
  }),
  walkStalled: event<Stream & { detail: string }>({
    level: 'warn',
    text: 'walk stopped: no progress',
    flood: ({ stream, market }) => `stall ${stream} ${market}`,
    moves: { walk_stalls_total: 1 },
  }),
  /**
   * A page of the newest trades lacks trades that another source shows: it is not claimed beyond its
   * rows. `isFirst`: the one before it was not held back.
   */
  historyStale: event<
    Stream & {
      source: 'states' | 'tickers' | 'history' | 'feed';
      /** Age of its newest row when the missing trade happened; null: it has no row. */
      behindMs: number | null;
      isFirst: boolean;
    }
  >({
    level: ({ isFirst, source }) => (isFirst && source !== 'feed' ? 'warn' : undefined),
    text: 'stale page of newest trades; covered up to its own rows only',
    flood: ({ stream, market }) => `stale ${stream} ${market}`,
    fields: ({ stream, market, source, behindMs }) => ({
      ...{ stream, market, shownBy: source, behindMs },
    }),
    moves: { stale_pages_total: 1 },
  }),
  /** Trades of a market were pushed, and stored. */
  tradesPushed: event<{
    market: string;
    /** How old the new trades were once they were stored, exchange time. */
    agesMs: readonly number[];
  }>({
    level: 'trace',
    text: 'pushed trades stored',
    fields: ({ agesMs, ...fields }) => ({ ...fields, rows: agesMs.length }),
    record({ metrics }, { agesMs }) {
      for (const ms of agesMs) metrics.move('trade_age_seconds', ms / 1000);
    },
  }),
  /** The trades that were pushed contradict a page of history, or each other. */
  tradeFeedRefuted: event<Stream & { unshown: number; unpushed: number }>({
    level: 'warn',
    text: 'pushed trades contradict history; runs discarded',
    flood: ({ stream, market }) => `feed refuted ${stream} ${market}`,
    moves: { trade_feed_refuted_total: 1 },
  }),
  /** How the server counts the offset of an endpoint; `before` when it was thought otherwise. */
  offsetModeSettled: event<{
    endpoint: string;
    mode: 'skip' | 'id';
    before: 'skip' | 'id' | null;
  }>({
    level: ({ before }) => (before === null ? 'info' : 'warn'),
    text: 'offset mode of endpoint found',
    moves: { since_modes_settled_total: 1 },
  }),
  /** How many times the trades between two polls of a market would fit into a page. */
  historyHeadroom: event<Stream & { ratio: number }>({
    level: 'trace',
    text: 'history headroom',
    moves: { history_headroom_ratio: 'ratio' },
  }),
  gapFound: event<
    Stream & {
      reason: string;
      /** 0 where it makes a gap longer that was found before. */
      count: number;
      lengthMs: number;
      /** Older than all that the exchange ever showed, as at the first start: nothing was lost. */
      isBeforeHistory: boolean;
    }
  >({
    level: ({ count, isBeforeHistory }) =>
      count === 0 ? 'debug' : isBeforeHistory ? 'info' : 'warn',
    text: ({ isBeforeHistory }) =>
      isBeforeHistory
        ? 'requested time range starts before the history of the exchange'
        : 'gap found',
    flood: ({ stream, reason }) => `gap ${stream} ${slug(reason)}`,
    fields: ({ isBeforeHistory: _, ...fields }) => fields,
    moves: { gaps_found_total: 'count', gap_seconds_found_total: 'lengthMs' },
  }),
  /**
   * The gaps of the whole archive as they are now; replaces the counts reported before. Streams and
   * markets that are not named have none. Count and length are of open gaps, which may still be
   * filled; what cannot be fetched any more is counted separately.
   */
  gapsCounted: event<{
    gaps: readonly (Stream & GapSums & { unfillableMs: number })[];
  }>({
    level: 'debug',
    text: 'open gaps',
    fields: ({ gaps }) => Object.fromEntries(gapsByStream(gaps)),
    record(recorder, { gaps }) {
      const { metrics } = recorder;
      metrics.reset('open_gaps', 'open_gap_seconds', 'unfillable_gap_seconds');
      const bounded = gaps.map((gap) => ({ ...gap, stream: recorder.stream(gap.stream) }));
      for (const { stream, market, count, lengthMs, unfillableMs } of bounded) {
        const at = { stream, market };
        metrics.raise('open_gaps', count, at);
        metrics.raise('open_gap_seconds', lengthMs / 1000, at);
        metrics.raise('unfillable_gap_seconds', unfillableMs / 1000, at);
      }
      recorder.counts.gaps(gapsByStream(bounded));
    },
  }),
  marketsChanged: event<{
    added: readonly string[];
    removed: readonly string[];
    changed: readonly string[];
  }>({
    level: 'info',
    text: 'list of markets changed',
    fields: ({ added, removed, changed }) => ({
      ...{ addedCount: added.length, removedCount: removed.length, changedCount: changed.length },
      ...{ added: sample(added), removed: sample(removed), changed: sample(changed) },
    }),
    record({ metrics, counts }, { added, removed, changed }) {
      for (const [change, { length }] of Object.entries({ added, removed, changed })) {
        metrics.move('market_changes_total', length, { change });
      }
      for (const market of added) counts.welcomeMarket(market);
      for (const market of removed) {
        counts.forgetMarket(market);
        metrics.forgetMarket(market);
      }
    },
  }),
  /** More markets are listed than may be collected, by so many; 0 when that is over. */
  marketsLeftOut: event<{ count: number; max: number }>({
    level: ({ count }) => (count === 0 ? 'info' : 'warn'),
    text: ({ count, max }) =>
      count === 0
        ? 'all listed markets are collected'
        : `${count} listed markets not collected: limit ${max} (streams.markets.max)`,
    fields: ({ count, max }) => (count === 0 ? { max } : { count, max }),
    moves: { markets_left_out: 'count' },
  }),
  /** All markets that the settings name and the exchange does not list; `message` says it in words. */
  marketsMissing: event<{ names: readonly string[]; message: string }>({
    level: ({ names }) => (names.length === 0 ? 'info' : 'warn'),
    text: ({ names, message }) =>
      names.length === 0 ? 'all markets named in the settings are listed' : message,
    fields: ({ names }) => (names.length === 0 ? {} : { markets: sample(names) }),
    moves: { markets_not_listed: ({ names }) => names.length },
  }),
};

function isAlarming({ outcome, count }: { outcome: RowOutcome; count: number }): boolean {
  return count > 0 && (outcome === 'lost' || outcome === 'conflict');
}

/** A slot in which trades were held against a candle. */
export interface Slot {
  readonly market: string;
  readonly intervalS: number;
  /** Start of the slot. */
  readonly fromMs: number;
  readonly detail: string;
}

/** Trades held against candles. What agrees is debug; what does not is suspect, so warn. */
export const VERIFY = {
  /** Slots were judged for the first time; each mismatch among them is reported by itself as well. */
  judged: event<
    {
      market: string;
      intervalS: number;
      matches: number;
      mismatches: number;
    },
    'outcome'
  >({
    level: 'debug',
    text: 'candles verified',
    labels: () => ({ outcome: 'match' }),
    moves: { candle_checks_total: 'matches' },
  }),
  /** The trades and the candle of a slot do not agree; both are fetched again. */
  mismatchFound: event<Slot, 'outcome'>({
    level: 'warn',
    text: 'mismatch of trades and candle',
    flood: ({ market }) => `mismatch ${market}`,
    fields: ({ market, intervalS, fromMs, detail }) => ({
      ...{ market, intervalS, candle: isoMs(fromMs), detail },
    }),
    labels: () => ({ outcome: 'mismatch' }),
    moves: { candle_checks_total: 1 },
  }),
  /** Final result, after all refetches that were needed or allowed. */
  mismatchSettled: event<Slot & { outcome: 'match' | 'mismatch'; tries: number }>({
    level: ({ outcome }) => (outcome === 'match' ? 'info' : 'warn'),
    text: 'trades and candle compared again',
    flood: ({ market, outcome }) => `settled ${market} ${outcome}`,
    fields: ({ market, intervalS, fromMs, outcome, tries, detail }) => ({
      ...{ market, intervalS, candle: isoMs(fromMs), outcome, tries, detail },
    }),
    moves: { mismatches_settled_total: 1 },
  }),
  /** A round failed; the next one comes all the same. */
  failed: event<Failure>({
    level: 'warn',
    text: 'verification failed, will retry',
    flood: ({ code }) => `verify ${code}`,
    fields: ({ code, message }) => ({ code, error: message }),
    moves: { verify_failures_total: 1 },
  }),
  /** How complete the archive is now; replaces what was reported before. */
  completenessCounted: event<CompletenessCount>({
    level: 'debug',
    text: 'completeness',
    fields: summaryOf,
    record: countCompleteness,
  }),
};

/** How complete the archive is, from the ledger. */
export interface CompletenessCount {
  /** Covered part of what is expected, 0 to 1. */
  readonly coverage: readonly (Stream & { readonly ratio: number })[];
  /** Open gaps, summed up over markets. */
  readonly openGaps: readonly {
    readonly stream: string;
    readonly reason: string;
    readonly lengthMs: number;
    /** Age of the oldest missing time. */
    readonly oldestAgeMs: number;
  }[];
  readonly checks: readonly {
    readonly market: string;
    readonly intervalS: number;
    readonly mismatches: number;
    /** The exchange's time now minus the end of the newest check; null without one, or of a market that is not listed. */
    readonly lagMs: number | null;
  }[];
  /** Shares of the markets that no daemon collects. */
  readonly idleShares: number;
}

function countCompleteness(
  { metrics }: Recorder,
  { coverage, openGaps, checks, idleShares }: CompletenessCount,
): void {
  metrics.move('shares_idle', idleShares);
  metrics.reset('coverage_ratio', 'open_gap_seconds_by_reason', 'oldest_open_gap_seconds');
  metrics.reset('mismatches', 'verified_lag_seconds');
  // The value set last is shown: for markets beyond the limit, which share one label, the worst.
  const labelled = coverage.map((one) => ({ ...one, market: metrics.label('market', one.market) }));
  for (const { stream, market, ratio } of labelled.toSorted((a, b) => b.ratio - a.ratio)) {
    metrics.move('coverage_ratio', Math.min(1, ratio), { stream, market });
  }
  const byAge = openGaps.toSorted((a, b) => a.oldestAgeMs - b.oldestAgeMs);
  for (const { stream, reason, lengthMs, oldestAgeMs } of byAge) {
    metrics.raise('open_gap_seconds_by_reason', lengthMs / 1000, { stream, reason });
    metrics.move('oldest_open_gap_seconds', Math.max(0, oldestAgeMs) / 1000, { stream });
  }
  for (const { market, intervalS, mismatches } of checks) {
    metrics.raise('mismatches', mismatches, { market, interval: String(intervalS) });
  }
  const behind = checks.flatMap(({ lagMs, ...one }) => (lagMs === null ? [] : [{ ...one, lagMs }]));
  for (const { market, intervalS, lagMs } of behind.toSorted((a, b) => a.lagMs - b.lagMs)) {
    metrics.move('verified_lag_seconds', lagMs / 1000, { market, interval: String(intervalS) });
  }
}

function summaryOf({ coverage, openGaps, checks, idleShares }: CompletenessCount) {
  const ages = openGaps.map(({ oldestAgeMs }) => oldestAgeMs);
  return {
    mismatches: checks.reduce((sum, { mismatches }) => sum + mismatches, 0),
    oldestGapMs: ages.length === 0 ? null : Math.max(0, ...ages),
    lowestCoverage: coverage.reduce((low, { ratio }) => Math.min(low, ratio), 1),
    verifiedLagMs: verifiedLagOf(checks),
    ...(idleShares > 0 && { idleShares }),
  };
}

/** The market of the shortest candles that is furthest behind. */
export function verifiedLagOf(
  checks: readonly Pick<CompletenessCount['checks'][number], 'intervalS' | 'lagMs'>[],
): number | null {
  const shortestS = checks.reduce((low, one) => Math.min(low, one.intervalS), Infinity);
  const shortest = checks.filter(({ intervalS }) => intervalS === shortestS);
  const lags = shortest.flatMap(({ lagMs }) => lagMs ?? []);
  return lags.length === 0 ? null : Math.max(...lags);
}

/** Life of the spool, which keeps what cannot be asked for again while the database is away. */
export const SPOOL = {
  /** New data goes to files from here on, or to the database. */
  spoolTurned: event<{ isKeeping: boolean }>({
    level: 'info',
    text: ({ isKeeping }) =>
      isKeeping
        ? 'spool: database takes nothing; keeping what cannot be asked for again'
        : 'spool: empty; everything goes to the database again',
    flood: ({ isKeeping }) => `spool ${isKeeping}`,
    moves: { spool_keeping: ({ isKeeping }) => Number(isKeeping) },
    fields: () => ({}),
  }),
  /** Batches that were kept, stored later, dropped at the bound or a full disk, or refused by the database. */
  spooled: event<{ outcome: 'kept' | 'stored' | 'dropped' | 'refused'; batches: number }>({
    level: 'trace',
    text: 'spool',
    moves: { spool_batches_total: 'batches' },
  }),
  spoolChanged: event<{ bytes: number; limitBytes: number }>({
    level: 'trace',
    text: 'spool size',
    moves: { spool_bytes: 'bytes', spool_limit_bytes: 'limitBytes' },
  }),
  /** A file ends in what was never confirmed, as after a kill. */
  spoolTorn: event<{ bytes: number }>({
    level: 'info',
    text: 'spool: unfinished end of a file cut off',
    moves: { spool_torn_bytes_total: 'bytes' },
  }),
  spoolFailed: event<Failure>({
    level: 'error',
    text: 'spool failed',
    flood: ({ code }) => `spool ${code}`,
    moves: { spool_failures_total: 1 },
    fields: ({ code, message }) => ({ code, error: message }),
  }),
};
