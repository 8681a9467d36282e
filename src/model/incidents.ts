import { obtain } from '../kernel/bounded.js';
import { MINUTE_MS } from '../kernel/durations.js';
import { hullOf, type Span } from '../kernel/span.js';
import type { KnownGap } from './explain.js';
import type { GapReason } from './gap-reasons.js';

/** Gaps of one cause and one time: a daemon that stopped leaves one in each stream. */

/** A gap, and of which stream. */
type StreamGap = Pick<KnownGap, 'span' | 'state' | 'reason' | 'note'> & {
  readonly streamId: number;
  readonly market: string;
};

export interface Incident<Gap extends StreamGap> {
  readonly cause: string;
  readonly state: Gap['state'] | 'mixed';
  readonly span: Span;
  readonly gaps: readonly Gap[];
  readonly streams: number;
  readonly markets: number;
}

/** Reasons of the gaps that a stop of the daemon leaves, by kind of stream. */
const OF_A_STOP: ReadonlySet<string> = new Set<GapReason>([
  ...(['not observed', 'no connection', 'not collected', 'head moved'] as const),
]);
/** Ends of gaps of one time differ by this at most, or by a tenth of their length. */
const APART_MS = MINUTE_MS;

/** Both are left by a stop, and by nothing else at one time without a note. */
const STOP: readonly GapReason[] = ['not observed', 'no connection'];

const isOfStop = ({ reason, note }: StreamGap) => note === null && OF_A_STOP.has(reason);

/** Groups gaps, in the order of the first of each group. */
export function incidentsOf<Gap extends StreamGap>(gaps: readonly Gap[]): Incident<Gap>[] {
  const groups: Gap[][] = [];
  const byCause = new Map<string, Gap[][]>();
  for (const gap of gaps) {
    const cause = isOfStop(gap) ? 'stop' : `${gap.state} ${gap.reason}`;
    const near = obtain(byCause, cause, () => []);
    const group = near.find(([first]) => first !== undefined && isOneTime(first.span, gap.span));
    if (group !== undefined) group.push(gap);
    else {
      const own = [gap];
      near.push(own);
      groups.push(own);
    }
  }
  return groups.flatMap((own) => {
    const isStop = STOP.every((reason) => own.some((one) => one.reason === reason));
    if (own.every(isOfStop) && isStop) return [incidentOf('daemon stopped', own)];
    const alike = new Map<string, Gap[]>();
    for (const one of own) obtain(alike, `${one.state} ${one.reason}`, () => []).push(one);
    return [...alike.values()].map((some) => incidentOf(some[0]?.reason ?? '', some));
  });
}

function incidentOf<Gap extends StreamGap>(cause: string, gaps: readonly Gap[]): Incident<Gap> {
  const [first] = gaps;
  const isAlike = gaps.every(({ state }) => state === first?.state);
  return {
    ...{ cause, gaps, span: hullOf(gaps.map(({ span }) => span)) },
    state: first !== undefined && isAlike ? first.state : 'mixed',
    streams: new Set(gaps.map(({ streamId }) => streamId)).size,
    markets: new Set(gaps.map(({ market }) => market)).size,
  };
}

function isOneTime(a: Span, b: Span): boolean {
  const longestMs = Math.max(a.toMs - a.fromMs, b.toMs - b.fromMs);
  const apartMs = Math.max(APART_MS, longestMs / 10);
  return Math.abs(a.fromMs - b.fromMs) <= apartMs && Math.abs(a.toMs - b.toMs) <= apartMs;
}
