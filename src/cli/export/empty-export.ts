import type { MarketPart } from '../../archive/export/manifest.js';
import type { KnownStream } from '../../store/index.js';
import { formatMoment } from '../options/moments.js';
import { printable } from '../output/printable.js';

/** What a file without a row was asked for. */
interface EmptyPart extends Pick<MarketPart, 'coverage'> {
  /** What was read, in the plural. */
  readonly what: string;
  readonly market: string;
  readonly from: string;
  readonly to: string;
  /** The stream that covers it. */
  readonly streamId: number | undefined;
}

/** Why nothing was written of a market: there was nothing, or nobody has looked. */
export function emptyReason(
  { what, market, from, to, coverage, streamId }: EmptyPart,
  streams: readonly KnownStream[],
  nowMs: number,
): string {
  const name = printable(market);
  const at = (moment: string | number) => formatMoment(Math.floor(new Date(moment).getTime()));
  const span = `${at(from)} to ${at(to)}`;
  const [first] = coverage.list;
  const isWhole = coverage.count === 1 && first?.from === from && first.to === to;
  if (isWhole && new Date(to).getTime() > nowMs) {
    return `none so far: ${what} of ${name} from ${span} are covered, but that time has not come, at the exchange it is ${at(nowMs)}: a clock has lied, "tapekeep verify" names what is suspect`;
  }
  if (isWhole) return `none, because there were none: ${what} of ${name} are covered from ${span}`;
  if (coverage.count > 0) {
    return `none in what is covered of ${what} of ${name} from ${span}; "tapekeep gaps --market ${name}" tells what is missing`;
  }
  const stream = streams.find((one) => one.streamId === streamId);
  const [oldestMs, newestMs] = [stream?.oldestCoveredMs, stream?.newestCoveredMs];
  const known =
    typeof oldestMs === 'number' && typeof newestMs === 'number'
      ? `the archive covers them from ${at(oldestMs)} to ${at(newestMs)}`
      : 'the archive covers none of them at all';
  return `none, because nothing is stored of ${what} of ${name} from ${span}; ${known} ("tapekeep status" shows what it holds)`;
}
