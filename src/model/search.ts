/**
 * Finding a place in a history that can only be read by skipping newest rows, and that moves
 * meanwhile: strides that double until the place is overshot, then halves. Pure, no I/O.
 *
 * New rows push old ones deeper, never up. So what was too shallow once stays too shallow, and is
 * kept for good; what was too deep may not be any more, and is only a hint.
 */
export interface Search {
  /** Rows to skip in the next request. */
  readonly skip: number;
  /** Nothing above this depth is what is looked for. Undefined while no page was too shallow. */
  readonly shallow: number | undefined;
  /** End of the deepest page that was too shallow: history goes on below it, or ends there. */
  readonly shallowEnd: number | undefined;
  /** Rows of that page. */
  readonly shallowRows: number;
  readonly deep: number | undefined;
  /** Pages that the next stride goes. */
  readonly stride: number;
}

/** Begins at an estimate, which may be off by any amount. */
export function searchFrom(skip: number): Search {
  return {
    skip: Math.max(0, skip),
    shallow: undefined,
    shallowEnd: undefined,
    shallowRows: 0,
    deep: undefined,
    stride: 1,
  };
}

/** The page of `rows` rows that was asked for lies wholly above the place. */
export function goDeeper(search: Search, rows: number): Search {
  // The last row is asked for once more, so that nothing can hide between two pages.
  const page = Math.max(1, rows - 1);
  const shallow = Math.max(search.skip + page, search.shallow ?? 0);
  const shallowEnd = Math.max(search.skip + rows, search.shallowEnd ?? 0);
  const shallowRows = shallowEnd === search.skip + rows ? rows : search.shallowRows;
  const { deep } = search;
  if (deep !== undefined && deep > shallow) {
    return { ...search, shallow, shallowEnd, shallowRows, skip: between(shallow, deep, rows) };
  }
  // The head moved on: what was too deep no longer is.
  const stride = deep === undefined ? search.stride : 1;
  const skip = Math.max(shallow, search.skip + page * stride);
  return { skip, shallow, shallowEnd, shallowRows, deep: undefined, stride: stride * 2 };
}

/**
 * The page that was asked for lies wholly below the place, or beyond the end of history.
 *
 * @param pageRows rows that a page of this server holds
 * @param isEmpty nothing came at all: history ends above the page
 */
export function goShallower(search: Search, pageRows: number, isEmpty = false): Search {
  const { skip: deep, shallow, shallowEnd, shallowRows } = search;
  if (shallow !== undefined && shallow < deep) {
    // A short page with nothing below it most likely was the last: look right below that one.
    if (isEmpty && shallowEnd !== undefined && shallowEnd < deep && shallowRows < pageRows) {
      return { ...search, deep, skip: shallowEnd };
    }
    return { ...search, deep, skip: between(shallow, deep, pageRows) };
  }
  // Without a bound above, or against it (an answer from a cache): back, by ever more.
  const isContradicted = shallow !== undefined;
  const stride = isContradicted ? 1 : search.stride;
  return {
    skip: Math.max(0, deep - pageRows * stride),
    shallow: undefined,
    shallowEnd: undefined,
    shallowRows: 0,
    deep,
    stride: stride * 2,
  };
}

/**
 * Whether an empty answer proves that history ends above the place: it was asked for right below a
 * page that lies above the place, and that page was the last.
 */
export function isPastTheEnd({ skip, shallowEnd }: Search): boolean {
  return shallowEnd !== undefined && skip === shallowEnd;
}

/** A page in the middle of what is left, or the whole of it where it fits. */
function between(shallow: number, deep: number, pageRows: number): number {
  const width = deep - shallow;
  return width <= pageRows ? shallow : shallow + Math.floor((width - pageRows) / 2);
}
