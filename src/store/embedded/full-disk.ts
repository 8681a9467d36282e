/** What the C library says in English and Postgres passes on. */
const FULL = /No space left on device/;

/**
 * The one sentence that a full disk needs, in place of the many that a server writes about it.
 *
 * @param output what the program printed
 * @returns undefined when the disk was not what it failed for
 */
export function fullDisk(dir: string, output: string): string | undefined {
  if (!FULL.test(output)) return undefined;
  return `the disk of ${dir} is full: nothing stored is lost; make room there and start again`;
}
