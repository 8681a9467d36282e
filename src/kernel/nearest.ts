/** Edit distance of two texts (insert, delete, replace a character), case ignored. */
function editDistance(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let i = 1; i <= left.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= right.length; j += 1) {
      const replaced = (row[j - 1] ?? 0) + (left[i - 1] === right[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[right.length] ?? 0;
}

/** Names longer than this are not compared: the work would be the writer's to choose. */
const MAX_COMPARED_LENGTH = 120;

/** The known name that most resembles `name`, or undefined when none comes near. */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  if (name.length > MAX_COMPARED_LENGTH) return undefined;
  let best: { name: string; distance: number } | undefined;
  for (const candidate of known) {
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (best === undefined || distance < best.distance) best = { name: candidate, distance };
  }
  const isNear = best !== undefined && best.distance <= Math.max(2, Math.ceil(name.length / 3));
  return isNear ? best?.name : undefined;
}
