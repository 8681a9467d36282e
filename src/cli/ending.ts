import { type Clock, endsInTime, systemClock } from '../kernel/clock.js';
import { AbortedError, codeOf, isAborted, messageOf } from '../kernel/errors.js';
import type { Telemetry } from '../observe/events.js';
import { EXIT_CODES, type ExitCode } from './failure.js';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
type Signal = (typeof SIGNALS)[number];

/** Why a command is to end before it is done. */
export type EndCause = Signal | 'output closed' | 'output failed';

/** One Ctrl-C comes twice where a runner such as npx passes on what the terminal sends to all. */
const SAME_WISH_MS = 300;
/** For what is left over when a command has ended. */
const LEFTOVER_MS = 500;
/** Release when the output is closed; a stop of the daemon fits in. */
const UNWIND_MS = 15_000;

/** A command was ended from outside. Only its exit code is reported. */
export class EndedError extends AbortedError {
  /** Why, as its owner knows it. */
  readonly why: EndCause;

  constructor(why: EndCause) {
    super(`ended early (${why})`);
    this.why = why;
  }
}

/** What an {@link Ending} listens to, and how it ends what does not end by itself. */
export interface EndingProcess {
  on(signal: Signal, listener: () => void): unknown;
  exit(code: number): void;
  readonly stderr: { write(text: string): unknown };
}

/** An output of the process that cannot be written any more, and why. */
export type OutputLost = (stream: 'stdout' | 'stderr', reason: string) => void;

/**
 * How a command ends early, for all of its parts: the first signal, or closed output,
 * asks it to end and it lets go of what it holds; a second signal ends the process at once.
 *
 * States: *free* (a signal ends the process at once) → *held* → *ending* → *free*.
 */
export class Ending {
  readonly #clock: Clock;
  readonly #process: EndingProcess;
  #holders = 0;
  #interruptsLeft = 0;
  /** Of the holders that go on without an output. */
  readonly #goingOn = new Set<OutputLost>();
  #stopping = new AbortController();
  #signalledMs: number | undefined;
  #output: ExitCode | undefined;
  #cancelDeadline: () => void = () => undefined;

  constructor(clock: Clock, process: EndingProcess) {
    this.#clock = clock;
    this.#process = process;
  }

  /**
   * From here on signals are heard. One that finds nothing held ends the process with the code of a command that
   * was ended.
   */
  listen(): void {
    for (const signal of SIGNALS) this.#process.on(signal, () => this.#onSignal(signal));
  }

  /** The exit code of a command whose output could not be written to its end; else undefined. */
  get outputCode(): ExitCode | undefined {
    return this.#output;
  }

  /**
   * From here on nothing ends the process without asking the holder, but a second signal. For code that has to
   * release something before the process ends, and is disposed of after that.
   *
   * @param goesOn given by what runs for its own sake, as a daemon: a lost output does not end it. Called
   * at every failed write.
   * @returns with the signal that aborts with an {@link EndedError} when the command is to end
   */
  hold(goesOn?: OutputLost): Disposable & { readonly signal: AbortSignal } {
    this.#holders += 1;
    if (goesOn !== undefined) this.#goingOn.add(goesOn);
    if (this.#holders === 1) this.#begin();
    const { signal } = this.#stopping;
    let isHeld = true;
    const release = () => {
      if (!isHeld) return;
      isHeld = false;
      if (goesOn !== undefined) this.#goingOn.delete(goesOn);
      this.#holders -= 1;
      if (this.#holders === 0) this.#cancelDeadline();
    };
    return { signal, [Symbol.dispose]: release };
  }

  /** Whether what runs goes on without this output; it knows then. */
  goesOnWithout(...lost: Parameters<OutputLost>): boolean {
    for (const goesOn of this.#goingOn) goesOn(...lost);
    return this.#goingOn.size > 0;
  }

  /**
   * The output takes no more: closed by a reader that has seen enough, which is no failure of ours, or
   * failed. Ends the process at once when there is nothing to let go of, else within a deadline.
   */
  outputEnded(cause: 'output closed' | 'output failed'): void {
    const code = cause === 'output closed' ? EXIT_CODES.ok : EXIT_CODES.failure;
    if (this.#output !== undefined) return;
    this.#output = code;
    if (this.#holders === 0) {
      this.#process.exit(code);
      return;
    }
    const exit = () => this.#process.exit(code);
    this.#cancelDeadline = this.#clock.after(UNWIND_MS, exit, { background: true });
    this.#stopping.abort(new EndedError(cause));
  }

  #begin(): void {
    this.#stopping = new AbortController();
    this.#signalledMs = undefined;
    if (this.#output === undefined) return;
    const isClosed = this.#output === EXIT_CODES.ok;
    this.#stopping.abort(new EndedError(isClosed ? 'output closed' : 'output failed'));
  }

  /** Leaves Ctrl-C to a program that has the terminal, until this is disposed of. */
  leaveInterrupts(): Disposable {
    this.#interruptsLeft += 1;
    const takeAgain = () => {
      this.#interruptsLeft -= 1;
    };
    return { [Symbol.dispose]: takeAgain };
  }

  #onSignal(signal: Signal): void {
    if (this.#holders === 0) {
      this.#process.exit(EXIT_CODES.forced);
      return;
    }
    if (signal === 'SIGINT' && this.#interruptsLeft > 0) return;
    const nowMs = this.#clock.monotonicMs();
    if (this.#signalledMs === undefined) {
      this.#signalledMs = nowMs;
      this.#stopping.abort(new EndedError(signal));
      return;
    }
    if (nowMs - this.#signalledMs < SAME_WISH_MS) return;
    this.#process.stderr.write('tapekeep: ended at once; what was under way is left as it was\n');
    this.#process.exit(EXIT_CODES.forced);
  }
}

/** That of this process. */
export const commandEnding = new Ending(systemClock, process);

/**
 * Does the work of a command that a person may stop before it is done. What was lost with an output is reported
 * by {@link Ending.outputCode}.
 *
 * @param notice what is written then; left out: nothing
 */
export async function untilStopped(
  work: (signal: AbortSignal) => Promise<ExitCode | undefined>,
  notice: () => string = () => '',
): Promise<ExitCode | undefined> {
  using ending = commandEnding.hold();
  try {
    return await work(ending.signal);
  } catch (error) {
    const isStopped = ending.signal.aborted && isAborted(error);
    if (commandEnding.outputCode !== undefined || !isStopped) throw error;
    process.stderr.write(notice());
    return EXIT_CODES.forced;
  }
}

/** What is left over in the end, as a socket of a server that hangs, keeps the process no longer. */
export function endSoon(leftoverMs = LEFTOVER_MS): void {
  systemClock.after(leftoverMs, () => process.exit(), { background: true });
}

/** Why a run ends. */
export type StopReason = EndCause | 'time is up';

/**
 * Waits for a stop request: a signal, closed output, or the end of `forMs`. A
 * second signal ends the process at once. The timer does not keep a process alive that ends for
 * another reason.
 *
 * @param goesOn called when an output is lost, which then ends nothing
 */
export function waitForStop(
  clock: Clock,
  forMs: number | undefined,
  goesOn?: OutputLost,
): Promise<StopReason> {
  return new Promise((resolve) => {
    // Held until the process ends: a stop is not to be cut short.
    const { signal } = commandEnding.hold(goesOn);
    const onEnd = () => {
      if (signal.reason instanceof EndedError) resolve(signal.reason.why);
    };
    if (signal.aborted) onEnd();
    else signal.addEventListener('abort', onEnd, { once: true });
    if (forMs !== undefined) clock.after(forMs, () => resolve('time is up'), { background: true });
  });
}

/** One step of a stop: it may fail or be late, the next one comes all the same. */
export async function boundedStep(
  { clock, telemetry }: { readonly clock: Clock; readonly telemetry: Telemetry },
  name: string,
  ms: number,
  step: () => Promise<unknown> | undefined,
): Promise<void> {
  const { daemon } = telemetry;
  try {
    const isInTime = await endsInTime(clock, ms, Promise.resolve(step()));
    if (!isInTime) daemon.warned({ code: 'stop_late', message: `${name}: not ended in time` });
  } catch (error) {
    daemon.warned({ code: codeOf(error), message: `${name}: ${messageOf(error)}` });
  }
}
