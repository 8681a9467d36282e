import type { ExchangeClock } from '../../client/index.js';
import type { Config } from '../../config/schema.js';
import { type Clock, sleep } from '../../kernel/clock.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import type { Telemetry } from '../../observe/events.js';
import type { Store } from '../../store/index.js';
import { keepPartitions } from './life-keeping.js';
import { keepVerifying, tellCompleteness } from './verification.js';

const ROUND_MS = 15_000;
/** What is asked of the collectors is looked up this often. */
const REVIEW_MS = 3000;
/** Counting takes longer in a ledger of very many islands: it rests for so many times what it took. */
const REST_FACTOR = 20;
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
 * What goes on beside collecting: partitions made ahead, sealed and moved, closed gaps noted, gaps counted, what
 * others ask for taken up, and what is stored verified. Ends when all of it has ended after `signal` aborted.
 */
export async function keepHouse(store: Store, options: HouseOptions): Promise<void> {
  await Promise.all([
    keepVerifying(store, options.config, options),
    keepReviewing(options),
    keepPartitions(store, options.config, options),
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
  let countAtMs = clock.monotonicMs();
  for (let round = 1; !signal.aborted; round += 1) {
    tick();
    const startMs = clock.monotonicMs();
    try {
      if (round % PARTITION_ROUNDS === 0) await store.makePartitionsAhead(exchangeTime.nowMs());
      if (startMs >= countAtMs) await count(store, options);
    } catch (error) {
      if (!signal.aborted) {
        telemetry.daemon.warned({ code: codeOf(error), message: messageOf(error) });
      }
    }
    const endMs = clock.monotonicMs();
    if (startMs >= countAtMs) countAtMs = endMs + REST_FACTOR * (endMs - startMs);
    await sleep(clock, ROUND_MS, signal).catch(() => undefined);
  }
}

/** Goes through the ledger whole. */
async function count(store: Store, options: HouseOptions): Promise<void> {
  await store.closeFilledGaps();
  const rows = await store.statusRows(options.exchangeTime.nowMs());
  const gaps = rows.map(({ kind, market, openGaps, gapS, unfillableS }) => {
    const lengthMs = (gapS - unfillableS) * 1000;
    return { stream: kind, market, count: openGaps, lengthMs, unfillableMs: unfillableS * 1000 };
  });
  options.telemetry.collect.gapsCounted({ gaps });
  await tellCompleteness(store, rows, options);
}
