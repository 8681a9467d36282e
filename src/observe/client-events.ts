import type { ClientEvents } from './events.js';
import { closeReason, slug } from './labels.js';
import { type Sinks, seconds } from './sinks.js';

const CLOCK_DISPUTED =
  "answers contradict the exchange's time: nothing is covered beyond the earlier of the two; if it lasts, check the clocks of the exchange, of what lies before it, and of this machine";
const CLOCK_FOLLOWED =
  "the exchange's time jumped and is followed; coverage beyond the new present is taken back";

const iso = (ms: number) => new Date(ms).toISOString();

/** The exchange as seen over HTTP and WebSocket. Single requests are debug, trouble is warn. */
export function createClientEvents({ logger, metrics, tally, labels }: Sinks): ClientEvents {
  /** Connections that are open, so that the end of one that never opened counts nothing. */
  const open = new Set<string>();
  const note = () => {
    metrics.socketsOpen.set(open.size);
    tally.socketsOpen(open.size);
  };
  return {
    requestEnded({ endpoint: name, outcome, durationMs, bytes, error }) {
      const endpoint = labels.endpoint.admit(name);
      metrics.requests.inc({ endpoint, outcome });
      metrics.requestSeconds.observe({ endpoint }, seconds(durationMs));
      metrics.responseBytes.inc({ endpoint }, Math.max(0, bytes));
      tally.requestEnded(outcome);
      const fields = { endpoint: name, outcome, durationMs, bytes };
      if (error === undefined || outcome === 'aborted') {
        logger.write('debug', 'request ended', fields);
        return;
      }
      const key = `request ${endpoint} ${outcome} ${error.code}`;
      logger.writeRepeating('warn', key, 'request failed', {
        ...fields,
        code: error.code,
        error: error.message,
      });
    },
    budgetChanged({ ratePerS, tokens, waiting }) {
      metrics.budgetRate.set(ratePerS);
      metrics.budgetTokens.set(tokens);
      metrics.budgetWaiting.set(waiting);
      logger.write('trace', 'request budget', { ratePerS, tokens, waiting });
    },
    budgetPaused({ reason, waitMs }) {
      metrics.budgetPauses.inc({ reason: labels.reason.admit(slug(reason)) });
      metrics.budgetPauseSeconds.inc(Math.max(0, seconds(waitMs)));
      logger.writeRepeating('warn', `pause ${slug(reason)}`, 'the exchange asks us to wait', {
        reason,
        waitMs,
      });
    },
    exchangeClock({ offsetMs, pace }) {
      metrics.clockOffsetSeconds.set(seconds(offsetMs));
      metrics.clockPace.set(pace);
      logger.write('debug', "exchange's clock", { offsetMs, pace });
    },
    exchangeClockDisputed({ fromMs, toMs, share, isFollowed }) {
      metrics.clockDisputes.inc({ outcome: isFollowed ? 'followed' : 'held' });
      const fields = { from: iso(fromMs), to: iso(toMs), seconds: seconds(toMs - fromMs), share };
      if (isFollowed) logger.write('warn', CLOCK_FOLLOWED, fields);
      else logger.writeRepeating('warn', 'clock disputed', CLOCK_DISPUTED, fields);
    },
    socketOpened({ market, periodS }) {
      metrics.socketsOpened.inc();
      open.add(`${market} ${periodS}`);
      note();
      logger.write('debug', 'real-time connection opened', { market, periodS });
    },
    socketClosed({ market, periodS, code, reason, livedMs, detail }) {
      const why = closeReason(code, reason);
      metrics.socketsClosed.inc({ reason: why });
      if (open.delete(`${market} ${periodS}`)) {
        metrics.socketSeconds.observe(Math.max(0, seconds(livedMs)));
      }
      note();
      const level = why === 'stopped' || why === 'normal' ? 'debug' : 'warn';
      const told = detail === undefined ? {} : { detail };
      const fields = { market, periodS, closeCode: code, reason, livedMs, ...told };
      logger.writeRepeating(level, `socket ${why}`, 'real-time connection closed', fields);
    },
    socketRetry({ market, periodS, waitMs }) {
      metrics.socketRetries.inc();
      logger.write('debug', 'real-time reconnect scheduled', { market, periodS, waitMs });
    },
    frameReceived({ outcome }) {
      metrics.frames.inc({ outcome });
      if (outcome === 'dropped' || outcome === 'unrecognised') {
        logger.writeRepeating('warn', `frame ${outcome}`, 'real-time frame not used', { outcome });
      } else {
        logger.write('trace', 'real-time frame', { outcome });
      }
    },
  };
}
