import type { TestContext } from 'node:test';
import {
  createExchangeClient,
  createExchangeClock,
  type ExchangeClientOptions,
} from '../../../src/client/index.js';
import { RequestBudget } from '../../../src/kernel/budget.js';
import { systemClock } from '../../../src/kernel/clock.js';
import type { RequestEnded } from '../../../src/observe/events.js';
import { hearing, noTelemetry } from '../no-telemetry.js';

/** A client for a stub server, with a budget that holds nothing back. It closes with the test. */
export function makeStubClient(
  t: TestContext,
  baseUrl: string,
  overrides: Partial<ExchangeClientOptions> = {},
) {
  const ended: RequestEnded[] = [];
  const clock = overrides.clock ?? systemClock;
  const options: ExchangeClientOptions = {
    baseUrl,
    clock,
    random: () => 0,
    telemetry: hearing(noTelemetry.client, { requestEnded: (event) => ended.push(event) }),
    budget: new RequestBudget({ clock, ratePerS: 1000, burst: 1000, maxWaiting: 100 }),
    exchangeClock: createExchangeClock({ clock }),
    ...overrides,
  };
  const client = createExchangeClient(options);
  t.after(() => client.close());
  return { client, ended, budget: options.budget, exchangeClock: options.exchangeClock };
}
