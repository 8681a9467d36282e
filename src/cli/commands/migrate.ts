import { systemClock, unlessAborted } from '../../kernel/clock.js';
import { shownDuration } from '../../kernel/durations.js';
import type { MigrationReport, MigrationStep } from '../../store/index.js';
import { command, flag, nothing } from '../command.js';
import { UsageError } from '../failure.js';
import { migrateDatabase, withDatabase } from '../opening/database.js';
import { openSession } from '../opening/session.js';
import { countOf, type Lines, textOf } from '../output.js';
import { Progress } from '../progress.js';

const DRAW_MS = 1000;

export default command({
  options: { citus: flag('--citus', 'not supported yet: refused') },
  needs: nothing,
  async run(common, { citus }) {
    if (citus) {
      const allowed =
        'a Citus cluster is not supported yet, so nothing was migrated: keep the archive on one Postgres server';
      throw new UsageError('migrate', '--citus', allowed);
    }
    const session = openSession(common);
    await withDatabase(session, 'any', async ({ signal, url }) => {
      const progress = new MigrationProgress();
      const { telemetry } = session;
      const { store } = telemetry;
      // Its line of the log would stand behind the bar.
      const migrated: typeof store.migrated = (event) => {
        progress.end();
        store.migrated(event);
      };
      const shown = { ...session, telemetry: { ...telemetry, store: { ...store, migrated } } };
      const migrating = migrateDatabase(shown, url, progress.begun);
      // What is cut off is rolled back; the next run goes on from there.
      const report = await unlessAborted(signal, migrating).finally(() => progress.end());
      process.stdout.write(textOf(linesOf(report)));
    });
  },
});

/** Which migration is applied, and for how long: how far one has come Postgres does not tell. */
class MigrationProgress extends Progress {
  #cancel: (() => void) | undefined;
  #isEnded = false;

  readonly begun = ({ name, at, total }: MigrationStep): void => {
    this.#cancel?.();
    const begunAtMs = systemClock.monotonicMs();
    const draw = () => {
      const forMs = shownDuration(systemClock.monotonicMs() - begunAtMs);
      this.show((at - 1) / total, `${at} of ${countOf(total, 'migration')}, ${name} for ${forMs}`);
      this.#cancel = systemClock.after(DRAW_MS, draw, { background: true });
    };
    if (!this.#isEnded) draw();
  };

  /** Before anything else is written. What a cut off migration still begins is not shown. */
  override end(): void {
    this.#isEnded = true;
    this.#cancel?.();
    super.end();
  }
}

function linesOf({ applied, analytics, roles, archiving }: MigrationReport): Lines {
  return [
    applied.length === 0
      ? 'The schema is up to date; nothing was applied.'
      : `Applied ${applied.join(', ')}.`,
    analytics.state === 'replaced' && 'Made the analytics schema.',
    analytics.note && `Analytics: ${analytics.note}.`,
    roles.state === 'granted' && 'Granted the rights of owner, writer and reader.',
    roles.note && `Roles: ${roles.note}.`,
    archiving && `Archiving: ${archiving}.`,
  ];
}
