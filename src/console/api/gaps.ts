import type { z } from 'zod';
import { obtain } from '../../kernel/bounded.js';
import { isoMs, isoSpan } from '../../kernel/timestamp.js';
import {
  gapIdOf,
  isPartOfHistory,
  type KnownStream,
  type Piece,
  startText,
} from '../../model/explain.js';
import type { Incident } from '../../model/incidents.js';
import type { Gap, Store } from '../../store/index.js';
import type { GAP, GAPS, INCIDENT, PIECE, STREAM_PIECES } from './documents.js';
import {
  type LeftOut,
  type PieceSurroundings,
  pieceDocument,
  readSurroundings,
  wholeSpan,
} from './pieces.js';
import { allPieces, type NamedGap, type SelectedGaps } from './selection.js';

/** Documents about gaps, as commands and the API print them. */

export type StreamPieces = z.input<typeof STREAM_PIECES>;
export type PieceDocument = z.input<typeof PIECE>;

/** One gap for programs. */
export function gapDocument(gap: Gap): z.input<typeof GAP> {
  const { market, kind, variant, span, state, reason, attempts, note } = gap;
  const { firstSeenAtMs, nextAttemptAtMs, isBeforeHistory } = gap;
  return {
    ...{ id: gapIdOf(gap), market, kind, variant, ...isoSpan(span) },
    ...{ lengthMs: span.toMs - span.fromMs, state, reason, isBeforeHistory, attempts },
    firstSeenAt: firstSeenAtMs === null ? null : isoMs(firstSeenAtMs),
    nextAttemptAt: nextAttemptAtMs === null ? null : isoMs(nextAttemptAtMs),
    note,
  };
}

/** Time of gaps by state and reason, the longest first. */
export function gapSums(gaps: readonly Gap[]) {
  type Sum = { state: string; reason: string; count: number; lengthMs: number };
  const sums = new Map<string, Sum>();
  for (const { state, reason, span } of gaps) {
    const none = () => ({ state, reason, count: 0, lengthMs: 0 });
    const sum = obtain(sums, `${state} ${reason}`, none);
    sum.count += 1;
    sum.lengthMs += span.toMs - span.fromMs;
  }
  return [...sums.values()].sort((a, b) => b.lengthMs - a.lengthMs);
}

/** Kinds of streams of which something from `fromMs` on is expired, with until when. */
export function expiredOf(
  streams: readonly (Pick<KnownStream, 'expiredUntilMs'> & { readonly kind: string })[],
  fromMs = Number.NEGATIVE_INFINITY,
): readonly (readonly [kind: string, untilMs: number])[] {
  const found = streams.flatMap(({ kind, expiredUntilMs: ms }) =>
    ms !== null && fromMs < ms ? [[kind, ms] as const] : [],
  );
  return [...new Map(found)];
}

/** Gaps that are looked at for the sums, beyond those that are listed. */
export const SUMMED_MAX = 5000;

/** List of gaps for programs. @param limit most gaps in the list */
export function gapsDocument(
  { gaps, isAll, streams, cutTo }: SelectedGaps,
  at: { readonly nowMs: number; readonly isWritten: boolean; readonly isCollecting: boolean },
  limit: number,
): z.input<typeof GAPS> {
  const { nowMs, isWritten, isCollecting } = at;
  return {
    at: isoMs(nowMs),
    ...{ isWritten, isCollecting },
    cutTo: cutTo === undefined ? null : isoSpan(cutTo),
    gaps: gaps.slice(0, limit).map(gapDocument),
    sums: gapSums(gaps),
    isSumOfAll: isAll,
    historyNotReached: streams.filter(isPartOfHistory).map((stream) => ({
      ...{ market: stream.market, kind: stream.kind, startReason: stream.startReason },
      why: startText(stream, nowMs),
    })),
    expired: expiredOf(streams, cutTo?.fromMs).map(([kind, untilMs]) => ({
      ...{ kind, until: isoMs(untilMs) },
    })),
  };
}

/** Ids that an incident names. */
const NAMED_MAX = 100;

/** Gaps of one cause and one time, for programs. */
export function incidentDocument(incident: Incident<Gap>): z.input<typeof INCIDENT> {
  const { cause, state, span, gaps, streams, markets } = incident;
  return {
    ...{ cause, state, ...isoSpan(span), lengthMs: span.toMs - span.fromMs, streams, markets },
    gapIds: gaps.slice(0, NAMED_MAX).map(gapIdOf),
  };
}

const besideOf = (piece: Piece | undefined) =>
  piece === undefined ? null : { state: piece.state, ...wholeSpan(piece.span) };

/**
 * Pieces of a stream that are meant, each with what lies beside it.
 *
 * @param limit most pieces
 */
export function streamPieces(
  stream: KnownStream,
  pieces: readonly Piece[],
  isMeant: (piece: Piece) => boolean,
  around: PieceSurroundings,
  limit: number,
): StreamPieces {
  const { market, kind, variant } = stream;
  const meant = [...pieces.entries()].filter(([, piece]) => isMeant(piece));
  return {
    ...{ market, kind, variant, isCut: meant.length > limit },
    pieces: meant.slice(0, limit).map(([at, piece]) => ({
      ...pieceDocument(stream, piece, around),
      before: besideOf(pieces[at - 1]),
      after: besideOf(pieces[at + 1]),
    })),
  };
}

/** Pieces of one gap that are explained. */
export const EXPLAINED_MAX = 10;

/** Explains a gap that was named; one that is filled is one piece. */
export async function explainGap(
  store: Store,
  { stream, gaps, memory }: NamedGap,
  nowMs: number,
  leftOut: LeftOut,
): Promise<StreamPieces> {
  const { market, kind, variant } = stream;
  if (gaps.length === 0 && memory !== null) {
    const { span, reason, note, attempts, gapId, firstSeenAtMs } = memory;
    const filled = {
      ...{ id: String(gapId), ...wholeSpan(span), lengthMs: span.toMs - span.fromMs },
      ...{ state: 'filled', reason, note, attempts, nextTry: null, advice: null },
      ...{ firstSeenAt: isoMs(firstSeenAtMs), why: 'Filled: nothing of it is missing.' },
    };
    return { market, kind, variant, pieces: [filled], isCut: false };
  }
  const pieces = await allPieces(store, stream, nowMs, nowMs);
  const starts = new Set(gaps.map(({ span }) => span.fromMs));
  const around = await readSurroundings(store, stream, nowMs, leftOut);
  return streamPieces(stream, pieces, ({ span }) => starts.has(span.fromMs), around, EXPLAINED_MAX);
}
