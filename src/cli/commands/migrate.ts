import { systemClock, unlessAborted } from '../../kernel/clock.js';
import type { MigrationReport } from '../../store/index.js';
import { command, flag, nothing } from '../command.js';
import { UsageError } from '../failure.js';
import { borrowDatabase, migrateDatabase } from '../opening/database.js';
import { openSession } from '../opening/session.js';

export default command({
  options: { citus: flag('--citus', 'not supported yet: refused') },
  needs: nothing,
  async run(common, { citus }) {
    if (citus === true) {
      const allowed =
        'a Citus cluster is not supported yet, so nothing was migrated: keep the archive on one Postgres server';
      throw new UsageError('migrate', '--citus', allowed);
    }
    const { config, telemetry } = openSession(common);
    const database = await borrowDatabase(config, systemClock, telemetry.store, 'any');
    try {
      const { signal, url } = database;
      const migrating = migrateDatabase(config, url, telemetry.store);
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
  },
});

function linesOf({ applied, analytics, roles }: MigrationReport): string[] {
  return [
    applied.length === 0
      ? 'The schema is up to date; nothing was applied.'
      : `Applied ${applied.join(', ')}.`,
    ...(analytics.state === 'replaced' ? ['Made the analytics schema.'] : []),
    ...(analytics.note === null ? [] : [`Analytics: ${analytics.note}.`]),
    ...(roles.state === 'granted' ? ['Settled the rights of owner, writer and reader.'] : []),
    ...(roles.note === null ? [] : [`Roles: ${roles.note}.`]),
  ];
}
