import { MINUTE_MS } from '../kernel/durations.js';
import { hullOf, type Span } from '../kernel/span.js';
import type { KnownGap } from './explain.js';
import type { GapReason } from './gap-reasons.js';

/** Gaps of one cause and one time: a daemon that stopped leaves one in each stream. */

/** A gap, and of which stream. */
type StreamGap = Pick<KnownGap, 'span' | 'state' | 'reason' | 'note'> & { readonly market: string };

export interface Incident<Gap extends StreamGap> {
  readonly cause: string;
  readonly state: Gap['state'] | 'mixed';
  readonly span: Span;
  readonly gaps: readonly Gap[];
}

/** What a stop of the daemon leaves, by kind of stream. */
const OF_A_STOP: ReadonlySet<string> = new Set<GapReason>([
  ...(['not observed', 'no connection', 'not collected', 'head moved'] as const),
]);
/** Ends of gaps of one time differ by this at most, or by a tenth of their length. */
const APART_MS = MINUTE_MS;

const UNSEEN: GapReason = 'not observed';

const isOfStop = ({ reason, note }: StreamGap) => note === null && OF_A_STOP.has(reason);

/** Groups gaps, in the order of the first of each group. */
export function incidentsOf<Gap extends StreamGap>(gaps: readonly Gap[]): Incident<Gap>[] {
  const groups: Gap[][] = [];
  const byCause = new Map<string, Gap[][]>();
  for (const gap of gaps) {
    const cause = isOfStop(gap) ? 'stop' : `${gap.state} ${gap.reason}`;
    const near = byCause.get(cause) ?? [];
    byCause.set(cause, near);
    const group = near.find(([first]) => first !== undefined && isOneTime(first.span, gap.span));
    if (group !== undefined) group.push(gap);
    else {
      const own = [gap];
      near.push(own);
      groups.push(own);
    }
  }
  return groups.map((own) => {
    const [first] = own as [Gap, ...Gap[]];
    const isStop = own.length > 1 && own.some((one) => isOfStop(one) && one.reason === UNSEEN);
    const isAlike = own.every(({ state }) => state === first.state);
    return {
      cause: isStop ? 'daemon stopped' : first.reason,
      state: isAlike ? first.state : 'mixed',
      span: hullOf(own.map(({ span }) => span)),
      gaps: own,
    };
  });
}

function isOneTime(a: Span, b: Span): boolean {
  const longestMs = Math.max(a.toMs - a.fromMs, b.toMs - b.fromMs);
  const apartMs = Math.max(APART_MS, longestMs / 10);
  return Math.abs(a.fromMs - b.fromMs) <= apartMs && Math.abs(a.toMs - b.toMs) <= apartMs;
}
