import { decodeRow, type MergedKind, type RowOfKind } from '../../model/kinds.js';
import type { SeriesSlice } from '../../store/index.js';

/** Rows of the form `json`, piece by piece, as objects: as the database's statements would bring them. */
export async function* rowsOf<Kind extends MergedKind>(
  pieces: AsyncIterable<Buffer>,
  slice: SeriesSlice & { readonly kind: Kind },
): AsyncGenerator<RowOfKind<Kind>> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const piece of pieces) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') continue;
      const fields = JSON.parse(line) as Readonly<Record<string, unknown>>;
      yield decodeRow(slice.kind, fields, slice.marketId);
    }
  }
}
