import {
  holdsSpan,
  hullOf,
  isEmptySpan,
  normalizeSpans,
  overlapOf,
  type Span,
  spanContains,
  subtractSpans,
  totalLengthMs,
} from '../kernel/span.js';
import { BELIEVED, contradictOf, type SaidSpans, sayOf } from './agreement.js';
import type { CandleGrid } from './candle-grid.js';
import type { GapReason } from './gap-reasons.js';

/** One response with candles, as far as it decides what is covered. */
export interface SeenCandles {
  /** When it was given at the earliest, exchange milliseconds. */
  readonly seenMs: number;
  /** Slots that were final when it was given, of those that were asked for. */
  readonly closed: Span;
  /** Candles that open from here on were not final, whatever was asked for. */
  readonly finalToMs: number;
  /** Final candles. */
  readonly rows: readonly { readonly openAtS: number }[];
  /** Open times of refused candles; undefined: it is not readable. */
  readonly refusedMs: ReadonlyArray<number | undefined>;
  /** None of them is undefined: else the response does not even say which candles are absent, and proves nothing. */
  readonly isReadable: boolean;
  /** Slots of which it speaks, in candles or in refused ones. */
  readonly heldMs: readonly number[];
  /** Slots that were asked for and of which it does not speak. */
  readonly unknown: readonly Span[];
}

/** How far back the exchange was seen to have candles, exchange milliseconds. */
export interface Reach {
  /** The greatest age at which a candle was shown lately. */
  readonly ageMs: number;
  /** When that was. What was shown long ago may be gone. */
  readonly shownAtMs: number;
  /** Start of responses without a long pause between them. */
  readonly sinceMs: number;
  readonly answeredAtMs: number;
}

/** Memory of earlier responses: it ends with the process, and then costs some requests. */
export interface CandleMemory {
  readonly reach: Reach;
  /** Slots that a response left out. */
  readonly absent: SaidSpans;
  /** Slots that it left out although trades of them are stored. */
  readonly lacked: SaidSpans;
}

/** Facts that a response is judged by. */
export interface CandleKnowledge extends CandleMemory {
  readonly grid: CandleGrid;
  readonly nowMs: number;
  /** Start of what is collected. */
  readonly beginsMs: number | null;
  /** Length of the longest question. */
  readonly pageMs: number;
  readonly covered: readonly Span[];
  /** Slots that are not asked for now. */
  readonly paused: readonly Span[];
  /** Slots whose trades are covered: they have a candle where a trade is stored, and else none. */
  readonly tradedSlots: readonly Span[];
}

/** Slots that are not covered, and what to say of them. */
export interface CandleFinding {
  readonly spans: readonly Span[];
  readonly reason: GapReason;
  readonly note?: string;
  /** Unfillable, as far as is known. */
  readonly isLost?: boolean;
}

/**
 * Slots that closed longer ago than this, or during a longer pause without responses, count as quiet only where an
 * older candle was shown since.
 */
const PAUSE_SLOTS_MAX = 10;
/** Slots after which a shown candle counts no more: an exchange that keeps so many may have fewer of that age. */
const SHOWN_SLOTS_MAX = 100;
/** Slots in one run at an end of a response that even a lively market may leave out. */
const QUIET_SLOTS_MAX = 5;

const UNANSWERED_NOTE = 'the answer names less of the time range than was asked for';
const CONTRADICTED_NOTE = 'trades of this time are stored, but the answers held no candle of it';

/** @param openMs where they begin */
const slotsOf = (openMs: readonly number[], stepMs: number): Span[] =>
  openMs.map((fromMs) => ({ fromMs, toMs: fromMs + stepMs }));

export const spanAbove = (fromMs: number): Span => ({ fromMs, toMs: Number.POSITIVE_INFINITY });

/** Learns from a response how far back the exchange has candles. Ages measured by a time that was ahead show nothing. */
export function learnReach(
  { ageMs, shownAtMs, sinceMs, answeredAtMs }: Reach,
  { rows, seenMs }: SeenCandles,
  nowMs: number,
  stepMs: number,
): Reach {
  const wasAhead = nowMs < answeredAtMs - stepMs;
  const isPause = wasAhead || nowMs - answeredAtMs > PAUSE_SLOTS_MAX * stepMs;
  const isOver = wasAhead || nowMs - shownAtMs > SHOWN_SLOTS_MAX * stepMs;
  const shownMs = Math.max(...rows.map(({ openAtS }) => seenMs - openAtS * 1000));
  const isOlder = shownMs > (isOver ? 0 : ageMs);
  return {
    ageMs: isOlder ? shownMs : isOver ? 0 : ageMs,
    shownAtMs: isOlder ? nowMs : shownAtMs,
    sinceMs: isPause ? nowMs : sinceMs,
    answeredAtMs: nowMs,
  };
}

/**
 * From here on an absent candle says something. An exchange that showed a candle of some age has those that are
 * younger; what closed just now, while it answered, was there to be shown. History may begin within the slot of the
 * first response, which then need not have that candle.
 */
export function historyFromMs({
  reach: { ageMs, sinceMs },
  grid,
  nowMs,
}: Pick<CandleKnowledge, 'reach' | 'grid' | 'nowMs'>): number {
  const attendedMs = Math.max(sinceMs, nowMs - PAUSE_SLOTS_MAX * grid.stepMs);
  return grid.ceil(Math.min(attendedMs, nowMs - ageMs));
}

/** Start of history in view of a response: the exchange has all that is younger than the oldest candle in it. */
const historyOf = (k: CandleKnowledge, { rows }: SeenCandles): number =>
  Math.min(historyFromMs(k), ...rows.map(({ openAtS }) => openAtS * 1000));

/** An end of a response that holds nothing: the market was quiet, or the response is not whole. */
export interface EmptyEnd {
  readonly span: Span;
  /**
   * Request whose response shows which it was: the run and the candle beside it, which has to
   * show up again. Its bounds are never those of the first question, so that no cache answers it.
   */
  readonly question: Span;
  /** The question, and what lies below it where candles there matter, too. */
  readonly asked: Span;
}

/**
 * The runs without a candle at either end of a response that are asked for once more before they count as quiet: long
 * ones, as a server leaves that caps its replies, or a page that was cut; and any below which no candle was shown. Of
 * these what lies below is asked for as well, as far as a page holds.
 */
function suspectEnds(answer: SeenCandles, k: CandleKnowledge): EmptyEnd[] {
  const { closed, heldMs, unknown } = answer;
  const known = [...k.covered, ...unknown, ...k.paused];
  const seen = [...known, ...(k.absent[0] ?? [])];
  const younger = spanAbove(historyOf(k, answer));
  return emptyEnds(closed, heldMs, k.grid.stepMs).flatMap(({ span, question }) => {
    const isBelow = subtractSpans(span, [younger, ...known]).length > 0;
    const whole = hullOf([span, question]);
    const lowestMs = Math.max(whole.toMs - k.pageMs, k.grid.ceil(k.beginsMs ?? whole.fromMs));
    // A question that cannot reach further down would show no more.
    if (isBelow && lowestMs < whole.fromMs) {
      return [{ span, question: whole, asked: { ...whole, fromMs: lowestMs } }];
    }
    const isLong = totalLengthMs(subtractSpans(span, seen)) > QUIET_SLOTS_MAX * k.grid.stepMs;
    return isLong ? [{ span, question, asked: question }] : [];
  });
}

/** @param heldMs open times that the response speaks of */
function emptyEnds(answered: Span, heldMs: readonly number[], stepMs: number) {
  const { fromMs, toMs } = answered;
  const inside = heldMs.filter((ms) => spanContains(answered, ms)).sort((a, b) => a - b);
  const [oldestMs, newestMs] = [inside[0], inside.at(-1)];
  if (oldestMs === undefined || newestMs === undefined) {
    return [{ span: answered, question: { fromMs, toMs: toMs - stepMs } }];
  }
  return [
    { span: { fromMs: newestMs + stepMs, toMs }, question: { fromMs: newestMs, toMs } },
    { span: { fromMs, toMs: oldestMs }, question: { fromMs, toMs: oldestMs + stepMs } },
  ].filter(({ span }) => !isEmptySpan(span));
}

/**
 * Returns what is believed of an empty end after it was asked for once more.
 *
 * Where the second response shows the candle beside the run and nothing in it, both agree: all of it is
 * quiet. Where it brings candles, or misses the one that was seen, one of the two was cut: then what
 * lies between its candles is believed, and its own empty ends are not.
 *
 * @param heldMs open times that the second response speaks of
 */
export function believedOf(
  { span, question }: Pick<EmptyEnd, 'span' | 'question'>,
  heldMs: readonly number[],
  stepMs: number,
): Span[] {
  const isFound = heldMs.some((ms) => spanContains(span, ms));
  const hasNeighbour = !holdsSpan(span, question);
  const isSeenAgain = heldMs.some((ms) => spanContains(question, ms) && !spanContains(span, ms));
  if (!isFound && isSeenAgain === hasNeighbour) return [span];
  const suspect = emptyEnds(question, heldMs, stepMs).map((end) => end.span);
  // The first response alone has spoken of what the second was not asked for.
  return subtractSpans(overlapOf(span, question), suspect);
}

/** Statement of a response about its slots, before the stored trades are looked at. */
export interface Said {
  /** Slots of which it is believed. */
  readonly spans: readonly Span[];
  /** Those of them without a candle that may be older than what the exchange has: it says nothing of them. */
  readonly older: readonly Span[];
  /** Those of them without a candle that count as quiet unless trades are stored. */
  readonly absent: readonly Span[];
  /** Slots that responses left out, with this one. */
  readonly seen: SaidSpans;
  /** To be asked once more. */
  readonly ends: readonly EmptyEnd[];
}

/**
 * Returns what a response says. That a slot has no candle takes two that agree, because a page that was cut on its way
 * looks just like a quiet market. The second one costs hardly anything: what is not covered is asked for by the next
 * poll anyway, together with the candles that closed since.
 *
 * @param end it is the second response for this end of another
 */
export function absentOf(answer: SeenCandles, k: CandleKnowledge, end?: EmptyEnd): Said {
  const { closed, heldMs, isReadable, unknown, finalToMs } = answer;
  const { stepMs } = k.grid;
  const held = slotsOf(heldMs, stepMs);
  let [seen, ends, spans]: [SaidSpans, EmptyEnd[], readonly Span[]] = [k.absent, [], []];
  if (end !== undefined) {
    // Below the question only the candles count that came.
    const below = held.filter(({ fromMs }) => fromMs < end.question.fromMs);
    const both = normalizeSpans([...believedOf(end, heldMs, stepMs), ...below]);
    spans = subtractSpans(both, [spanAbove(finalToMs), ...unknown]);
  } else if (!isReadable) {
    spans = subtractSpans(closed, unknown);
  } else {
    ends = suspectEnds(answer, k);
    const whole = subtractSpans(closed, [...ends.map(({ span }) => span), ...unknown]);
    const open = subtractSpans(whole, [...held, ...k.covered]);
    const { said, agreed } = sayOf(seen, open, BELIEVED.candleAbsent);
    // The count of slots that are believed now begins again, should they be suspect later.
    seen = contradictOf(said, [...subtractSpans(whole, open), ...agreed]);
    spans = subtractSpans(whole, subtractSpans(open, agreed));
  }
  if (!isReadable) return { spans, older: [], absent: [], seen, ends };
  const known = [spanAbove(historyOf(k, answer)), ...k.tradedSlots, ...held];
  const older = subtractSpans(spans, known);
  return {
    spans,
    older,
    absent: subtractSpans(spans, [...older, ...held, ...k.covered]),
    seen,
    ends,
  };
}

/** Open times of absent slots in which trades are stored, or whose trades cannot be looked at. */
export interface TradedSlots {
  readonly traded: readonly number[];
  /** Their trades are in files, or no longer kept. */
  readonly left: readonly number[];
}

export interface CandleJudgement {
  readonly proven: readonly Span[];
  readonly findings: readonly CandleFinding[];
  readonly next: CandleMemory;
}

/**
 * Judges a response by the stored trades: however many responses agree that a slot has no candle, they were cut if
 * something was traded in it. Where no trade is stored they stand: it was quiet, or its trades are not collected yet;
 * then verification checks the slot as soon as they are.
 *
 * Below the oldest candle that was shown lately an absent candle proves nothing: no trade, and an exchange that keeps
 * nothing as old, look the same.
 */
export function judge(
  answer: SeenCandles,
  k: CandleKnowledge,
  said: Said,
  stored: TradedSlots,
): CandleJudgement {
  const { isReadable, refusedMs, unknown } = answer;
  const { grid } = k;
  const younger = spanAbove(historyOf(k, answer));
  const contradicted = normalizeSpans(slotsOf(stored.traded, grid.stepMs));
  // Trades that are covered and cannot be looked at do not say which of these slots had any.
  const unseen = subtractSpans(slotsOf(stored.left, grid.stepMs), [younger]);
  // Candles that the exchange does not have any more never come.
  const gone = subtractSpans(contradicted, [younger]);
  const beyond = normalizeSpans([...said.older, ...unseen]);
  const believed = subtractSpans(said.spans, [...contradicted, ...beyond]);
  const proven = normalizeSpans(believed.flatMap((span) => grid.without(span, refusedMs)));
  // Slots that are read again during their pause, along with newer candles, do not count.
  const stalled = subtractSpans(contradicted, [...gone, ...k.paused]);
  const settled = isReadable ? subtractSpans(said.spans, contradicted) : [];
  const { said: lacked, agreed } = sayOf(
    contradictOf(k.lacked, settled),
    stalled,
    BELIEVED.candleOfTrades,
  );
  const note = CONTRADICTED_NOTE;
  const findings: CandleFinding[] = [
    { spans: subtractSpans(believed, proven), reason: 'refused rows' },
    { spans: unknown, reason: 'walk stalled', note: UNANSWERED_NOTE },
    { spans: normalizeSpans([...beyond, ...gone]), reason: 'beyond history', isLost: true },
    { spans: subtractSpans(stalled, agreed), reason: 'walk stalled', note },
    { spans: agreed, reason: 'walk stalled', note, isLost: true },
  ];
  return { proven, findings, next: { reach: k.reach, absent: said.seen, lacked } };
}
