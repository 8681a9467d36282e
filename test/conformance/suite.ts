import type { Credentials } from '../../src/client/index.js';
import type { SignedContent } from '../../src/contract/signing.js';
import type { Clock } from '../../src/kernel/clock.js';
import { messageOf } from '../../src/kernel/errors.js';
import { authenticationCases } from './cases/authentication.js';
import { bookCases } from './cases/book.js';
import { errorCases } from './cases/errors.js';
import { klineCases } from './cases/klines.js';
import { limitCases } from './cases/limits.js';
import { orderCases } from './cases/orders.js';
import { postedErrorCases } from './cases/posted-errors.js';
import { pushedTradeCases } from './cases/pushed-trades.js';
import { realtimeCases } from './cases/realtime.js';
import { resourceCases } from './cases/resources.js';
import { signedCases } from './cases/signed.js';
import { tickerCases } from './cases/tickers.js';
import { tradeCases } from './cases/trades.js';
import { type Case, type Context, prepare } from './context.js';
import { ExchangeProbe, RequestsUsedUpError } from './exchange-probe.js';
import { Findings, type Side, SideError, Skip, type Variation, type Verdict } from './outcome.js';

/** Every case, in the order in which they run. */
export const CASES: readonly Case[] = [
  ...resourceCases,
  ...limitCases,
  ...errorCases,
  ...tradeCases,
  ...klineCases,
  ...bookCases,
  ...tickerCases,
  ...realtimeCases,
  ...pushedTradeCases,
  ...signedCases,
  ...orderCases,
  ...postedErrorCases,
  ...authenticationCases,
];

export interface SuiteOptions {
  /** Base URL of the exchange. */
  readonly url: string;
  /** Address of the WebSocket; without it those cases are skipped. */
  readonly realtimeUrl?: string;
  /** A market that is traded; without it one is chosen. */
  readonly market?: string;
  /** With keys the signed forms are tried too. */
  readonly credentials?: Credentials;
  /** A key that is known and not activated; nothing but its refusal is looked at. */
  readonly inactive?: Credentials;
  /**
   * Order creation is tried at any exchange. Left out: only at one that names itself a server of
   * this project.
   */
  readonly allowOrders?: boolean;
  /** What a signature covers; default `payload`. */
  readonly signedContent?: SignedContent;
  readonly clock: Clock;
  readonly ratePerS: number;
  readonly maxRequests: number;
  readonly timeoutMs: number;
  /** How long a frame of the real-time interface is waited for. */
  readonly realtimeTimeoutMs: number;
  /** Only cases whose id contains this. */
  readonly only?: string;
  readonly signal?: AbortSignal;
  /** Called after each case; `total` is how many there are. */
  readonly onResult?: (result: CaseResult, total: number) => void;
}

export interface CaseResult {
  readonly id: string;
  readonly title: string;
  readonly verdict: Verdict;
  /** Why it failed, differs or was skipped. */
  readonly remarks: readonly string[];
  readonly variations: readonly Variation[];
  /** Who broke the contract, when the case failed. */
  readonly failed: readonly Side[];
}

export interface SuiteResult {
  readonly url: string;
  readonly market: string;
  readonly cases: readonly CaseResult[];
  readonly requests: number;
  readonly durationMs: number;
}

const NOTHING = { variations: [], failed: [] };

async function runCase({ id, title, run }: Case, context: Context): Promise<CaseResult> {
  const findings = new Findings();
  const told = { id, title };
  try {
    await run(context, findings);
  } catch (error) {
    const isSkip = error instanceof Skip || error instanceof RequestsUsedUpError;
    if (context.signal?.aborted) throw error;
    // What was found before counts more than what could not be looked at.
    if (isSkip && findings.verdict === 'pass') {
      return { ...told, verdict: 'skipped', remarks: [error.message], ...NOTHING };
    }
    const side = error instanceof SideError ? error.side : 'server';
    if (!isSkip) findings.fail(messageOf(error), side);
  }
  const { verdict, remarks, variations, sides: failed } = findings;
  return { ...told, verdict, remarks, variations, failed };
}

/**
 * Runs the cases against an exchange, one after the other.
 *
 * @throws UnusableError when the exchange does not even list its markets
 */
export async function runSuite(options: SuiteOptions): Promise<SuiteResult> {
  const { clock, only = '', onResult } = options;
  const startedMs = clock.monotonicMs();
  const probe = new ExchangeProbe(options);
  let context: Context | undefined;
  try {
    context = await prepare(options, probe);
    const results: CaseResult[] = [];
    const chosen = CASES.filter(({ id }) => id.includes(only));
    for (const row of chosen) {
      const result = await runCase(row, context);
      results.push(result);
      onResult?.(result, chosen.length);
    }
    const { market } = context;
    const durationMs = clock.monotonicMs() - startedMs;
    return { url: options.url, market, cases: results, requests: probe.sent, durationMs };
  } finally {
    await context?.client.close();
    await probe.close();
  }
}
