import type { ExchangeClock } from '../client/index.js';
import type { Config } from '../config/schema.js';
import { type Clock, sleep } from '../kernel/clock.js';
import { codeOf, messageOf } from '../kernel/errors.js';
import type { Telemetry } from '../observe/events.js';
import type { Store } from '../store/index.js';
import { keepVerifying, tellCompleteness } from './verification.js';

const ROUND_MS = 15_000;
/** What is asked of the collectors is looked up this often. */
const REVIEW_MS = 3000;
/** Partitions are made ahead at every so many rounds. */
const PARTITION_ROUNDS = 40;

interface HouseOptions {
  readonly config: Config;
  readonly collector: { review(): Promise<void> };
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly exchangeTime: ExchangeClock;
  readonly signal: AbortSignal;
  /** Called at every round: a sign of life. */
  readonly tick: () => void;
}

/**
 * What goes on beside collecting: partitions made ahead, closed gaps noted, gaps counted, what
 * others ask for taken up, and what is stored verified. Ends when all of it has ended after `signal` aborted.
 */
export async function keepHouse(store: Store, options: HouseOptions): Promise<void> {
  await Promise.all([
    keepVerifying(store, options.config, options),
    keepReviewing(options),
    keepRounds(store, options),
  ]);
}

/** Takes what others ask of the collectors over the archive: commands, and the verification. */
async function keepReviewing(options: HouseOptions): Promise<void> {
  const { collector, clock, telemetry, signal } = options;
  while (!signal.aborted) {
    await collector.review().catch((error: unknown) => {
      if (signal.aborted) return;
      telemetry.daemon.warned({ code: codeOf(error), message: messageOf(error) });
    });
    await sleep(clock, REVIEW_MS, signal).catch(() => undefined);
  }
}

async function keepRounds(store: Store, options: HouseOptions): Promise<void> {
  const { clock, telemetry, exchangeTime, signal, tick } = options;
  for (let round = 1; !signal.aborted; round += 1) {
    tick();
    try {
      if (round % PARTITION_ROUNDS === 0) await store.makePartitionsAhead(exchangeTime.nowMs());
      await store.closeFilledGaps();
      const rows = await store.statusRows(exchangeTime.nowMs());
      const gaps = rows.map(({ kind, market, openGaps: count, gapS, unfillableS }) => {
        const lengthMs = (gapS - unfillableS) * 1000;
        return { stream: kind, market, count, lengthMs, unfillableMs: unfillableS * 1000 };
      });
      telemetry.collect.gapsCounted({ gaps });
      await tellCompleteness(store, rows, options);
    } catch (error) {
      if (!signal.aborted) {
        telemetry.daemon.warned({ code: codeOf(error), message: messageOf(error) });
      }
    }
    await sleep(clock, ROUND_MS, signal).catch(() => undefined);
  }
}
