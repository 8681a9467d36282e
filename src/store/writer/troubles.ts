import type { Clock } from '../../kernel/clock.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import type { StoreEvents } from '../../observe/events.js';
import { sqlstateOf } from '../sqlstate.js';

/** The same failure is reported once in so long. */
const REPORT_EVERY_MS = 10_000;
const NOTHING_REPORTED = { code: '', atMs: Number.NEGATIVE_INFINITY };

const LOGIN_ADVICE =
  'rows wait until the login works again: let it in again, or start again with the right database.url';

/** With what helps a program that runs, and knows its login from its start. */
function describe(error: unknown): string {
  const text = messageOf(error);
  return codeOf(error) === 'database_login_refused' ? `${text}; ${LOGIN_ADVICE}` : text;
}

/** Failures of the server as a whole; a deadlock or a lock held is none. */
function isOutage(error: unknown): boolean {
  if (codeOf(error) === 'database_login_refused') return true;
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
      this.#telemetry.commitFailed({ code, message: describe(error), willRetry });
    }
    if (willRetry && isOutage(error)) this.#becomes(false, describe(error));
  }

  #becomes(up: boolean, detail?: string): void {
    if (this.#isUp === up) return;
    this.#isUp = up;
    this.#telemetry.databaseState({ up, ...(detail === undefined ? {} : { detail }) });
  }
}
