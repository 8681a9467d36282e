import type { HealthReport } from '../../console/health.js';
import { type DiskSpace, freeSpace } from '../../console/state.js';
import { type Clock, sleep, startDeadline, Wakeup } from '../../kernel/clock.js';
import { HOUR_MS, MINUTE_MS, SECOND_MS, shownDuration } from '../../kernel/durations.js';
import { AbortedError, codeOf, messageOf } from '../../kernel/errors.js';
import type { Random } from '../../kernel/random.js';
import { Backoff } from '../../kernel/retry.js';
import { isoMs } from '../../kernel/timestamp.js';
import type { DaemonEvents } from '../../observe/events.js';

/**
 * Tells people of changes between good and bad, for those without an Alertmanager. What is good is decided by the checks
 * of `/healthz` and `/readyz`, and by the limits of a disk and of what is lost; here is only when it is told.
 */

/** A change that does not last so long is not told. */
export const HOLD_MS = MINUTE_MS;
/** Notices within an hour. Later changes wait, and what has passed by then is not told. */
export const MOST_PER_HOUR = 12;
const LOOK_MS = 5 * SECOND_MS;
/** Pauses between tries where the receiver does not take a notice. */
const BACKOFF = { baseMs: 2 * SECOND_MS, capMs: 5 * MINUTE_MS };
/** Pause between two notices of lost time, which is told in sum. */
const LOSS_PAUSE_MS = HOUR_MS;
/** A process that ends waits no longer for its last notice. */
const LAST_MS = 3 * SECOND_MS;
/** Longest detail that is sent. */
const DETAIL_LENGTH = 600;

/** Everything that notices are about, as of now. */
export interface Circumstances {
  /** Checks of health and readiness together. */
  readonly checks: HealthReport['checks'];
  readonly disks: readonly DiskSpace[];
  /** Length of the gaps that cannot be filled; undefined before they were counted. */
  readonly unfillableMs: number | undefined;
}

/** One change, as a receiver of JSON gets it. */
export interface Change {
  /** `lost` is no state, and does not end. */
  readonly change: 'fired' | 'ended' | 'lost';
  /** Name of the check: `database`, `exchange`, `disk data`. */
  readonly check: string;
  readonly detail: string;
  /** Time at which it began. */
  readonly since: string;
  /** Section of the documents of this version that says what to do. */
  readonly runbook: string;
}

/** Sections of the runbook by check. */
const RUNBOOK: Readonly<Record<string, string>> = {
  ...{ loops: 'tapekeepdown', 'going on': 'tapekeeprestarts', phase: 'tapekeepcommitsnothing' },
  ...{ database: 'tapekeepdatabasedown', archive: 'tapekeepcommitsnothing' },
  ...{ exchange: 'tapekeeprequestsfail', streams: 'tapekeepstreamstands' },
  ...{ disk: 'tapekeepdiskfills', gaps: 'tapekeepgapsstayopen', standby: 'tapekeeptakenover' },
};

/** Link to the section about a check. */
export function runbookOf(check: string): string {
  const [kind = check] = check.startsWith('disk ') ? ['disk'] : [check];
  return `docs/runbook.md#${RUNBOOK[kind] ?? 'runbook'}`;
}

/** Checks that fail because another one does, and are not told beside it. */
const FOLLOWS: Readonly<Record<string, readonly string[]>> = { archive: ['database'] };

interface Known {
  isGood: boolean;
  /** Time at which it became so, by the two clocks. */
  sinceMs: number;
  sinceWallMs: number;
  detail: string;
  /** State that was told last; good before the first notice. */
  toldGood: boolean;
}

export interface NoticesOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly telemetry: Pick<DaemonEvents, 'noticeSent' | 'noticeFailed'>;
  readonly look: () => Promise<Circumstances>;
  /** Sends changes as one notice; throws when the receiver did not take it. */
  readonly send: (changes: readonly Change[], signal: AbortSignal) => Promise<void>;
}

/**
 * Two loops: one looks, one tells. Between them is one entry for each check, so that a receiver that is slow or away
 * holds up nothing and nothing piles up: it is told what holds when it answers.
 */
export class Notices {
  readonly #options: NoticesOptions;
  readonly #known = new Map<string, Known>();
  readonly #news: Wakeup;
  readonly #backoff: Backoff;
  /** Times of the notices of the last hour. */
  #sentMs: number[] = [];
  #lostMs: number | undefined;
  #toldLostMs = 0;
  #lossToldAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: NoticesOptions) {
    this.#options = options;
    this.#news = new Wakeup(options.clock);
    this.#backoff = new Backoff(BACKOFF, options.random);
  }

  /** Looks and tells until `signal` aborts; never throws. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#watch(signal), this.#tell(signal)]);
  }

  /** Sends at once what makes the process end. */
  async sendLast(error: Error): Promise<void> {
    const since = isoMs(this.#options.clock.wallMs());
    const detail = shortened(`it ends: ${error.message}`);
    const check = 'going on';
    const last: Change = { change: 'fired', check, detail, since, runbook: runbookOf(check) };
    const late = () => new AbortedError('the process ends');
    using deadline = startDeadline(this.#options.clock, LAST_MS, late);
    await this.#send([last], deadline.signal);
  }

  async #watch(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const { checks, disks, unfillableMs } = await this.#options.look();
      if (signal.aborted) return;
      for (const { name, ok, detail = '' } of checks) this.#see(name, ok, detail);
      for (const disk of disks) {
        const { isEnough, text } = freeSpace(disk);
        this.#see(`disk ${disk.directory}`, isEnough, text);
      }
      // Losses from before this process began are no news.
      if (unfillableMs !== undefined) {
        if (this.#lostMs === undefined) this.#toldLostMs = unfillableMs;
        this.#lostMs = unfillableMs;
        // Retention takes gaps away as well.
        this.#toldLostMs = Math.min(this.#toldLostMs, unfillableMs);
      }
      if (this.#due().length > 0) this.#news.notify();
      await sleep(this.#options.clock, LOOK_MS, signal).catch(() => undefined);
    }
  }

  #see(name: string, isGood: boolean, detail: string): void {
    const { clock } = this.#options;
    const now = { sinceMs: clock.monotonicMs(), sinceWallMs: clock.wallMs() };
    const known = this.#known.get(name);
    if (known === undefined) {
      this.#known.set(name, { isGood, detail, toldGood: true, ...now });
    } else {
      if (known.isGood !== isGood) Object.assign(known, { isGood, ...now });
      known.detail = detail;
    }
  }

  /** Changes that have lasted, and were not told. */
  #due(): Change[] {
    const nowMs = this.#options.clock.monotonicMs();
    const lasts = ({ sinceMs }: Known) => nowMs - sinceMs >= HOLD_MS;
    const changes: Change[] = [];
    for (const [check, known] of this.#known) {
      const { isGood, toldGood, sinceWallMs } = known;
      if (isGood === toldGood || !lasts(known)) continue;
      const others = (FOLLOWS[check] ?? []).flatMap((other) => this.#known.get(other) ?? []);
      const isSaid = others.some((one) => !one.isGood || (!one.toldGood && !lasts(one)));
      if (isSaid && !isGood) continue;
      const detail = shortened(known.detail);
      const since = isoMs(sinceWallMs);
      const change = isGood ? ('ended' as const) : ('fired' as const);
      changes.push({ change, check, detail, since, runbook: runbookOf(check) });
    }
    const lostMs = (this.#lostMs ?? 0) - this.#toldLostMs;
    if (lostMs > 0 && nowMs - this.#lossToldAtMs >= LOSS_PAUSE_MS) {
      const detail = `${shownDuration(lostMs)} more, of all streams, cannot be fetched any more`;
      const since = isoMs(this.#options.clock.wallMs());
      const check = 'gaps';
      changes.push({ change: 'lost', check, detail, since, runbook: runbookOf(check) });
    }
    return changes;
  }

  async #tell(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    while (!signal.aborted) {
      await this.#news.wait(LOOK_MS, signal);
      const freeInMs = this.#freeInMs();
      if (freeInMs > 0) {
        await sleep(clock, freeInMs, signal).catch(() => undefined);
        continue;
      }
      const changes = this.#due();
      if (signal.aborted || changes.length === 0) continue;
      if (await this.#send(changes, signal)) this.#told(changes);
      else await sleep(clock, this.#backoff.nextMs(), signal).catch(() => undefined);
    }
  }

  /** Time until one more notice may be sent, milliseconds. */
  #freeInMs(): number {
    const nowMs = this.#options.clock.monotonicMs();
    this.#sentMs = this.#sentMs.filter((atMs) => nowMs - atMs < HOUR_MS);
    const [oldestMs] = this.#sentMs;
    return oldestMs === undefined || this.#sentMs.length < MOST_PER_HOUR
      ? 0
      : oldestMs + HOUR_MS - nowMs;
  }

  #told(changes: readonly Change[]): void {
    const nowMs = this.#options.clock.monotonicMs();
    this.#backoff.reset();
    this.#sentMs.push(nowMs);
    for (const { change, check } of changes) {
      const known = this.#known.get(check);
      if (known !== undefined) known.toldGood = change === 'ended';
      if (change !== 'lost') continue;
      this.#toldLostMs = this.#lostMs ?? 0;
      this.#lossToldAtMs = nowMs;
    }
  }

  async #send(changes: readonly Change[], signal: AbortSignal): Promise<boolean> {
    const { send, telemetry } = this.#options;
    try {
      await send(changes, signal);
      telemetry.noticeSent({ checks: changes.map(({ change, check }) => `${check} ${change}`) });
      return true;
    } catch (error) {
      if (!signal.aborted)
        telemetry.noticeFailed({ code: codeOf(error), message: messageOf(error) });
      return false;
    }
  }
}

const shortened = (text: string) =>
  text.length > DETAIL_LENGTH ? `${text.slice(0, DETAIL_LENGTH - 1)}…` : text;
