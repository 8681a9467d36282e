import { type Clock, sleep } from '../../kernel/clock.js';
import { isAborted, messageOf, TapekeepError } from '../../kernel/errors.js';
import { isAlive } from '../../kernel/processes.js';
import type { StoreEvents } from '../../observe/events.js';
import { StoreError } from '../errors.js';
import { birthOf, isZombie } from './processes.js';
import type { Running } from './sharing.js';

const LOOK_EVERY_MS = 500;
/** Tries to start it, without a steady time between them, after which it is given up. */
const TRIES_MAX = 7;
/** A server that ran for so long is steady: the next loss is a new one. */
const STEADY_MS = 60_000;
const WAIT_BASE_MS = 500;
const WAIT_CAP_MS = 10_000;

interface KeepingOptions {
  readonly clock: Clock;
  readonly telemetry: StoreEvents;
  /** Ends the keeping. */
  readonly signal: AbortSignal;
  readonly clusterDir: string;
  readonly startAgain: () => Promise<Running>;
}

/**
 * Keeps the server running that others may kill, as the system does when memory runs out.
 *
 * States: *watching* → *lost* → *starting again*, after growing pauses → *watching*. A full disk is waited
 * for as long as it takes; any other failure a limited number of times. Ends with the signal.
 *
 * @throws {@link StoreError} `embedded_postgres_lost`
 */
export async function keepRunning(first: Running, options: KeepingOptions): Promise<void> {
  const { clock, telemetry, signal } = options;
  const background = { background: true };
  const tries = { counted: 0, failed: 0 };
  let running = first;
  let birth = await birthOf(first.pid);
  let sinceMs = clock.monotonicMs();
  for (;;) {
    await sleep(clock, LOOK_EVERY_MS, signal, background);
    if (await isSame(running.pid, birth)) continue;
    signal.throwIfAborted();
    if (clock.monotonicMs() - sinceMs >= STEADY_MS) tries.counted = 0;
    telemetry.embeddedPostgres({ phase: 'lost', detail: `process ${running.pid} is gone` });
    running = await startUntilServing(options, tries);
    birth = await birthOf(running.pid);
    sinceMs = clock.monotonicMs();
  }
}

async function isSame(pid: number, birth: string): Promise<boolean> {
  return isAlive(pid) && (await birthOf(pid)) === birth && !(await isZombie(pid));
}

async function startUntilServing(
  { clock, telemetry, signal, clusterDir, startAgain }: KeepingOptions,
  tries: { counted: number; failed: number },
): Promise<Running> {
  for (tries.failed = 0; ; tries.failed += 1) {
    if (tries.failed > 0) {
      const waitMs = Math.min(WAIT_CAP_MS, WAIT_BASE_MS * 2 ** Math.min(tries.failed - 1, 30));
      await sleep(clock, waitMs, signal);
    }
    tries.counted += 1;
    try {
      return await startAgain();
    } catch (error) {
      signal.throwIfAborted();
      if (isAborted(error)) throw error;
      telemetry.embeddedPostgres({ phase: 'not started', detail: messageOf(error) });
      if (error instanceof TapekeepError && error.action === 'retry') tries.counted -= 1;
      if (tries.counted >= TRIES_MAX) throw lost(clusterDir, tries.counted, error);
    }
  }
}

function lost(clusterDir: string, tries: number, error: unknown): StoreError {
  return new StoreError(
    'embedded_postgres_lost',
    'fatal',
    `the embedded Postgres in ${clusterDir} is gone and could not be started again in ${tries} tries; what is stored is not touched by that. The last one failed: ${messageOf(error)}`,
    { cause: error },
  );
}
