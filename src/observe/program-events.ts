import type { DaemonEvents, ServerEvents } from './events.js';
import { slug } from './labels.js';
import { type Sinks, seconds } from './sinks.js';

/** The contract served by ourselves: the sandbox, or a replay. */
export function createServerEvents({ logger, metrics, labels }: Sinks): ServerEvents {
  return {
    served({ endpoint: name, status, durationMs }) {
      const endpoint = labels.endpoint.admit(name);
      const isStatus = Number.isInteger(status) && status >= 100 && status <= 599;
      metrics.served.inc({ endpoint, status: isStatus ? String(status) : 'other' });
      metrics.servedSeconds.observe({ endpoint }, seconds(durationMs));
      logger.write('trace', 'served', { endpoint: name, status, durationMs });
    },
    realtimeOpened({ open }) {
      metrics.servedRealtime.set(open);
      logger.write('trace', 'real-time client connected', { open });
    },
    realtimeClosed({ open, reason }) {
      metrics.servedRealtime.set(open);
      metrics.servedRealtimeClosed.inc({ reason: labels.reason.admit(slug(reason)) });
      logger.write('trace', 'real-time client left', { open, reason });
    },
    handlerFailed({ endpoint: name, code, message, stack }) {
      const endpoint = labels.endpoint.admit(name);
      metrics.servedFailures.inc({ endpoint, code: labels.code.admit(code) });
      const fields = { endpoint: name, code, ...(stack === undefined ? {} : { stack }) };
      const text = `a request could not be answered: ${message}`;
      logger.writeRepeating('error', `handler ${name} ${code}`, text, fields);
    },
  };
}

/** The daemon's own life. */
export function createDaemonEvents({ logger, metrics, labels }: Sinks): DaemonEvents {
  return {
    started({ detail }) {
      metrics.lifecycle.inc({ phase: 'started' });
      logger.write('info', 'started', detail);
    },
    stopping({ reason }) {
      metrics.lifecycle.inc({ phase: 'stopping' });
      logger.write('info', 'stopping', { reason });
    },
    stopped({ durationMs, exitCode }) {
      metrics.lifecycle.inc({ phase: 'stopped' });
      metrics.shutdownSeconds.set(seconds(durationMs));
      logger.write('info', 'stopped', { durationMs: Math.round(durationMs), exitCode });
    },
    warned({ code, message }) {
      metrics.warnings.inc({ code: labels.code.admit(code) });
      logger.writeRepeating('warn', `warned ${code}`, message, { code });
    },
    outputDropped({ output, lines }) {
      metrics.outputDropped.inc({ output }, lines);
      const text = `${output} is not read: its lines are dropped, and all else goes on`;
      // The log cannot report that about itself.
      if (output !== 'stderr') logger.writeRepeating('warn', `dropped ${output}`, text);
    },
    outputResumed({ output, lines }) {
      metrics.warnings.inc({ code: labels.code.admit(`${output}_unread`) });
      logger.write('warn', `${output} was not read for a while`, { droppedLines: lines });
    },
    failed({ code, message }) {
      metrics.failures.inc({ code: labels.code.admit(code) });
      logger.write('error', message, { code });
    },
  };
}
