/**
 * Edit distance of two texts (insert, delete, replace a character, or swap two neighbours), case ignored by
 * its caller.
 */
function editDistance(left: string, right: string): number {
  let before: number[] = [];
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let i = 1; i <= left.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= right.length; j += 1) {
      const replaced = (row[j - 1] ?? 0) + (left[i - 1] === right[j - 1] ? 0 : 1);
      // The column before a text is no letter of the other.
      const isSwap = left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1];
      const swapped = isSwap ? (before[j - 2] ?? 0) + 1 : replaced;
      next.push(Math.min(replaced, swapped, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    [before, row] = [row, next];
  }
  return row[right.length] ?? 0;
}

/** Names longer than this are not compared: the work would be the writer's to choose. */
const MAX_COMPARED_LENGTH = 120;

/**
 * The known name that most resembles `name`, or undefined when none comes near: a quarter of what differs
 * after the words (`exchange.`, `TAPEKEEP_`) that both begin with.
 */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  if (name.length > MAX_COMPARED_LENGTH) return undefined;
  let best: { name: string; distance: number } | undefined;
  for (const candidate of known) {
    const shared = sharedWords(name.toLowerCase(), candidate.toLowerCase());
    const rest = name.slice(shared).toLowerCase();
    const distance = editDistance(rest, candidate.slice(shared).toLowerCase());
    if (distance > Math.ceil(rest.length / 4)) continue;
    if (best === undefined || distance < best.distance) best = { name: candidate, distance };
  }
  return best?.name;
}

/** Length of the words that both texts begin with, each with the sign after it. */
function sharedWords(left: string, right: string): number {
  let length = 0;
  for (let at = 0; at < left.length && left[at] === right[at]; at += 1) {
    if (left[at] === '.' || left[at] === '_') length = at + 1;
  }
  return length;
}
