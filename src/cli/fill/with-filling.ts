import { systemClock } from '../../kernel/clock.js';
import { isAborted, TapekeepError } from '../../kernel/errors.js';
import type { LogDestination } from '../../observe/logger.js';
import type { Store } from '../../store/index.js';
import { commandEnding } from '../ending.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';
import { borrowDatabase, migrateDatabase, openArchive } from '../opening/database.js';
import { type CommonOptions, openSession, type Session } from '../opening/session.js';
import { jsonLine } from '../output/printable.js';
import { Filling } from './filling.js';
import { type FillOutcome, gapsOf, isWhole, outcomeDocument, outcomeText } from './outcome.js';
import { ProgressLine } from './progress-line.js';
import type { FillTask } from './task.js';

/** What is left over in the end (a socket of a server that hangs) keeps the process no longer. */
const LEFTOVER_MS = 500;

/** What a command that fills works with. */
export interface FillDesk {
  readonly session: Session;
  readonly store: Store;
  readonly filling: Filling;
  readonly signal: AbortSignal;
  /** A line for people, beside the results. */
  say(text: string): void;
}

export interface FillCommandOptions extends CommonOptions {
  readonly json?: boolean;
}

/** Tasks, or words for people when there is nothing to do. */
export type Plan = readonly FillTask[] | string;

/**
 * Runs a command that fills: takes the archive or follows the daemon, lets `plan` name the tasks,
 * shows how it goes, and tells what it came to.
 *
 * @param need `any` makes the archive when there is none
 */
export async function withFilling(
  options: FillCommandOptions,
  need: 'existing' | 'any',
  plan: (desk: FillDesk) => Promise<Plan>,
): Promise<ExitCode> {
  const clock = systemClock;
  const progress = new ProgressLine(process.stderr, clock);
  const destination = ({ isTTY }: LogDestination) => ({
    ...(isTTY === undefined ? {} : { isTTY }),
    write: (line: string) => progress.write(line),
  });
  const session = openSession({ logLevel: 'warn', ...options }, { destination });
  const { config, telemetry } = session;
  using ending = commandEnding.hold();
  const { signal } = ending;
  try {
    const database = await borrowDatabase(config, clock, telemetry.store, need);
    try {
      const store = await openOrMake(session, database.url, need);
      const say = (text: string) => progress.write(`${text}\n`);
      const filling = new Filling({
        ...{ session, store, clock, signal, onWorker: say },
        onProgress: (totals) => progress.show(totals),
      });
      try {
        const desk = { session, store, filling, signal, say };
        const outcome = await run(desk, plan, progress);
        return tell(outcome, options);
      } finally {
        progress.end();
        await filling.end();
        await store.stop();
      }
    } finally {
      await database.stop();
    }
  } catch (error) {
    if (commandEnding.outputCode !== undefined || !signal.aborted || !isAborted(error)) throw error;
    process.stderr.write('Stopped before anything was asked for.\n');
    return EXIT_CODES.forced;
  } finally {
    clock.after(LEFTOVER_MS, () => process.exit(), { background: true });
  }
}

/** A database without a schema is a new archive. */
async function openOrMake(
  { config, telemetry, exchangeTime }: Session,
  url: string,
  need: 'existing' | 'any',
): Promise<Store> {
  const exchangeNowMs = () => exchangeTime.nowMs();
  const open = () => openArchive(config, url, systemClock, telemetry.store, exchangeNowMs);
  try {
    return await open();
  } catch (error) {
    const isNew = error instanceof TapekeepError && error.code === 'database_not_migrated';
    if (!isNew || need === 'existing') throw error;
    await migrateDatabase(config, url, telemetry.store);
    return await open();
  }
}

async function run(
  desk: FillDesk,
  plan: (desk: FillDesk) => Promise<Plan>,
  progress: ProgressLine,
): Promise<FillOutcome | string> {
  const { filling, store } = desk;
  const startedMs = systemClock.monotonicMs();
  const tasks = await plan(desk);
  if (typeof tasks === 'string') return tasks;
  const end = await filling.run(tasks);
  const nowMs = await filling.nowMs();
  const parts = await filling.progress(tasks, nowMs);
  const known = tasks.flatMap((task, at) => {
    const part = parts[at];
    return part === undefined ? [] : [{ ...task, progress: part }];
  });
  return {
    end,
    tasks: known,
    gaps: await gapsOf(store, tasks, nowMs),
    rows: progress.rowsSince(Filling.totalsOf(tasks, parts)),
    durationMs: systemClock.monotonicMs() - startedMs,
  };
}

function tell(outcome: FillOutcome | string, { json }: FillCommandOptions): ExitCode {
  if (typeof outcome === 'string') {
    process.stdout.write(
      json === true ? jsonLine({ isWhole: true, message: outcome }) : `${outcome}\n`,
    );
    return EXIT_CODES.ok;
  }
  process.stdout.write(
    json === true ? jsonLine(outcomeDocument(outcome)) : outcomeText(outcome, 'the same command'),
  );
  if (isWhole(outcome)) return EXIT_CODES.ok;
  return outcome.end === 'stopped' ? EXIT_CODES.forced : EXIT_CODES.incomplete;
}
