import { systemClock } from '../../kernel/clock.js';
import { borrowDatabase, migrateDatabase } from '../database.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';
import { type CommonOptions, openSession } from '../session.js';

/** Brings the database's schema up to date and says what was applied. */
export async function migrateCommand(options: CommonOptions): Promise<ExitCode> {
  const { config, telemetry } = openSession(options);
  const database = await borrowDatabase(config, systemClock, telemetry.store, 'any');
  try {
    const applied = await migrateDatabase(config, database.url, telemetry.store);
    const text =
      applied.length === 0
        ? 'The schema is up to date; nothing was applied.'
        : `Applied ${applied.join(', ')}.`;
    process.stdout.write(`${text}\n`);
  } finally {
    await database.stop();
  }
  return EXIT_CODES.ok;
}
