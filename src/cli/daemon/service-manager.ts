import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { type Clock, sleep } from '../../kernel/clock.js';
import { messageOf } from '../../kernel/errors.js';
import type { ObservedTelemetry } from '../../observe/telemetry.js';

/** The program of systemd that speaks its protocol: Node has no sockets of that kind. */
const NOTIFY = 'systemd-notify';
const NOTIFY_LIMIT_MS = 5000;
/** Signs of life within the time after which the service manager takes the daemon for dead. */
const SIGNS = 3;

export interface ServiceManagerOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly telemetry: Pick<ObservedTelemetry['daemon'], 'warned'>;
  /** Whether a sign of life may be given. */
  readonly isAlive: () => boolean;
}

/**
 * Reports to systemd that the daemon is up, that it lives, and that it ends; does nothing where no
 * service manager asked for it (`NOTIFY_SOCKET`, `WATCHDOG_USEC`). A daemon whose loops have stopped gives
 * no sign of life, and is started anew.
 */
export class ServiceManager {
  readonly #options: ServiceManagerOptions;
  readonly #stopping = new AbortController();
  #signs: Promise<void> = Promise.resolve();

  constructor(options: ServiceManagerOptions) {
    this.#options = options;
  }

  /** The daemon is up: it will wait for the exchange and the database by itself. */
  async started(): Promise<void> {
    await this.#report('READY=1');
    const { clock, env, isAlive } = this.#options;
    const periodMs = Number(env.WATCHDOG_USEC) / 1000 / SIGNS;
    if (!(periodMs > 0)) return;
    const { signal } = this.#stopping;
    const give = async () => {
      while (!signal.aborted) {
        if (isAlive()) await this.#report('WATCHDOG=1');
        await sleep(clock, periodMs, signal);
      }
    };
    this.#signs = give().catch(() => undefined);
  }

  async stopping(): Promise<void> {
    this.#stopping.abort();
    await this.#signs;
    await this.#report('STOPPING=1');
  }

  async #report(state: string): Promise<void> {
    const { env, telemetry } = this.#options;
    if ((env.NOTIFY_SOCKET ?? '') === '') return;
    await promisify(execFile)(NOTIFY, [state], { env, timeout: NOTIFY_LIMIT_MS }).catch(
      (error: unknown) => {
        const message = `${NOTIFY} ${state} failed (${messageOf(error)}): systemd does not know it`;
        telemetry.warned({ code: 'service_report_failed', message });
      },
    );
  }
}
