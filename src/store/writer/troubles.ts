import type { Clock } from '../../kernel/clock.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import type { StoreEvents } from '../../observe/events.js';
import { sqlstateOf } from '../sqlstate.js';

/** The same failure is reported once in so long. */
const REPORT_EVERY_MS = 10_000;
const NOTHING_REPORTED = { code: '', atMs: Number.NEGATIVE_INFINITY };

/** Failures of the server as a whole; a deadlock or a lock held is none. */
function isOutage(error: unknown): boolean {
  const sqlstate = sqlstateOf(error);
  return sqlstate === undefined || /^(08|25|53|57|58|XX)/.test(sqlstate);
}

/** Tells of failed commits, not each of them, and of the database's going and coming. */
export class Troubles {
  readonly #clock: Clock;
  readonly #telemetry: StoreEvents;
  #isUp: boolean | undefined;
  #reported = NOTHING_REPORTED;

  constructor({ clock, telemetry }: { readonly clock: Clock; readonly telemetry: StoreEvents }) {
    this.#clock = clock;
    this.#telemetry = telemetry;
  }

  /** After a success: what fails from here on is a new failure, even if it looks like the last one. */
  over(): void {
    this.#reported = NOTHING_REPORTED;
    this.#becomes(true);
  }

  tell(error: unknown, willRetry: boolean): void {
    const code = sqlstateOf(error) ?? codeOf(error);
    const nowMs = this.#clock.monotonicMs();
    const isKnown = this.#reported.code === code && nowMs - this.#reported.atMs < REPORT_EVERY_MS;
    if (!willRetry || !isKnown) {
      this.#reported = { code, atMs: nowMs };
      this.#telemetry.commitFailed({ code, message: messageOf(error), willRetry });
    }
    if (willRetry && isOutage(error)) this.#becomes(false, messageOf(error));
  }

  #becomes(up: boolean, detail?: string): void {
    if (this.#isUp === up) return;
    this.#isUp = up;
    this.#telemetry.databaseState({ up, ...(detail === undefined ? {} : { detail }) });
  }
}
