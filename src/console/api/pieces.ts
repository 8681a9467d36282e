import type { z } from 'zod';
import { partitionSpans } from '../../archive/sealing/plan.js';
import { type Span, subtractSpans } from '../../kernel/span.js';
import { isoMs, isoSpan } from '../../kernel/timestamp.js';
import {
  adviceOn,
  gapIdOf,
  gapOf,
  type KnownStream,
  nextTryOf,
  type Piece,
  type Surroundings,
  whyOf,
} from '../../model/explain.js';
import type { Store } from '../../store/index.js';
import type { PIECE } from './documents.js';

/** Facts beside the ledger that hold for all pieces of a stream. */
export interface PieceSurroundings extends Omit<Surroundings, 'isArchived'> {
  /** Time of the stream whose rows are in files. */
  readonly archived: readonly Span[];
}

/** Says why streams are left out by the settings; undefined: they are not. */
export type LeftOut = (
  streams: readonly Pick<KnownStream, 'market' | 'kind' | 'variant'>[],
) => string | undefined;

/** Reads the facts by which the pieces of a stream are explained. */
export async function readSurroundings(
  store: Store,
  stream: KnownStream,
  nowMs: number,
  leftOut: LeftOut,
): Promise<PieceSurroundings> {
  return {
    ...{ nowMs, isWritten: await store.inspection.isWritten(), leftOut: leftOut([stream]) },
    archived: await partitionSpans(store, stream.kind, 'archived'),
  };
}

/** Pieces may begin and end between two milliseconds. */
export const wholeSpan = ({ fromMs, toMs }: Span) =>
  isoSpan({ fromMs: Math.floor(fromMs), toMs: Math.floor(toMs) });

/** Explains a piece as answers of the API have it. Texts from outside are as they came. */
export function pieceDocument(
  stream: KnownStream,
  piece: Piece,
  { archived, ...around }: PieceSurroundings,
): z.input<typeof PIECE> {
  const { span, state, reason, note, attempts, firstSeenAtMs } = piece;
  const by = { ...around, isArchived: subtractSpans(span, archived).length === 0 };
  const gap = gapOf(piece);
  const id = gap === null ? null : gapIdOf({ ...gap, streamId: stream.streamId });
  return {
    ...{ id, ...wholeSpan(span), lengthMs: span.toMs - span.fromMs, state, reason, note, attempts },
    firstSeenAt: firstSeenAtMs === null ? null : isoMs(Math.floor(firstSeenAtMs)),
    nextTry: gap && nextTryOf(stream, gap, by),
    why: whyOf(stream, piece, by.nowMs),
    advice: adviceOn(stream, gap ?? piece, by, id ?? undefined),
  };
}
