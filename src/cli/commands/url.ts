import { systemClock } from '../../kernel/clock.js';
import { TapekeepError } from '../../kernel/errors.js';
import { findEmbeddedPostgres } from '../../store/index.js';
import { command, flag, nothing } from '../command.js';
import { assertArchive } from '../opening/database.js';
import { openSession } from '../opening/session.js';
import { writeOut } from '../output.js';

/** The login that may write. */
export const OWNER = flag('--owner', "log in as the archive's owner, who may write");

/** Prints where the archive is, for programs that connect by themselves. */
export default command({
  options: { isOwner: OWNER },
  help: `
The login of the embedded Postgres only reads (database.readerName, database.readerPassword). Of a database
of your own the address is database.url, with and without --owner, whose login may write: give readers
logins of their own (docs/guides/sql.md). The password stands in the address: mind where you print it.

  url=$(tapekeep url) && psql "$url"
  url=$(tapekeep url --owner) && TAPEKEEP_DATABASE_URL=$url tapekeep start

The embedded Postgres has to run: "tapekeep db" keeps it up, and so does "tapekeep start". Where it does not
nothing is printed, and the exit code is 1: psql of an empty address would open another database.`,
  needs: nothing,
  async run(common, { isOwner }) {
    const { config } = openSession({ logLevel: 'warn', ...common });
    await assertArchive(config);
    const { url: own } = config.database;
    const found =
      own === null
        ? await findEmbeddedPostgres(config.dataDir, systemClock)
        : { url: own, readerUrl: own };
    if (found === undefined) {
      const text = `the embedded Postgres in ${config.dataDir} does not run now: "tapekeep db" in another terminal keeps it up, as "tapekeep start" does; "tapekeep psql" starts it by itself`;
      throw new TapekeepError('database_unreachable', text);
    }
    const url = isOwner ? found.url : found.readerUrl;
    // SQLAlchemy knows the other name of the scheme alone.
    await writeOut(`${url.replace(/^postgres:/, 'postgresql:')}\n`);
  },
});
