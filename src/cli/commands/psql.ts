import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { codeOf, TapekeepError } from '../../kernel/errors.js';
import { findEmbeddedPostgres } from '../../store/index.js';
import { argument, command, nothing } from '../command.js';
import { commandEnding } from '../ending.js';
import { EXIT_CODES, UsageError } from '../failure.js';
import { withDatabase } from '../opening/database.js';
import { whileServing } from '../opening/serving.js';
import { openSession } from '../opening/session.js';
import { OWNER } from './url.js';

const BEHIND = 'arguments of psql go after "--": tapekeep psql -- -c "…"';

/** Runs psql on the archive. Exits with 0 when psql does. */
export default command({
  args: { given: argument<readonly string[]>("psql's own arguments, after --") },
  options: { isOwner: OWNER },
  help: `
Starts the embedded Postgres if needed and stops it at the end. Needs the psql of your system.

  tapekeep psql
  tapekeep psql -- -c "SELECT * FROM depth_at('BTC_USDT', now())"

With database.url the login is that of the address; without --owner transactions are read-only.`,
  hint: `(${BEHIND})`,
  needs: nothing,
  async run(common, { given, isOwner }) {
    // The program's own -c names a settings file; a statement was meant.
    if (common.config !== undefined && !existsSync(common.config)) {
      throw new UsageError('--config', common.config, `there is no such file; ${BEHIND}`);
    }
    const session = openSession({ logLevel: 'warn', ...common });
    const env = session.config.database.url === null ? withoutPostgres(process.env) : process.env;
    const { database, dataDir } = session.config;
    // A daemon that is up answers for archived rows itself.
    const isUp = database.url !== null || (await findEmbeddedPostgres(dataDir, session.clock));
    return await withDatabase(session, 'existing', async ({ url, readerUrl, signal }) => {
      const run = () => runPsql(isOwner ? url : asAnalyst(readerUrl, env), given, env, signal);
      return isUp ? await run() : await whileServing(session, url, run);
    });
  },
});

/** What the shell says of servers of the user's own: the embedded one is reached as the program says. */
function withoutPostgres(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('PG')));
}

/**
 * The login of a database of the user's own may write, and has no search path: the session is made to begin as that of
 * an analyst.
 */
function asAnalyst(address: string, env: NodeJS.ProcessEnv): string {
  const url = new URL(address);
  const options = url.searchParams.get('options') ?? env.PGOPTIONS ?? '';
  const own = '-c search_path=analytics,public -c default_transaction_read_only=on';
  url.searchParams.set('options', `${own} ${options}`.trim());
  // A plus sign is no space to libpq.
  url.search = url.search.replaceAll('+', '%20');
  return url.href;
}

/** The password goes by the environment: arguments are seen by every user of the machine. */
async function runPsql(
  address: string,
  args: readonly string[],
  shell: NodeJS.ProcessEnv,
  signal: AbortSignal,
) {
  const shown = new URL(address);
  const password = decodeURIComponent(shown.password);
  shown.password = '';
  const env = { ...shell, ...(password === '' ? {} : { PGPASSWORD: password }) };
  using _terminal = commandEnding.leaveInterrupts();
  const psql = spawn('psql', ['-d', shown.href, ...args], { stdio: 'inherit', env });
  const end = () => psql.kill('SIGTERM');
  signal.addEventListener('abort', end, { once: true });
  try {
    const [code] = (await once(psql, 'exit')) as [number | null];
    signal.throwIfAborted();
    return code === 0 ? EXIT_CODES.ok : EXIT_CODES.failure;
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
    const text =
      'psql is not installed here: install the Postgres client of your system (postgresql-client), or give another program the address that "tapekeep url" prints';
    throw new TapekeepError('program_missing', text, { cause: error });
  } finally {
    signal.removeEventListener('abort', end);
  }
}
