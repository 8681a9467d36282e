import { duckdbScript } from '../../archive/duckdb-script.js';
import { openReading } from '../../archive/reading.js';
import { command, nothing, option } from '../command.js';
import { untilStopped } from '../ending.js';
import { EXIT_CODES } from '../failure.js';
import { coldOf, openArchive, withDatabase } from '../opening/database.js';
import { openSession } from '../opening/session.js';
import { writeOut } from '../output.js';

/** Prints a script that gives any DuckDB the names of the archive. */
export default command({
  options: {
    filesAt: option(
      '--files <folder>',
      'where that DuckDB finds the cold files (default: cold.dir)',
    ),
  },
  help: `
  tapekeep duckdb-views > archive.sql
  duckdb -init archive.sql

Gives DuckDB 1.5 or newer the names that "tapekeep query" has: views over the cold files and, for the rest, over
Postgres through its extension postgres. The database must stay up meanwhile (tapekeep start or tapekeep db). The
script is of now: print it again when partitions were archived. It contains the password of the reader.`,
  needs: nothing,
  async run(common, { filesAt }) {
    const session = openSession({ logLevel: 'warn', ...common });
    const cold = coldOf(session.config);
    return await untilStopped(async () => {
      await withDatabase(session, 'existing', async ({ url, readerUrl, signal }) => {
        const store = await openArchive(session, url);
        try {
          const reader = await openReading(store, { cold, signal });
          try {
            const options = {
              store,
              reader,
              url: readerUrl,
              filesAt: filesAt ?? cold.name,
              signal,
            };
            await writeOut(await duckdbScript(options));
          } finally {
            await reader.close();
          }
        } finally {
          await store.stop();
        }
      });
      return EXIT_CODES.ok;
    });
  },
});
