/** Index of the first entry at or after a second, in a list that is ordered by seconds. */
export function lowerBound(list: ReadonlyArray<{ readonly tradedAtS: number }>, s: number): number {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((list[middle]?.tradedAtS ?? s) < s) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Entries of `[fromS, toS)` of a list that is ordered by seconds. */
export function between<T extends { readonly tradedAtS: number }>(
  list: readonly T[],
  fromS: number,
  toS: number,
): T[] {
  return list.slice(lowerBound(list, fromS), lowerBound(list, toS));
}
