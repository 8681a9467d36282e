import { isoMs } from '../../../kernel/timestamp.js';
import type { KnownStream } from '../../../model/explain.js';
import { incidentsOf } from '../../../model/incidents.js';
import type { StreamKind } from '../../../model/series.js';
import type { Store } from '../../../store/index.js';
import type { Handlers } from '../endpoints.js';
import { explainGap, gapsDocument, incidentDocument, SUMMED_MAX, streamPieces } from '../gaps.js';
import { type LeftOut, readSurroundings } from '../pieces.js';
import {
  findGaps,
  type GapQuestion,
  marketsOf,
  selectGaps,
  selectMarkets,
  spanOf,
} from '../selection.js';

/** Needs of the answers about gaps and coverage. */
export interface GapDeps {
  /** The archive. @throws TapekeepError while it is not open */
  readonly store: () => Store;
  /** Exchange time. */
  readonly nowMs: () => number;
  readonly leftOut: LeftOut;
}

/** Pieces of one stream in one answer. */
const PIECES_MAX = 2000;
/** Gaps that incidents are made of. */
const INCIDENT_GAPS_MAX = 5000;

/** Fields of a request that select gaps. */
export interface GapInput {
  readonly market?: readonly string[] | undefined;
  readonly kind?: readonly StreamKind[] | undefined;
  readonly state?: GapQuestion['states'];
  readonly reason?: readonly string[] | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** The question that the fields of a request ask. @throws UsageError */
export function questionOf(input: GapInput, nowMs: number): GapQuestion {
  const { market: markets, kind: kinds, state: states, reason: reasons } = input;
  return { markets, kinds, states, reasons, bounds: spanOf(input, nowMs) };
}

/** Answers about gaps and coverage. */
export function gapHandlers({
  store: open,
  nowMs: now,
  leftOut,
}: GapDeps): Pick<Handlers, 'gaps' | 'gap' | 'coverage' | 'incidents'> {
  const select = async (input: GapInput, nowMs: number, limit: number) =>
    await selectGaps(open(), questionOf(input, nowMs), nowMs, limit);

  return {
    async gaps({ limit, ...input }, signal) {
      const { inspection } = open();
      const nowMs = now();
      const found = await select(input, nowMs, Math.max(limit, SUMMED_MAX));
      signal.throwIfAborted();
      const isWritten = await inspection.isWritten();
      const isCollecting = await inspection.isCollecting();
      return gapsDocument(found, { nowMs, isWritten, isCollecting }, limit);
    },

    async gap({ id }, signal) {
      const nowMs = now();
      const streams = [];
      for (const named of await findGaps(open(), [id], nowMs, 'id', signal)) {
        streams.push(await explainGap(open(), named, nowMs, leftOut));
      }
      return { at: isoMs(nowMs), streams };
    },

    async coverage({ market, kind: kinds, ...bounds }, signal) {
      const store = open();
      const nowMs = now();
      const { fromMs = 0, toMs = nowMs } = spanOf(bounds, nowMs);
      const known = await store.inspection.streams();
      const [chosen] = selectMarkets([market], marketsOf(known), 'market');
      const isMeant = ({ marketId, kind }: KnownStream) =>
        marketId === chosen?.marketId && (kinds?.includes(kind) ?? true);
      const streams = [];
      for (const stream of known.filter(isMeant)) {
        signal.throwIfAborted();
        const pieces = await store.inspection.pieces(stream, { fromMs, toMs }, nowMs);
        const around = await readSurroundings(store, stream, nowMs, leftOut);
        streams.push(streamPieces(stream, pieces, () => true, around, PIECES_MAX));
      }
      return { at: isoMs(nowMs), streams };
    },

    async incidents({ limit, ...input }, signal) {
      const nowMs = now();
      const { gaps, isAll } = await select(input, nowMs, INCIDENT_GAPS_MAX);
      signal.throwIfAborted();
      // Time before the exchange's history is no incident.
      const all = incidentsOf(gaps.filter(({ isBeforeHistory }) => !isBeforeHistory));
      return {
        at: isoMs(nowMs),
        incidents: all.slice(0, limit).map(incidentDocument),
        isAll: isAll && all.length <= limit,
      };
    },
  };
}
