import type { StoreEvents } from './events.js';
import { slug } from './labels.js';
import { type Sinks, seconds } from './sinks.js';

const EMBEDDED_LEVELS: Readonly<Record<string, 'error' | 'warn'>> = {
  failed: 'error',
  lost: 'error',
  not_started: 'warn',
};

/** The archive. Commits are debug; what changes what an operator can rely on is info or worse. */
export function createStoreEvents({ logger, metrics, labels, partitionEnds }: Sinks): StoreEvents {
  /** Undefined until the first report, so that a start is told as one. */
  let wasUp: boolean | undefined;
  // There from the start, or an alert would not see the first one.
  metrics.embeddedPhases.inc({ phase: labels.phase.admit('lost') }, 0);
  return {
    committed({ durationMs, batches, rows }) {
      metrics.commits.inc();
      metrics.commitSeconds.observe(seconds(durationMs));
      metrics.commitBatches.observe(batches);
      for (const [name, outcomes] of Object.entries(rows)) {
        const table = labels.table.admit(name);
        for (const [word, count] of Object.entries(outcomes)) {
          metrics.archiveRows.inc({ table, outcome: labels.reason.admit(word) }, count);
        }
      }
      logger.write('debug', 'committed', { durationMs, batches, rows });
    },
    commitFailed({ code, message, willRetry }) {
      metrics.commitFailures.inc({ code: labels.code.admit(code), retried: String(willRetry) });
      const level = willRetry ? 'warn' : 'error';
      const text = willRetry ? 'commit failed, will be repeated' : 'commit failed';
      logger.writeRepeating(level, `commit ${code} ${willRetry}`, text, { code, error: message });
    },
    commitBlocked({ by, waitedMs }) {
      metrics.commitsBlocked.inc();
      const waitedS = Math.round(seconds(waitedMs));
      logger.writeRepeating('warn', 'blocked', 'a commit waits for a lock', {
        heldBy: by,
        waitedS,
      });
    },
    queueChanged({ queue: name, size, limit }) {
      const queue = labels.queue.admit(name);
      metrics.queueItems.set({ queue }, size);
      metrics.queueLimit.set({ queue }, limit);
      logger.write('trace', 'queue', { queue: name, size, limit });
    },
    quarantined({ endpoint, reason, count }) {
      metrics.quarantined.inc(
        { endpoint: labels.endpoint.admit(endpoint), reason: labels.reason.admit(slug(reason)) },
        count,
      );
      const key = `quarantine ${endpoint} ${slug(reason)}`;
      logger.writeRepeating('warn', key, 'data refused and set aside', { endpoint, reason, count });
    },
    partitionMade({ table, partition }) {
      metrics.partitionsMade.inc({ table: labels.table.admit(table) });
      logger.write('debug', 'partition made', { table, partition });
    },
    partitionLead({ table, endMs }) {
      partitionEnds.set(labels.table.admit(table), endMs);
      logger.write('trace', 'partitions reach ahead', { table, endMs });
    },
    partitionReopened({ partition }) {
      const table = labels.table.admit(partition.replace(/_\d+$/, ''));
      metrics.partitionsReopened.inc({ table });
      logger.write('warn', 'rows came late: a sealed partition is open again', { partition });
    },
    databaseState({ up, detail }) {
      metrics.databaseUp.set(up ? 1 : 0);
      if (up === wasUp) return;
      wasUp = up;
      metrics.databaseChanges.inc({ state: up ? 'up' : 'down' });
      const fields = detail === undefined ? {} : { detail };
      if (up) logger.write('info', 'the database answers', fields);
      else logger.write('error', 'the database does not answer', fields);
    },
    databaseAwaited({ detail, waitedMs, limitMs }) {
      metrics.databaseUp.set(0);
      wasUp = false;
      const waitedS = Math.round(seconds(waitedMs));
      const fields = { detail, waitedS, atMostS: Math.round(seconds(limitMs)) };
      logger.write('warn', 'waiting for the database', fields);
    },
    migrated({ applied }) {
      metrics.migrations.inc(applied.length);
      if (applied.length > 0) logger.write('info', 'schema brought up to date', { applied });
      else logger.write('debug', 'schema is up to date');
    },
    embeddedPostgres({ phase, detail }) {
      metrics.embeddedPhases.inc({ phase: labels.phase.admit(slug(phase)) });
      const level = EMBEDDED_LEVELS[slug(phase)] ?? 'info';
      logger.write(level, `embedded Postgres: ${phase}`, detail === undefined ? {} : { detail });
    },
  };
}
