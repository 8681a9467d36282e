import type { Span } from '../../kernel/span.js';
import type { DepartedPartition } from '../../store/index.js';
import type { ReadingPart } from './reading.js';

/** A piece of time, with the partition that holds it where that has left. */
export interface LocatedPart extends ReadingPart {
  readonly partition: DepartedPartition | undefined;
}

/**
 * Cuts a span along the partitions that have left. Partitions that were never made count as hot:
 * there are no rows of them anywhere.
 *
 * @param departed those of one table, oldest first, none overlapping another
 */
export function cutIntoParts(span: Span, departed: readonly DepartedPartition[]): LocatedPart[] {
  const parts: LocatedPart[] = [];
  const add = (fromMs: number, toMs: number, partition: DepartedPartition | undefined) => {
    if (toMs <= fromMs) return;
    const state =
      partition === undefined ? 'hot' : partition.state === 'archived' ? 'cold' : 'expired';
    parts.push({ span: { fromMs, toMs }, state, partition });
  };
  let atMs = span.fromMs;
  for (const one of departed) {
    if (one.span.toMs <= atMs) continue;
    if (one.span.fromMs >= span.toMs) break;
    add(atMs, one.span.fromMs, undefined);
    const endMs = Math.min(one.span.toMs, span.toMs);
    add(Math.max(atMs, one.span.fromMs), endMs, one);
    atMs = endMs;
  }
  add(atMs, span.toMs, undefined);
  return parts;
}

/** The same without telling partitions apart: neighbours in the same place are one part. */
export function joinParts(parts: readonly ReadingPart[]): ReadingPart[] {
  const joined: ReadingPart[] = [];
  for (const { span, state } of parts) {
    const last = joined.at(-1);
    if (last?.state === state) {
      joined[joined.length - 1] = { state, span: { fromMs: last.span.fromMs, toMs: span.toMs } };
    } else {
      joined.push({ state, span });
    }
  }
  return joined;
}
