import type { TestContext } from 'node:test';
import type { ServerVariants } from '../../../src/contract/variants.js';
import { systemClock } from '../../../src/kernel/clock.js';
import type { LiveBackend } from '../../../src/sandbox/live/live-backend.js';
import type { LiveOptions } from '../../../src/sandbox/live/open-live.js';
import { openLive } from '../../../src/sandbox/live/open-live.js';
import {
  type CaseResult,
  runSuite,
  type SuiteOptions,
  type SuiteResult,
} from '../../conformance/suite.js';
import { serve } from '../exchanges/served.js';
import { startTapeExchange, TEST_ORIGIN_MS } from '../exchanges/tape-exchange.js';
import { FakeClock } from '../fake-clock.js';

const UNLIMITED = { limit: 1_000_000, windowMs: 1000, enforce: false };
const KEYS = { apiKey: 'key-1', secret: 'secret-1' };
/** A tape knows no such key, a live exchange has not activated it. */
const INACTIVE = { apiKey: 'key-2', secret: 'secret-2' };

/** A tape exchange to be judged. Its rate-limit headers have no limit worth waiting for. */
export function startJudged(t: TestContext, variants: Partial<ServerVariants> = {}) {
  const options = { keys: { [KEYS.apiKey]: KEYS.secret } };
  return startTapeExchange(t, options, { rateLimit: UNLIMITED, ...variants });
}

/** A live exchange, at rest, to be judged in the same way. */
export async function startJudgedLive(
  t: TestContext,
  options: Partial<LiveOptions> = {},
  prepare: (backend: LiveBackend) => void = () => {},
) {
  const clock = new FakeClock(TEST_ORIGIN_MS);
  const keys = [
    { key: KEYS.apiKey, secret: KEYS.secret, balances: { USDT: '1000' } },
    { key: INACTIVE.apiKey, secret: INACTIVE.secret, isActive: false },
  ];
  const live = { startOffsetS: 3600, runId: 'judged', keys, ...options };
  const backend = await openLive(live, clock);
  prepare(backend);
  const variants = { rateLimit: UNLIMITED };
  return (await serve(t, backend, clock, { variants, control: true })).server;
}

/** Runs the suite as fast as it goes, without keys. */
export function judgeOpenly(
  url: string,
  overrides: Partial<SuiteOptions> = {},
): Promise<SuiteResult> {
  return runSuite({
    url,
    clock: systemClock,
    ratePerS: 1000,
    maxRequests: 400,
    timeoutMs: 10_000,
    realtimeTimeoutMs: 5_000,
    ...overrides,
  });
}

/** The same with the keys of {@link startJudged}. */
export function judge(url: string, overrides: Partial<SuiteOptions> = {}): Promise<SuiteResult> {
  return judgeOpenly(url, { credentials: KEYS, inactive: INACTIVE, ...overrides });
}

/** Ids of the cases with a verdict, sorted. */
export function idsWith(verdict: CaseResult['verdict'], { cases }: SuiteResult): string[] {
  return cases
    .filter((row) => row.verdict === verdict)
    .map(({ id }) => id)
    .sort();
}
