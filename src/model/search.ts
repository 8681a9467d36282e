import { comparePlaces, type PageRow } from './order.js';

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
  /** The lowest row that pages above the place showed. */
  readonly lowest: PageRow | undefined;
  /** At most so many rows lie below that one: from further below nothing came. Undefined while that is not known, `MANY` once some were shown. */
  readonly unseen: number | undefined;
  readonly deep: number | undefined;
  /** Pages that the next stride goes. */
  readonly stride: number;
}

/** Rows were seen below the lowest one: no page that ends at that one is the end of history. */
const MANY = Number.POSITIVE_INFINITY;

/** Begins at an estimate, which may be off by any amount. */
export function searchFrom(skip: number): Search {
  return {
    skip: Math.max(0, skip),
    shallow: undefined,
    shallowEnd: undefined,
    shallowRows: 0,
    lowest: undefined,
    unseen: undefined,
    deep: undefined,
    stride: 1,
  };
}

/** The page of `rows` rows that was asked for, down to `oldest`, lies wholly above the place. */
export function goDeeper(from: Search, rows: number, oldest: PageRow): Search {
  const isLower = from.lowest === undefined || comparePlaces(oldest, from.lowest) < 0;
  const search = isLower ? { ...from, lowest: oldest } : from;
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
  return { ...search, skip, shallow, shallowEnd, shallowRows, deep: undefined, stride: stride * 2 };
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
    const unseen = isEmpty ? unseenAbove(search) : MANY;
    // A short page with nothing below it most likely was the last: look right below that one.
    if (isEmpty && shallowEnd !== undefined && shallowEnd < deep && shallowRows < pageRows) {
      return { ...search, deep, unseen, skip: shallowEnd };
    }
    return { ...search, deep, unseen, skip: between(shallow, deep, pageRows) };
  }
  // Without a bound above, or against it (an answer from a cache): back, by ever more.
  const isContradicted = shallow !== undefined;
  const stride = isContradicted ? 1 : search.stride;
  return { ...searchFrom(deep - pageRows * stride), deep, stride: stride * 2 };
}

/**
 * Returns true if an empty answer proves that history ends above the place: it was asked for right below a
 * page that lies above the place, and that page was the last.
 */
export function isPastTheEnd({ skip, shallowEnd }: Search): boolean {
  return shallowEnd !== undefined && skip === shallowEnd;
}

/** That a page shows the end of history, or where one is that might. */
export type EndShown = 'isEnd' | Search | undefined;

/** A page must be a quarter of the longest to show the end of history. */
const LONG_ENOUGH = 4;

/**
 * Statement of a page about the end of history while newer rows push all others down, so that no answer from right
 * below the lowest row is empty: nothing lies below where it ends at that row as another one did, and had
 * room for all that may lie there. It must be long: that a server that cuts its pages anywhere cuts
 * a long one just there is not likely.
 *
 * @param rows rows of the page, with those that cannot be read
 * @param room rows that the server sends of what it has
 * @returns the search for a page that is long enough where this one is not; undefined when it says nothing
 */
export function endShown(
  search: Search,
  { oldest, rows, room }: { oldest: PageRow; rows: number; room: number },
): EndShown {
  const { skip, lowest, unseen } = search;
  if (lowest === undefined || unseen === undefined) return undefined;
  if (comparePlaces(oldest, lowest) !== 0 || rows + unseen > room) return undefined;
  if (skip === 0 || rows * LONG_ENOUGH >= room) return 'isEnd';
  return unseen * 2 > room ? undefined : lookAbove(search, skip + rows, room);
}

/** From where a page with room for so many rows shows as many above the end of history as that leaves unseen below. */
export function lookAbove(search: Search, end: number, room: number): Search {
  return { ...search, skip: Math.max(0, end - ((room - (search.unseen ?? 0)) >> 1)) };
}

/** Rows that may lie below the lowest one where a page from `skip` is empty. */
function unseenAbove({ skip, shallowEnd, unseen }: Search): number | undefined {
  if (shallowEnd === undefined || shallowEnd >= skip || unseen === MANY) return unseen;
  return skip - shallowEnd;
}

/** A page in the middle of what is left, or the whole of it where it fits. */
function between(shallow: number, deep: number, pageRows: number): number {
  const width = deep - shallow;
  return width <= pageRows ? shallow : shallow + Math.floor((width - pageRows) / 2);
}
