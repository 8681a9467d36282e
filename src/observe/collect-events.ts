import type { CollectEvents } from './events.js';
import { slug } from './labels.js';
import { type Sinks, seconds } from './sinks.js';
import { ROW_OUTCOMES } from './tally.js';

/** Level of a failed poll, by what follows from it. */
const HISTORY_STALE =
  'a page of the newest trades lacks trades that another source shows: a cache has kept it, and it is claimed up to its own rows only';
const POLL_LEVEL = { retry: 'warn', skip: 'warn', fatal: 'error' } as const;

/** Collecting. Rows and pages are trace and debug; doubt about completeness is warn. */
export function createCollectEvents({ logger, metrics, tally, labels }: Sinks): CollectEvents {
  /** Starts all outcomes of a new stream at zero, so that rates work from the first row on. */
  const begun = new Set<string>();
  const streamOf = (name: string) => {
    const stream = labels.stream.admit(name);
    if (!begun.has(stream)) {
      begun.add(stream);
      for (const outcome of ['received', ...ROW_OUTCOMES]) {
        metrics.rows.inc({ stream, outcome }, 0);
      }
    }
    return stream;
  };
  return {
    received({ stream: name, market, count }) {
      const stream = streamOf(name);
      metrics.rows.inc({ stream, outcome: 'received' }, count);
      tally.received(stream, count);
      logger.write('trace', 'rows received', { stream: name, market, count });
    },
    settled({ stream: name, market, outcome, count }) {
      const stream = streamOf(name);
      metrics.rows.inc({ stream, outcome }, count);
      tally.settled(stream, outcome, count);
      const fields = { stream: name, market, outcome, count };
      if (count > 0 && (outcome === 'lost' || outcome === 'conflict')) {
        logger.writeRepeating('warn', `rows ${stream} ${outcome}`, `rows ${outcome}`, fields);
      } else {
        logger.write('trace', 'rows settled', fields);
      }
    },
    progressed({ stream, market, newestMs }) {
      tally.progressed(streamOf(stream), labels.market.admit(market), newestMs);
      logger.write('trace', 'progressed', { stream, market, newestMs });
    },
    pollFailed({ stream: name, market, code, message, action }) {
      const stream = streamOf(name);
      metrics.pollFailures.inc({ stream, code: labels.code.admit(code), action });
      logger.writeRepeating(POLL_LEVEL[action], `poll ${stream} ${code} ${action}`, 'poll failed', {
        stream: name,
        market,
        code,
        action,
        error: message,
      });
    },
    headPolled({ stream: name, market, cause, waitMs, agesMs }) {
      const stream = streamOf(name);
      metrics.headPolls.inc({ stream, cause });
      if (waitMs !== undefined) metrics.headWaitSeconds.observe({ stream }, seconds(waitMs));
      for (const ageMs of agesMs) metrics.tradeAgeSeconds.observe(Math.max(0, seconds(ageMs)));
      const fields = { stream: name, market, cause, waitMs, rows: agesMs.length };
      logger.write('trace', 'newest trades polled', fields);
    },
    runSkipped({ stream }) {
      metrics.runsSkipped.inc({ stream: streamOf(stream) });
      logger.write('debug', 'run left out, the one before still goes on', { stream });
    },
    walkStepped({ stream: name, market, pages, connected }) {
      const stream = streamOf(name);
      metrics.walks.inc({ stream, connected: String(connected) });
      metrics.walkPages.inc({ stream }, pages);
      logger.write('debug', 'walked through history', { stream: name, market, pages, connected });
    },
    streamsStanding({ streams }) {
      metrics.standingSeconds.reset();
      for (const { kind, market, variant, standingMs, reason, note } of streams) {
        const at = { stream: streamOf(kind), market: labels.market.admit(market) };
        metrics.standingSeconds.set(at, Math.max(0, seconds(standingMs)));
        const fields = { stream: kind, market, variant, standingMs, reason, note };
        const message = 'a stream stands: its coverage does not grow';
        logger.writeRepeating('warn', `standing ${kind} ${market}`, message, fields);
      }
    },
    idsBegunAnew({ market, firstId, lastIdBefore, atMs }) {
      metrics.idEpochs.inc();
      const at = new Date(atMs).toISOString();
      const message =
        'the exchange began its trade ids anew; trades are ordered by time across that';
      logger.write('warn', message, { market, at, firstId, lastIdBefore });
    },
    tradesExposed({ stream: name, market, count, note }) {
      metrics.tradesExposed.inc({ stream: streamOf(name) }, count);
      const message =
        'stored rows were no trades: they are in quarantine, and their time is fetched again';
      logger.write('warn', message, { stream: name, market, count, note });
    },
    walkStalled({ stream: name, market, detail }) {
      const stream = streamOf(name);
      metrics.walkStalls.inc({ stream });
      logger.writeRepeating('warn', `stall ${stream} ${market}`, 'walk stopped: no progress', {
        stream: name,
        market,
        detail,
      });
    },
    historyStale({ stream: name, market, source, behindMs, isFirst }) {
      const stream = streamOf(name);
      metrics.stalePages.inc({ stream, source });
      if (!isFirst) return;
      logger.writeRepeating('warn', `stale ${stream} ${market}`, HISTORY_STALE, {
        ...{ stream: name, market, shownBy: source, behindMs },
      });
    },
    sinceModeSettled({ endpoint, mode, before }) {
      metrics.sinceModes.inc({ endpoint, mode });
      const level = before === null ? 'info' : 'warn';
      logger.write(level, 'found how the exchange counts the offset', { endpoint, mode, before });
    },
    historyHeadroom({ stream: name, market, ratio }) {
      const stream = streamOf(name);
      metrics.historyHeadroom.set({ stream, market: labels.market.admit(market) }, ratio);
      logger.write('trace', 'history headroom', { stream: name, market, ratio });
    },
    gapFound({ stream: name, market, reason, lengthMs }) {
      const stream = streamOf(name);
      const why = slug(reason);
      metrics.gapsFound.inc({ stream, reason: labels.reason.admit(why) });
      metrics.gapSecondsFound.inc({ stream }, Math.max(0, seconds(lengthMs)));
      const fields = { stream: name, market, reason, lengthMs };
      logger.writeRepeating('warn', `gap ${stream} ${why}`, 'gap found', fields);
    },
    gapsCounted({ gaps }) {
      const openGaps = new Map<string, { count: number; lengthMs: number }>();
      metrics.openGaps.reset();
      metrics.openGapSeconds.reset();
      metrics.unfillableGapSeconds.reset();
      for (const gap of gaps) {
        const stream = streamOf(gap.stream);
        const at = { stream, market: labels.market.admit(gap.market) };
        metrics.openGaps.inc(at, gap.count);
        metrics.openGapSeconds.inc(at, seconds(gap.lengthMs));
        metrics.unfillableGapSeconds.inc(at, seconds(gap.unfillableMs));
        const sum = openGaps.get(stream) ?? { count: 0, lengthMs: 0 };
        sum.count += gap.count;
        sum.lengthMs += gap.lengthMs;
        openGaps.set(stream, sum);
      }
      tally.gaps(openGaps);
      logger.write('debug', 'open gaps', Object.fromEntries(openGaps));
    },
    marketsLeftOut({ count, max }) {
      metrics.marketsLeftOut.set(count);
      if (count === 0) {
        logger.write('info', 'no market is left out any more', { max });
        return;
      }
      const message = `the exchange lists ${count + max} markets, of which the ${max} that the archive has known longest are collected and ${count} are not: name those that you want in the setting "markets", or raise streams.markets.max`;
      logger.write('warn', message, { count, max });
    },
    marketsMissing({ names, message }) {
      metrics.marketsMissing.set(names.length);
      if (names.length === 0)
        logger.write('info', 'all markets named in the settings are listed', {});
      else logger.write('warn', message, { markets: names.slice(0, 20) });
    },
    marketsChanged({ added, removed, changed }) {
      metrics.marketChanges.inc({ change: 'added' }, added.length);
      metrics.marketChanges.inc({ change: 'removed' }, removed.length);
      metrics.marketChanges.inc({ change: 'changed' }, changed.length);
      for (const market of added) tally.welcomeMarket(market);
      for (const market of removed) {
        tally.forgetMarket(market);
        labels.market.forget(market);
        for (const stream of ['trades', 'times'])
          metrics.historyHeadroom.remove({ stream, market });
      }
      const sample = (names: readonly string[]) => names.slice(0, 20);
      logger.write('info', 'the list of markets changed', {
        addedCount: added.length,
        removedCount: removed.length,
        changedCount: changed.length,
        added: sample(added),
        removed: sample(removed),
        changed: sample(changed),
      });
    },
  };
}
