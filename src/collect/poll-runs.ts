import { isAborted } from '../kernel/errors.js';
import type { CollectEvents } from '../observe/events.js';
import { tellFailure } from './failures.js';

/** Called for a failed poll: its stream, its market (`*` for all) and what went wrong. */
export type OnPollFailed = (stream: string, market: string, error: unknown) => void;

/** Runs of polls by stream and market. The same one is never under way twice; failures are told. */
export class PollRuns {
  readonly #telemetry: CollectEvents;
  readonly #signal: AbortSignal;
  readonly #onFailed: OnPollFailed;
  readonly #runs = new Map<string, Promise<void>>();

  /** @param signal ends all polls, and lets none begin */
  constructor(telemetry: CollectEvents, signal: AbortSignal, onFailed: OnPollFailed) {
    this.#telemetry = telemetry;
    this.#onFailed = onFailed;
    this.#signal = signal;
  }

  isUnderWay(stream: string, market: string): boolean {
    return this.#runs.has(`${stream} ${market}`);
  }

  /** Starts a poll unless the same one is still under way. It never rejects. */
  start(stream: string, market: string, work: (signal: AbortSignal) => Promise<void>): void {
    const key = `${stream} ${market}`;
    const signal = this.#signal;
    if (signal.aborted) return;
    if (this.#runs.has(key)) {
      this.#telemetry.runSkipped({ stream });
      return;
    }
    const run = work(signal)
      .catch((error: unknown) => {
        if (!signal.aborted && !isAborted(error)) this.failed(stream, market, error);
      })
      .finally(() => this.#runs.delete(key));
    this.#runs.set(key, run);
  }

  /** Resolves when what is under way has ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#runs.values());
  }

  failed(stream: string, market: string, error: unknown): void {
    tellFailure(this.#telemetry, stream, market, error);
    this.#onFailed(stream, market, error);
  }
}
