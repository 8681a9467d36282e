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
The embedded Postgres must be running (tapekeep start or tapekeep db); otherwise nothing is printed, exit code 1.
Its login reads only. With database.url the address is that one, whose login may write: give readers logins of
their own (docs/guides/sql.md). The address contains the password.

  url=$(tapekeep url) && psql "$url"
  url=$(tapekeep url --owner) && TAPEKEEP_DATABASE_URL=$url tapekeep start`,
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
