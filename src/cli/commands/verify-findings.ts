import { normalizeSpans, type Span } from '../../kernel/span.js';
import { describeDifference, type SlotVerdict } from '../../model/verdict.js';
import type { BeyondPresent, Gap } from '../../store/index.js';
import { suspectText } from '../gaps.js';
import { formatInstant } from '../options.js';

interface Counts {
  slots: number;
  matches: number;
  mismatches: number;
  unproven: number;
}

interface FoundMismatch {
  readonly intervalS: number;
  readonly slot: SlotVerdict;
  readonly tradeIds: readonly number[] | null;
}

/**
 * What verifying one market found. Counts are exact; of mismatches and unproven spans the first
 * thousand of a kind are kept, so that memory stays bounded.
 */
export class MarketFindings {
  /** Trade ids that are named for one mismatch. */
  static readonly IDS_MAX = 1000;
  static readonly GAPS_MAX = 1000;
  static readonly #KEPT_MAX = 1000;

  readonly market: string;
  readonly #finestS: number;
  readonly counts = new Map<number, Counts>();
  readonly mismatches: FoundMismatch[] = [];
  readonly #unproven = new Map<string, Span[]>();
  gaps: readonly Gap[] = [];
  /** Coverage of time that has not come yet. */
  suspects: readonly BeyondPresent[] = [];

  constructor(market: string, finestS: number) {
    this.market = market;
    this.#finestS = finestS;
  }

  isFinest(intervalS: number): boolean {
    return intervalS === this.#finestS;
  }

  /** Time that was asked for, and of which the archive holds nothing. */
  addOutside(intervalS: number, spans: readonly Span[]): void {
    const counts = this.#countsOf(intervalS);
    const reason = 'nothing is collected of this time';
    for (const span of spans) {
      const slots = (span.toMs - span.fromMs) / (intervalS * 1000);
      counts.slots += slots;
      // One call stands for all of these slots; it counts one of them itself.
      counts.unproven += slots - 1;
      this.#addUnproven(counts, intervalS, span, reason);
    }
  }

  #countsOf(intervalS: number): Counts {
    const counts = this.counts.get(intervalS) ?? {
      ...{ slots: 0, matches: 0, mismatches: 0, unproven: 0 },
    };
    this.counts.set(intervalS, counts);
    return counts;
  }

  add(intervalS: number, slots: readonly SlotVerdict[]): void {
    const counts = this.#countsOf(intervalS);
    counts.slots += slots.length;
    for (const slot of slots) {
      if (slot.outcome === 'match') counts.matches += 1;
      else if (slot.outcome === 'mismatch') this.#addMismatch(counts, intervalS, slot);
      else this.#addUnproven(counts, intervalS, slot.span, slot.reason ?? '');
    }
  }

  addTradeIds(slot: SlotVerdict, tradeIds: readonly number[]): void {
    const at = this.mismatches.findIndex((one) => one.slot === slot);
    if (at >= 0) this.mismatches[at] = { intervalS: this.#finestS, slot, tradeIds };
  }

  addGaps(gaps: readonly Gap[]): void {
    this.gaps = gaps;
  }

  /** Spans that nothing can be said of, by interval and why. */
  get unproven(): ReadonlyArray<{ intervalS: number; reason: string; span: Span }> {
    return [...this.#unproven].flatMap(([key, spans]) => {
      const [intervalS = '', reason = ''] = key.split('\n');
      return spans.map((span) => ({ intervalS: Number(intervalS), reason, span }));
    });
  }

  #addMismatch(counts: Counts, intervalS: number, slot: SlotVerdict): void {
    counts.mismatches += 1;
    if (this.mismatches.length < MarketFindings.#KEPT_MAX) {
      this.mismatches.push({ intervalS, slot, tradeIds: null });
    }
  }

  #addUnproven(counts: Counts, intervalS: number, span: Span, reason: string): void {
    counts.unproven += 1;
    const key = `${intervalS}\n${reason}`;
    const spans = this.#unproven.get(key) ?? [];
    const last = spans.at(-1);
    if (last?.toMs === span.fromMs) spans[spans.length - 1] = { ...last, toMs: span.toMs };
    else if (spans.length < MarketFindings.#KEPT_MAX) spans.push(span);
    this.#unproven.set(key, normalizeSpans(spans));
  }
}

/** Whether anything of a market is not proven. A market of which nothing was judged is not. */
export function isUnproven({ counts, gaps, suspects }: MarketFindings): boolean {
  const all = [...counts.values()];
  return (
    gaps.length > 0 ||
    suspects.length > 0 ||
    !all.some(({ slots }) => slots > 0) ||
    all.some(({ mismatches, unproven }) => mismatches > 0 || unproven > 0)
  );
}

const count = (value: number) => value.toLocaleString('en-US');
const between = ({ fromMs, toMs }: Span) => `${formatInstant(fromMs)} – ${formatInstant(toMs)}`;
const streamOf = ({ kind, variant }: Pick<Gap, 'kind' | 'variant'>) =>
  variant === 0 ? kind : `${kind} ${variant}s`;

function marketLines(found: MarketFindings): string[] {
  const lines = [...found.counts].map(
    ([intervalS, { slots, matches, mismatches, unproven }]) =>
      `  candles of ${intervalS} s: ${count(slots)} judged, ${count(matches)} match, ${count(mismatches)} do not, ${count(unproven)} unproven`,
  );
  if (lines.length === 0) lines.push('  nothing is collected that could be judged');
  for (const { intervalS, slot, tradeIds } of found.mismatches) {
    const what = slot.differences.map(describeDifference).join('; ');
    const ids = tradeIds === null ? '' : `; trade ids: ${tradeIds.join(', ') || 'none'}`;
    lines.push(`  MISMATCH ${formatInstant(slot.span.fromMs)} (${intervalS} s): ${what}${ids}`);
  }
  for (const { intervalS, reason, span } of found.unproven) {
    lines.push(`  UNPROVEN ${between(span)} (${intervalS} s): ${reason}`);
  }
  for (const gap of found.gaps) {
    lines.push(`  GAP ${between(gap.span)} (${streamOf(gap)}): ${gap.reason}`);
  }
  for (const suspect of found.suspects) {
    lines.push(`  SUSPECT ${streamOf(suspect)}: ${suspectText(suspect)}`);
  }
  return [found.market, ...lines];
}

/** The findings for people. */
export function printFindings(findings: readonly MarketFindings[], isWhole: boolean): string {
  const lines = findings.flatMap(marketLines);
  const unproven = findings.filter(isUnproven).map(({ market }) => market);
  const judged = findings
    .flatMap(({ counts }) => [...counts.values()])
    .reduce((sum, { slots }) => sum + slots, 0);
  if (!isWhole) lines.push('Interrupted: what is told above is only a part.');
  else if (findings.length === 0) lines.push('Nothing is collected that could be verified.');
  else if (unproven.length > 0) lines.push(`There is doubt about ${unproven.join(', ')}.`);
  else lines.push(`No doubt: all ${count(judged)} candles agree with the stored trades.`);
  return `${lines.join('\n')}\n`;
}

const iso = (ms: number) => new Date(ms).toISOString();
const isoSpan = ({ fromMs, toMs }: Span) => ({ from: iso(fromMs), to: iso(toMs) });

/** The findings for programs. */
export function verifyDocument(findings: readonly MarketFindings[], isWhole: boolean) {
  return {
    isWhole,
    isProven: isWhole && findings.length > 0 && !findings.some(isUnproven),
    markets: findings.map((found) => ({
      market: found.market,
      isProven: !isUnproven(found),
      intervals: [...found.counts].map(([intervalS, counts]) => ({ intervalS, ...counts })),
      mismatches: found.mismatches.map(({ intervalS, slot, tradeIds }) => ({
        ...{ intervalS, ...isoSpan(slot.span), differences: slot.differences, tradeIds },
      })),
      unproven: found.unproven.map(({ intervalS, reason, span }) => ({
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
