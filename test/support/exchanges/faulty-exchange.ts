import type { TestContext } from 'node:test';
import type { ServerVariants } from '../../../src/contract/variants.js';
import type { Clock } from '../../../src/kernel/clock.js';
import { Faults } from '../../../src/sandbox/faults/faults.js';
import type { FaultRuleInput } from '../../../src/sandbox/faults/script.js';
import {
  openTape,
  type TapeBackend,
  type TapeOptions,
} from '../../../src/sandbox/tape/tape-backend.js';
import { FakeClock } from '../fake-clock.js';
import { type Served, serve } from './served.js';
import { testTape } from './tape-exchange.js';

export interface FaultyExchange extends Served<TapeBackend> {
  readonly faults: Faults;
  /** How often each rule fired, by its id. */
  fired(): Record<string, number>;
}

export interface FaultyExchangeOptions {
  readonly rules: readonly FaultRuleInput[];
  readonly seed?: number;
  readonly tape?: Partial<TapeOptions>;
  readonly variants?: Partial<ServerVariants>;
  /** Default: a clock that stands still. */
  readonly clock?: Clock;
  /** Default: the control paths are served. */
  readonly control?: boolean;
}

/** A tape exchange in which things go wrong by a script; ends with the test. */
export async function startFaultyExchange(
  t: TestContext,
  options: FaultyExchangeOptions,
): Promise<FaultyExchange> {
  const { rules, seed = 7, tape, variants = {}, control = true } = options;
  const clock = options.clock ?? new FakeClock();
  const backend = await openTape(await testTape(tape), clock);
  const faults = new Faults({ rules, seed, clock });
  const served = await serve(t, backend, clock, { variants, interference: faults, control });
  const fired = () =>
    Object.fromEntries(faults.report().map(({ rule, fired: count }) => [rule, count]));
  return { ...served, faults, fired };
}
