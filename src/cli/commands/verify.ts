import { partitionSpans } from '../../archive/sealing/plan.js';
import { checkSpanSlots } from '../../archive/verification.js';
import { expiredOf } from '../../console/api/gaps.js';
import { selectMarkets } from '../../console/api/selection.js';
import { obtain } from '../../kernel/bounded.js';
import { intervalText, shownDuration } from '../../kernel/durations.js';
import {
  ceilToMs,
  doOverlap,
  floorToMs,
  holdsSpan,
  hullOf,
  isEmptySpan,
  normalizeSpans,
  overlapOf,
  type Span,
  subtractSpans,
  totalLengthMs,
} from '../../kernel/span.js';
import { formatInstant, formatSpan, isoSpan } from '../../kernel/timestamp.js';
import type { StreamRef } from '../../model/batch.js';
import { describeDifference, type SlotCheck } from '../../model/check-results.js';
import type { KnownStream } from '../../model/explain.js';
import { streamName } from '../../model/series.js';
import type { BeyondPresent, CheckTarget, Gap, GapFilter, Reach } from '../../store/index.js';
import { command } from '../command.js';
import { EXIT_CODES } from '../failure.js';
import { archive, type Look } from '../opening/database.js';
import { reachArchived } from '../opening/serving.js';
import { JSON_DOCUMENT, MARKETS, SPAN } from '../options.js';
import { countOf, type Lines, printReport, whole } from '../output.js';
import { Progress } from '../progress.js';
import { selectSpan } from '../selection.js';

interface Counts {
  slots: number;
  matches: number;
  mismatches: number;
  unproven: number;
  /** Left out, because the exchange's history begins later. */
  beforeHistoryS: number;
}

/** Of mismatches and unproven spans of a kind no more are kept, so that memory stays bounded. */
const KEPT_MAX = 1000;
/** Trade ids that are named for one mismatch. */
const IDS_MAX = 1000;
const GAPS_MAX = 1000;

/** What verifying one market found; counts are exact. */
interface MarketFindings {
  readonly market: string;
  /** By interval in seconds. */
  readonly counts: Map<number, Counts>;
  readonly mismatches: {
    readonly intervalS: number;
    readonly slot: SlotCheck;
    /** Of the shortest candles alone. */
    readonly tradeIds: readonly number[] | null;
  }[];
  /** Spans that nothing can be said of, and why. */
  readonly unproven: { intervalS: number; reason: string; fromMs: number; toMs: number }[];
  gaps: readonly Gap[];
  /** Coverage of time that has not come yet. */
  readonly suspects: readonly BeyondPresent[];
}

function countsOf({ counts }: MarketFindings, intervalS: number): Counts {
  const none = () => ({ slots: 0, matches: 0, mismatches: 0, unproven: 0, beforeHistoryS: 0 });
  return obtain(counts, intervalS, none);
}

/** Spans come oldest first; those that meet are one. */
function addUnproven(found: MarketFindings, intervalS: number, span: Span, reason: string): void {
  countsOf(found, intervalS).unproven += (span.toMs - span.fromMs) / (intervalS * 1000);
  const same = found.unproven.filter((one) => one.intervalS === intervalS && one.reason === reason);
  const last = same.at(-1);
  if (last?.toMs === span.fromMs) last.toMs = span.toMs;
  else if (same.length < KEPT_MAX) found.unproven.push({ intervalS, reason, ...span });
}

/** What can be said of a market: of one without a slot and without a gap there is nothing to judge yet. */
function stateOf({ counts, gaps, suspects }: MarketFindings): 'proven' | 'unproven' | 'unjudged' {
  const all = [...counts.values()];
  const isUnproven =
    gaps.length > 0 ||
    suspects.length > 0 ||
    all.some(({ mismatches, unproven }) => mismatches > 0 || unproven > 0);
  if (isUnproven) return 'unproven';
  return all.some(({ slots }) => slots > 0) ? 'proven' : 'unjudged';
}

/** What was not judged is not proven either. */
const isProven = (found: MarketFindings) => stateOf(found) === 'proven';

function marketLines({ market, counts, mismatches, unproven, gaps, suspects }: MarketFindings) {
  const judged = [...counts].map(([intervalS, count]) => {
    const { slots, matches, beforeHistoryS } = count;
    const before =
      beforeHistoryS === 0 ? '' : `; ${shownDuration(beforeHistoryS * 1000)} ${BEFORE_HISTORY}`;
    return `  candles of ${intervalText(intervalS)}, ${countOf(slots, 'slot')}: ${whole(matches)} match, ${whole(count.mismatches)} do not, ${whole(count.unproven)} unproven${before}`;
  });
  return [
    market,
    judged.length > 0 ? judged : '  nothing is collected that could be judged',
    mismatches.map(({ intervalS, slot, tradeIds }) => {
      const what = slot.differences.map(describeDifference).join('; ');
      const ids = tradeIds === null ? '' : `; trade ids: ${tradeIds.join(', ') || 'none'}`;
      return `  MISMATCH ${formatInstant(slot.span.fromMs)} (${intervalText(intervalS)}): ${what}${ids}`;
    }),
    unproven.map(
      ({ intervalS, reason, ...span }) =>
        `  UNPROVEN ${formatSpan(span)} (${intervalText(intervalS)}): ${reason}`,
    ),
    gaps.map((gap) => `  GAP ${formatSpan(gap.span)} (${streamName(gap)}): ${gap.reason}`),
    suspects.map(
      (suspect) => `  SUSPECT ${streamName(suspect)} ${formatSpan(suspect.span)}: ${IN_FUTURE}`,
    ),
  ];
}

/** The findings for people. */
function findingLines(
  findings: readonly MarketFindings[],
  expired: Expired | null,
  isNamedTime: boolean,
  isWhole: boolean,
): Lines {
  const marketsOf = (state: ReturnType<typeof stateOf>) =>
    findings.flatMap((found) => (stateOf(found) === state ? [found.market] : [])).join(', ');
  const [unproven, unjudged] = [marketsOf('unproven'), marketsOf('unjudged')];
  const judged = findings
    .flatMap(({ counts }) => [...counts.values()])
    .reduce((sum, { slots }) => sum + slots, 0);
  const result = () => {
    if (!isWhole) return 'Interrupted: the figures above are only a part.';
    if (findings.length === 0) return 'Nothing is collected that could be verified.';
    if (unproven !== '') return `Not proven: ${unproven}.`;
    if (unjudged !== '') return undefined;
    return `Proven: candles and stored trades agree (${countOf(judged, 'slot')}).`;
  };
  const when = isNamedTime ? 'in this time' : 'so far';
  return [
    findings.map(marketLines),
    expired && `Not judged: ${expiredText(expired)}.`,
    result(),
    isWhole && unjudged !== '' && `Nothing to judge of ${unjudged} ${when}: ${NO_SLOT}.`,
  ];
}

/** The findings for programs. */
function verifyDocument(
  findings: readonly MarketFindings[],
  expired: Expired | null,
  isWhole: boolean,
) {
  return {
    isWhole,
    isProven: isWhole && findings.length > 0 && findings.every(isProven),
    expired: expired && { kind: expired.gone, until: new Date(expired.untilMs) },
    markets: findings.map((found) => ({
      market: found.market,
      isProven: isProven(found),
      intervals: [...found.counts].map(([intervalS, counts]) => ({ intervalS, ...counts })),
      mismatches: found.mismatches.map(({ intervalS, slot, tradeIds }) => ({
        ...{ intervalS, ...isoSpan(slot.span), differences: slot.differences, tradeIds },
      })),
      unproven: found.unproven.map(({ intervalS, reason, ...span }) => ({
        ...{ intervalS, ...isoSpan(span), reason },
      })),
      suspects: found.suspects.map(({ kind, variant, span }) => ({
        ...{ kind, variant, ...isoSpan(span) },
      })),
      gaps: found.gaps.map(({ kind, variant, span, state, reason, note }) => ({
        ...{ kind, variant, ...isoSpan(span), state, reason, note },
      })),
    })),
  };
}

/** One interval of one market, in whole slots. */
interface Job {
  readonly target: CheckTarget;
  readonly kline: StreamRef;
  readonly span: Span;
}

/**
 * Compares the stored trades of a time range with the stored candles and reports every mismatch. Works beside
 * a running daemon, to which it hands over the mismatches that it finds.
 */
export default command({
  options: { market: MARKETS, ...SPAN, json: JSON_DOCUMENT },
  help: `
The exchange reports trades and candles in two ways. Where the archive holds both, their sums
and prices must agree to the last digit. A slot is the time of one candle, also where no trade happened and
there is none. Without a time range all that was collected is checked, archived time too. Time before the history
of the exchange, and time that retention removed from one of the two, is named and not checked.

  tapekeep verify
  tapekeep verify --market BTC_USDT --from 2h
  tapekeep verify --from 2026-01-31 --to 2026-02-01T12:00:00Z --json

It exits with 0 only when all is proven: a mismatch, a gap, a candle that cannot be judged, or a market of
which there is nothing to judge yet makes it 6. A running daemon fetches again what does not agree, but for archived time: restore that first.`,
  needs: archive('by itself'),
  async run({ session, store, nowMs, signal }, { market, from, to, json }) {
    const targets = selectMarkets(market, await store.checks.targets(), '--market');
    const bounds = selectSpan({ from, to }, nowMs);
    const streams = selectMarkets(market, await store.inspection.streams(), '--market');
    const expired = readExpired(streams);
    // Time of which trades or candles are in files.
    const inFiles = [
      ...(await partitionSpans(store, 'trades', 'archived')),
      ...(await partitionSpans(store, 'candles', 'archived')),
    ];
    const within = { fromMs: -Infinity, toMs: Infinity, ...bounds };
    const archived = normalizeSpans(inFiles.map((span) => overlapOf(span, within)));
    const serving = archived.length > 0 ? await reachArchived(session, store) : null;
    const reach = archived.length > 0 ? 'all' : 'local';
    const asked = { store, nowMs, signal, bounds, archived, reach, expired } as const;
    const findings = await verify(asked, targets).finally(() => serving?.close());
    const isWhole = !signal.aborted;
    const shown = bounds.fromMs === undefined && expired?.isKept === true ? expired : null;
    const document = verifyDocument(findings, shown, isWhole);
    printReport(json, document, () => findingLines(findings, shown, isNamed(bounds), isWhole));
    if (!isWhole) return EXIT_CODES.forced;
    return document.isProven ? EXIT_CODES.ok : EXIT_CODES.unproven;
  },
});

const IN_FUTURE = 'covered, but in the future of the exchange clock; a running daemon revokes it';
const NO_SLOT = 'no whole slot of it is collected';
const BEFORE_HISTORY = "before the exchange's history starts";

/** Of trades or candles nothing is kept from before an instant: there the others have nothing to agree with. */
interface Expired {
  readonly gone: string;
  readonly kept: string;
  readonly untilMs: number;
  /** Whether any of the others are stored there. */
  readonly isKept: boolean;
}

/** What retention gave up, of the two the later; null where nothing was. */
function readExpired(streams: readonly KnownStream[]): Expired | null {
  const judged = streams.filter(({ kind }) => kind === 'trades' || kind === 'candles');
  const [latest] = [...expiredOf(judged)].sort(([, a], [, b]) => b - a);
  if (latest === undefined) return null;
  const [gone, untilMs] = latest;
  const others = judged.filter(({ kind }) => kind !== gone);
  const isKept = others.some(({ oldestCoveredMs: ms }) => ms !== null && ms < untilMs);
  return { gone, kept: gone === 'trades' ? 'candles' : 'trades', untilMs, isKept };
}

const expiredText = ({ gone, kept, untilMs }: Expired) =>
  `${gone} before ${formatInstant(untilMs)} are expired, so the ${kept} there cannot be compared`;

const spanOf = (expired: Expired | null): Span[] =>
  expired === null ? [] : [{ fromMs: Number.NEGATIVE_INFINITY, toMs: expired.untilMs }];

const isNamed = ({ fromMs, toMs }: Partial<Span>) => fromMs !== undefined || toMs !== undefined;

/** What all of it is judged by, and within. */
interface Asked extends Pick<Look, 'store' | 'nowMs' | 'signal'> {
  readonly bounds: Partial<Span>;
  /** Archived part of the time that was asked for. */
  readonly archived: readonly Span[];
  /** Local where none of it is. */
  readonly reach: Reach;
  readonly expired: Expired | null;
}

async function verify(asked: Asked, targets: readonly CheckTarget[]): Promise<MarketFindings[]> {
  const { store, signal } = asked;
  const work: { target: CheckTarget; jobs: readonly Job[]; found: MarketFindings }[] = [];
  const beyond = await store.beyondPresent();
  for (const target of targets) {
    const found: MarketFindings = {
      ...{ market: target.market, counts: new Map(), mismatches: [], unproven: [], gaps: [] },
      suspects: beyond.filter(({ marketId }) => marketId === target.marketId),
    };
    work.push({ target, jobs: await jobsOf(asked, target, found), found });
  }
  const slots = work
    .flatMap(({ jobs }) => jobs)
    .reduce((sum, { span, kline }) => sum + (span.toMs - span.fromMs) / (kline.variant * 1000), 0);
  using progress = new Progress('slots', slots);
  for (const { target, jobs, found } of work) {
    for (const job of jobs) await run(asked, job, found, progress);
    if (signal.aborted) break;
    const gaps = await gapsAround(asked, target, jobs);
    found.gaps = gaps.filter(({ isBeforeHistory }) => !isBeforeHistory);
  }
  return work.map(({ found }) => found);
}

async function run(
  { store, nowMs, signal, archived, reach }: Asked,
  { target, kline, span }: Job,
  found: MarketFindings,
  progress: Progress,
): Promise<void> {
  if (signal.aborted) return;
  const { market, marketId } = target;
  const intervalS = kline.variant;
  for await (const slots of checkSpanSlots(store.checks, target, kline, span, reach)) {
    const counts = countsOf(found, intervalS);
    counts.slots += slots.length;
    for (const slot of slots) {
      counts.matches += slot.outcome === 'match' ? 1 : 0;
      counts.mismatches += slot.outcome === 'mismatch' ? 1 : 0;
      if (slot.outcome === 'unproven') addUnproven(found, intervalS, slot.span, slot.reason ?? '');
      if (slot.outcome !== 'mismatch' || found.mismatches.length >= KEPT_MAX) continue;
      const isFinest = kline === target.klines[0];
      const trades = isFinest
        ? await store.storedTrades(marketId, slot.span, IDS_MAX, 'oldest', reach)
        : null;
      const tradeIds = trades?.map(({ tid }) => tid) ?? null;
      found.mismatches.push({ intervalS, slot, tradeIds });
    }
    // Rows in files cannot be fetched again.
    const open = slots.filter((slot) => !archived.some((part) => doOverlap(part, slot.span)));
    await store.checks.report(marketId, intervalS, open, nowMs);
    progress.advance(slots.length, market);
    if (signal.aborted) return;
  }
}

/** What is missing of trades and candles of a market. */
async function gapsOf(
  { store, nowMs }: Asked,
  { marketId }: CheckTarget,
  filter: Pick<GapFilter, 'reasons' | 'span'>,
): Promise<readonly Gap[]> {
  const judged = { marketIds: [marketId], kinds: ['trades', 'candles'] as const };
  return await store.listGaps({ ...judged, ...filter, limit: GAPS_MAX }, nowMs);
}

/**
 * What is to be judged of a market: the shortest candles first. What was asked for and is not
 * collected at all needs no judging slot by slot.
 */
async function jobsOf(asked: Asked, target: CheckTarget, found: MarketFindings): Promise<Job[]> {
  const { store, bounds, reach, expired } = asked;
  const jobs: Job[] = [];
  const beyond = await gapsOf(asked, target, { reasons: ['beyond history'] });
  const before = beyond.filter(({ isBeforeHistory }) => isBeforeHistory);
  for (const [index, kline] of target.klines.entries()) {
    const expected = await store.checks.expected(target, kline, reach);
    const stepMs = kline.variant * 1000;
    const never = before
      .filter(({ streamId }) => streamId === kline.streamId || streamId === target.trades?.streamId)
      .map(({ span }) => wholeSlots(span, stepMs, true));
    const possible = (span: Span) => subtractSpans(span, never);
    let spans: readonly Span[] = expected;
    if (isNamed(bounds)) {
      const fromMs = bounds.fromMs ?? expected[0]?.fromMs ?? bounds.toMs ?? 0;
      const toMs = bounds.toMs ?? expected.at(-1)?.toMs ?? fromMs;
      const named = wholeSlots({ fromMs, toMs }, stepMs, index === 0);
      const known = {
        fromMs: floorToMs(expected[0]?.fromMs ?? named.toMs, stepMs),
        toMs: ceilToMs(expected.at(-1)?.toMs ?? named.toMs, stepMs),
      };
      const gone = spanOf(expired).map((span) => wholeSlots(span, stepMs, true));
      const seen = [known, ...gone].map((span) => overlapOf(span, named));
      spans = index === 0 ? [named] : normalizeSpans(seen);
      const keep = (kept: (span: Span) => Span[], reasonOfRest: string) => {
        for (const span of spans.flatMap((one) => subtractSpans(one, kept(one)))) {
          countsOf(found, kline.variant).slots += (span.toMs - span.fromMs) / stepMs;
          addUnproven(found, kline.variant, span, reasonOfRest);
        }
        spans = spans.flatMap(kept);
      };
      if (bounds.fromMs !== undefined) {
        // What is older than that is beyond history as well.
        const toMs = Math.min(known.fromMs, Math.max(...never.map((span) => span.toMs)));
        never.push({ fromMs: Number.NEGATIVE_INFINITY, toMs });
        // Time that is named is wanted, even where it could never be had.
        keep(possible, BEFORE_HISTORY);
      }
      // Time of which the database holds nothing needs no judging slot by slot.
      if (expired !== null) keep((span) => subtractSpans(span, gone), expiredText(expired));
      keep((span) => [overlapOf(span, known)], 'nothing is collected of this time');
    }
    const judged = spans.flatMap(possible);
    const neverMs = floorToMs(totalLengthMs(spans) - totalLengthMs(judged), stepMs);
    if (neverMs > 0) countsOf(found, kline.variant).beforeHistoryS = neverMs / 1000;
    for (const span of judged) {
      const slots = wholeSlots(span, stepMs, false);
      if (!isEmptySpan(slots)) jobs.push({ target, kline, span: slots });
    }
    // Where the exchange's history begins, a slot is no whole one of those above.
    const within = { fromMs: -Infinity, toMs: Infinity, ...bounds };
    for (const span of await store.checks.contradicted(target, kline)) {
      const isIn = jobs.some((job) => job.kline === kline && holdsSpan(job.span, span));
      if (doOverlap(within, span) && !isIn) jobs.push({ target, kline, span });
    }
  }
  return jobs;
}

/** What was asked for is judged whole, by the shortest candles that touch it. */
function wholeSlots({ fromMs, toMs }: Span, stepMs: number, isOutward: boolean): Span {
  return isOutward
    ? { fromMs: floorToMs(fromMs, stepMs), toMs: ceilToMs(toMs, stepMs) }
    : { fromMs: ceilToMs(fromMs, stepMs), toMs: floorToMs(toMs, stepMs) };
}

/**
 * Gaps of the trades and candles within what was judged, with what is known of them; where nothing was, those of
 * the time that was meant, without what was not asked for yet: that is no gap.
 */
async function gapsAround(
  asked: Asked,
  target: CheckTarget,
  jobs: readonly Job[],
): Promise<readonly Gap[]> {
  const { bounds, nowMs } = asked;
  if (jobs.length > 0) {
    const gaps = await gapsOf(asked, target, { span: hullOf(jobs.map((job) => job.span)) });
    // Candles of longer intervals end where their last whole one does: what follows is not judged.
    return gaps.filter(
      ({ kind, variant, span }) =>
        kind === 'trades' ||
        jobs.some((job) => job.kline.variant === variant && doOverlap(span, job.span)),
    );
  }
  const { toMs = nowMs, fromMs = Math.min(0, toMs) } = bounds;
  return await gapsOf(asked, target, { span: { fromMs, toMs } });
}
