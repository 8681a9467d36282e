import { systemClock } from '../../kernel/clock.js';
import { unlessAborted } from '../../kernel/unless-aborted.js';
import type { MigrationReport } from '../../store/index.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';
import { borrowDatabase, migrateDatabaseWholly } from '../opening/database.js';
import { type CommonOptions, openSession } from '../opening/session.js';

export interface MigrateCommandOptions extends CommonOptions {
  /** Distributes the tables over the nodes of a Citus cluster. */
  readonly citus?: boolean;
}

/** Brings the database's schema up to date and says what was done, and what is left to do. */
export async function migrateCommand(options: MigrateCommandOptions): Promise<ExitCode> {
  const { config, telemetry } = openSession(options);
  const database = await borrowDatabase(config, systemClock, telemetry.store, 'any');
  try {
    const isCitus = options.citus === true;
    const { signal, url } = database;
    const migrating = migrateDatabaseWholly(config, url, telemetry.store, isCitus);
    // What is cut off is rolled back; the next run goes on from there.
    const report = await unlessAborted(signal, migrating);
    process.stdout.write(
      linesOf(report)
        .map((line) => `${line}\n`)
        .join(''),
    );
  } finally {
    await database.stop();
  }
  return EXIT_CODES.ok;
}

function linesOf({ applied, analytics, roles, isDistributed }: MigrationReport): string[] {
  return [
    applied.length === 0
      ? 'The schema is up to date; nothing was applied.'
      : `Applied ${applied.join(', ')}.`,
    ...(analytics.state === 'replaced' ? ['Made the analytics schema.'] : []),
    ...(analytics.note === null ? [] : [`Analytics: ${analytics.note}.`]),
    ...(roles.state === 'granted' ? ['Settled the rights of owner, writer and reader.'] : []),
    ...(roles.note === null ? [] : [`Roles: ${roles.note}.`]),
    ...(isDistributed ? ['Distributed the tables over the nodes of the cluster.'] : []),
  ];
}
