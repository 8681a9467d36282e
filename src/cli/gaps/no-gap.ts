import type { StreamKind } from '../../model/series.js';
import type { BeyondPresent, KnownStream, Store } from '../../store/index.js';
import { streamName } from '../options/kinds.js';
import { formatMoment } from '../options/moments.js';
import { printable } from '../output/printable.js';

/** What `tapekeep backfill` calls the streams that can be fetched later. */
const FETCHED_AS: Readonly<Partial<Record<StreamKind, string>>> = {
  trades: 'trades',
  times: 'trades',
  kline: 'klines',
};

/** Why history that exists cannot be asked for. */
export const HORIZON_WHY =
  'the exchange takes since and lastId as trade ids, so that only its newest page is served';

/** What became of going on down while the start of history is not known: the rest of a sentence, or nothing. */
export function startTriesText({ startTries }: Pick<KnownStream, 'startTries'>): string {
  if (startTries === null) return '';
  const { attempts, reason, note, nextAttemptAtMs } = startTries;
  const tries = attempts === 1 ? 'the last try' : `the last ${attempts} tries`;
  const next = formatMoment(Math.floor(nextAttemptAtMs));
  return `; ${tries} led no further (${printable(reason)}: ${printable(note)}), next try at ${next}`;
}

/** What is covered beyond the exchange's present, in words. */
export function suspectText({ span }: Pick<BeyondPresent, 'span'>): string {
  const [from, to] = [span.fromMs, span.toMs].map(formatMoment);
  return `covered from ${from} to ${to}, and that time had not come at the exchange when its collector last noted it: suspect, a clock has lied; a running daemon takes it back`;
}

/**
 * Why a stream has no gap at a moment: that moment is covered, or newer than all that is collected,
 * or was never asked for. Each calls for something else.
 */
export async function whyNoGap(store: Store, stream: KnownStream, atMs: number): Promise<string> {
  const { streamId, marketId, newestCoveredMs, oldestCoveredMs, collectFromMs, kind } = stream;
  const name = `${streamName(stream)} of ${printable(stream.market)}`;
  const moment = { fromMs: atMs + 1, toMs: atMs + 1 };
  const { before } = await store.inspection.neighbours({ streamId, marketId, span: moment });
  if (before !== null && before.span.toMs > atMs) {
    const { fromMs, toMs } = before.span;
    const beyond = await store.beyondPresent();
    const future = beyond.find((one) => one.streamId === streamId && one.span.toMs > atMs);
    if (future !== undefined && future.span.fromMs <= atMs)
      return `${name}: ${suspectText(future)}`;
    return `${name}: nothing is missing there, all is covered from ${formatMoment(fromMs)} to ${formatMoment(toMs)}`;
  }
  if (newestCoveredMs !== null && atMs >= newestCoveredMs) {
    return `${name}: that is newer than all that is collected, which ends at ${formatMoment(newestCoveredMs)}; a running daemon goes on from there`;
  }
  if (oldestCoveredMs === null) return `${name}: nothing is collected yet`;
  const begin = formatMoment(oldestCoveredMs);
  if ((kind === 'trades' || kind === 'times') && collectFromMs === null) {
    return `${name}: not collected as far back as that yet; a running daemon goes on down from ${begin}${startTriesText(stream)}`;
  }
  if (stream.startReason === 'history horizon') {
    return `${name}: history before ${begin} exists and cannot be had: ${HORIZON_WHY}`;
  }
  if (stream.startReason === 'history begins') {
    return `${name}: the exchange's history begins at ${formatMoment(collectFromMs ?? oldestCoveredMs)}`;
  }
  const fetched = FETCHED_AS[kind];
  const advice =
    fetched === undefined
      ? 'it could only be seen at its moment'
      : `"tapekeep backfill --market ${printable(stream.market)} --kinds ${fetched} --from …" asks for it`;
  return `${name}: never collected of that time, collecting begins at ${formatMoment(collectFromMs ?? oldestCoveredMs)}; ${advice}`;
}
