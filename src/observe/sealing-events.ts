import type { SealingEvents } from './events.js';
import type { Sinks } from './sinks.js';

/** The lives of partitions: each change is info, what keeps them from going on is warn. */
export function createSealingEvents({ logger, metrics, labels }: Sinks): SealingEvents {
  return {
    partitionChanged({ table, partition, became, rows }) {
      metrics.partitionChanges.inc({ table: labels.table.admit(table), became });
      logger.write('info', `partition ${became}`, { table, partition, rows });
    },
    failed({ code, message }) {
      metrics.sealingFailures.inc({ code: labels.code.admit(code) });
      const text = 'a partition could not be sealed, archived or given up; tried again later';
      logger.writeRepeating('warn', `sealing ${code}`, text, { code, error: message });
    },
    partitionsCounted({ partitions }) {
      metrics.partitions.reset();
      for (const { table, state, count } of partitions) {
        metrics.partitions.set({ table: labels.table.admit(table), state }, count);
      }
      logger.write('debug', 'partitions counted', { kinds: partitions.length });
    },
  };
}
