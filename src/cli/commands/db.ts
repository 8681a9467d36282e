import { sleep, systemClock } from '../../kernel/clock.js';
import { command, nothing } from '../command.js';
import { EndedError } from '../ending.js';
import { UsageError } from '../failure.js';
import { type Database, describeDatabase, withDatabase } from '../opening/database.js';
import { whileServing } from '../opening/serving.js';
import { openSession } from '../opening/session.js';
import { FOR, READY_AS_JSON } from '../options.js';
import { printReport } from '../output.js';

/** Keeps the embedded server up until it is stopped. */
export default command({
  options: { forMs: FOR, json: READY_AS_JSON },
  help: `
Other commands and a daemon use the same server. The port stays the same while it is free
(database.embeddedPort). Stop with Ctrl-C.

  tapekeep db
  url=$(tapekeep url) && psql "$url"`,
  needs: nothing,
  async run(common, { forMs, json }) {
    const session = openSession({ logLevel: 'warn', ...common });
    const { url } = session.config.database;
    if (url !== null) {
      const text =
        'that Postgres is not run by tapekeep; leave database.url out for the embedded one';
      throw new UsageError('database.url', describeDatabase(url), text);
    }
    const losing = new AbortController();
    const lose = (error: Error) => losing.abort(error);
    const keep = async ({ url: own, readerUrl, signal }: Database) =>
      await whileServing(session, own, async () => {
        const address = describeDatabase(readerUrl);
        printReport(json, { database: address }, () => [
          `database  ${address}`,
          '"tapekeep url" prints it with its password, "tapekeep psql" opens it. Stop with Ctrl-C.',
        ]);
        await kept(forMs, AbortSignal.any([signal, losing.signal])).catch((error: unknown) => {
          if (!(error instanceof EndedError)) throw error;
        });
      });
    await withDatabase(session, 'existing', keep, lose);
  },
});

/** The connection to the server keeps no process alive. */
const ROUND_MS = 86_400_000;

/** Waits for the end of the time; without one only for the signal, whose reason is thrown. */
async function kept(forMs: number | undefined, signal: AbortSignal): Promise<void> {
  if (forMs !== undefined) return await sleep(systemClock, forMs, signal);
  for (;;) await sleep(systemClock, ROUND_MS, signal);
}
