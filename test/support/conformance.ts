import type { TestContext } from 'node:test';
import { systemClock } from '../../src/kernel/clock.js';
import type { ServerVariants } from '../../src/server/variants.js';
import {
  type CaseResult,
  runSuite,
  type SuiteOptions,
  type SuiteResult,
} from '../conformance/suite.js';
import { GENERATED, startTapeExchange } from './tape-exchange.js';

const KEYS = { apiKey: 'key-1', secret: 'secret-1' };

/** A tape exchange to be judged. Its rate-limit headers tell of no limit worth waiting for. */
export function startJudged(t: TestContext, variants: Partial<ServerVariants> = {}) {
  const rateLimit = { limit: 1_000_000, windowMs: 1000, enforce: false };
  const options = { ...GENERATED, keys: { [KEYS.apiKey]: KEYS.secret } };
  return startTapeExchange(t, options, { rateLimit, ...variants });
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
  return judgeOpenly(url, { credentials: KEYS, ...overrides });
}

/** Ids of the cases with a verdict, sorted. */
export function idsWith(verdict: CaseResult['verdict'], { cases }: SuiteResult): string[] {
  return cases
    .filter((row) => row.verdict === verdict)
    .map(({ id }) => id)
    .sort();
}
