import { checkSpanSlots } from '../../archive/verification.js';
import { ceilToMs, floorToMs, type Span, subtractSpans } from '../../kernel/span.js';
import { ALL_MARKETS_ID, type StreamRef } from '../../model/batch.js';
import type { CheckTarget, Store } from '../../store/index.js';
import { command } from '../command.js';
import { EXIT_CODES } from '../failure.js';
import { archive } from '../opening/database.js';
import { JSON_DOCUMENT, MARKETS, SPAN } from '../options.js';
import { CountProgress } from '../progress.js';
import { selectMarkets, selectSpan } from '../selection.js';
import { isUnproven, MarketFindings, printFindings, verifyDocument } from './verify-findings.js';

const HELP = `
Trades and candles are told by the exchange on two roads. Where the archive holds both, their sums
and prices must agree to the last digit. Without a span all that was collected is judged.

  tapekeep verify
  tapekeep verify --market BTC_USDT --from 2h
  tapekeep verify --from 2026-01-31 --to 2026-02-01T12:00:00Z --json

It exits with 0 only when nothing is left in doubt: a mismatch, a gap, or a candle that cannot be
judged makes it 6. A running daemon fetches again what does not agree.`;

/** One interval of one market, in whole slots. */
interface Job {
  readonly target: CheckTarget;
  readonly kline: StreamRef;
  readonly span: Span;
}

/**
 * Holds the stored trades of a span against the stored candles and reports every mismatch. Works beside
 * a running daemon, to which it hands over the mismatches that it finds.
 */
export default command({
  options: { market: MARKETS, ...SPAN, json: JSON_DOCUMENT },
  help: HELP,
  needs: archive('by itself'),
  async run({ store, nowMs, signal }, { market, from, to, json }) {
    const targets = selectMarkets(market, await store.checks.targets());
    const bounds = selectSpan({ from, to }, nowMs);
    const findings = await verify(store, targets, bounds, nowMs, signal);
    const isWhole = !signal.aborted;
    const text =
      json === true
        ? `${JSON.stringify(verifyDocument(findings, isWhole))}\n`
        : printFindings(findings, isWhole);
    process.stdout.write(text);
    if (!isWhole) return EXIT_CODES.forced;
    const isSuspect = findings.length === 0 || findings.some(isUnproven);
    return isSuspect ? EXIT_CODES.doubt : EXIT_CODES.ok;
  },
});

async function verify(
  store: Store,
  targets: readonly CheckTarget[],
  bounds: Partial<Span>,
  nowMs: number,
  signal: AbortSignal,
): Promise<MarketFindings[]> {
  const findings: MarketFindings[] = [];
  const work: Array<{ readonly jobs: readonly Job[]; readonly found: MarketFindings }> = [];
  const beyond = await store.beyondPresent();
  for (const target of targets) {
    const found = new MarketFindings(target.market, target.klines[0]?.variant ?? 0);
    findings.push(found);
    found.suspects = beyond.filter(
      ({ marketId }) => marketId === target.marketId || marketId === ALL_MARKETS_ID,
    );
    work.push({ jobs: await jobsOf(store, target, bounds, found), found });
  }
  const slots = work
    .flatMap(({ jobs }) => jobs)
    .reduce((sum, { span, kline }) => sum + (span.toMs - span.fromMs) / (kline.variant * 1000), 0);
  const progress = new CountProgress('candles', slots);
  try {
    for (const { jobs, found } of work) {
      for (const job of jobs) await run(store, job, found, nowMs, progress, signal);
      if (!signal.aborted) await addGaps(store, jobs, found, nowMs);
    }
  } finally {
    progress.end();
  }
  return findings;
}

async function run(
  store: Store,
  { target, kline, span }: Job,
  found: MarketFindings,
  nowMs: number,
  progress: CountProgress,
  signal: AbortSignal,
): Promise<void> {
  if (signal.aborted) return;
  const { market, marketId } = target;
  for await (const slots of checkSpanSlots(store.checks, target, kline, span)) {
    found.add(kline.variant, slots);
    const mismatches = slots.filter(({ outcome }) => outcome === 'mismatch');
    if (found.isFinest(kline.variant)) {
      for (const slot of mismatches) {
        const ids = await store.checks.tradeIds(marketId, slot.span, MarketFindings.IDS_MAX);
        found.addTradeIds(slot, ids);
      }
    }
    await store.checks.report(marketId, kline.variant, slots, nowMs);
    progress.advance(slots.length, market);
    if (signal.aborted) return;
  }
}

/**
 * What is to be judged of a market: the shortest candles first. What was asked for and is not
 * collected at all needs no judging slot by slot.
 */
async function jobsOf(
  store: Store,
  target: CheckTarget,
  bounds: Partial<Span>,
  found: MarketFindings,
): Promise<Job[]> {
  const jobs: Job[] = [];
  const isGiven = bounds.fromMs !== undefined || bounds.toMs !== undefined;
  for (const [index, kline] of target.klines.entries()) {
    const expected = await store.checks.expected(target, kline);
    const stepMs = kline.variant * 1000;
    let spans: readonly Span[] = expected;
    if (isGiven) {
      const fromMs = bounds.fromMs ?? expected[0]?.fromMs ?? bounds.toMs ?? 0;
      const toMs = bounds.toMs ?? expected.at(-1)?.toMs ?? fromMs;
      const asked = wholeSlots({ fromMs, toMs }, stepMs, index === 0);
      const known = {
        fromMs: floorToMs(expected[0]?.fromMs ?? asked.toMs, stepMs),
        toMs: ceilToMs(expected.at(-1)?.toMs ?? asked.toMs, stepMs),
      };
      if (index === 0) found.addOutside(kline.variant, subtractSpans(asked, [known]));
      spans = [clip(asked, known)];
    }
    for (const span of spans) {
      const whole = wholeSlots(span, stepMs, false);
      if (whole.fromMs < whole.toMs) jobs.push({ target, kline, span: whole });
    }
  }
  return jobs;
}

function clip(span: Span, to: Span): Span {
  return { fromMs: Math.max(span.fromMs, to.fromMs), toMs: Math.min(span.toMs, to.toMs) };
}

/** What was asked for is judged whole, by the shortest candles that touch it. */
function wholeSlots({ fromMs, toMs }: Span, stepMs: number, isOutward: boolean): Span {
  return isOutward
    ? { fromMs: floorToMs(fromMs, stepMs), toMs: ceilToMs(toMs, stepMs) }
    : { fromMs: ceilToMs(fromMs, stepMs), toMs: floorToMs(toMs, stepMs) };
}

/** Gaps of the trades and candles within what was judged, with what is known of them. */
async function addGaps(
  store: Store,
  jobs: readonly Job[],
  found: MarketFindings,
  nowMs: number,
): Promise<void> {
  const [first] = jobs;
  if (first === undefined) return;
  const span = {
    fromMs: Math.min(...jobs.map((job) => job.span.fromMs)),
    toMs: Math.max(...jobs.map((job) => job.span.toMs)),
  };
  const { marketId } = first.target;
  const filter = { marketIds: [marketId], kinds: ['trades', 'kline'] as const, span };
  const gaps = await store.listGaps({ ...filter, limit: MarketFindings.GAPS_MAX }, nowMs);
  // Candles of longer intervals end where their last whole one does: what follows is not judged.
  const judged = gaps.filter(({ kind, variant, span: gap }) =>
    kind === 'trades'
      ? true
      : jobs.some(
          ({ kline, span: one }) =>
            kline.variant === variant && gap.fromMs < one.toMs && one.fromMs < gap.toMs,
        ),
  );
  found.addGaps(judged);
}
