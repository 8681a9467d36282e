/** A source of numbers in `[0, 1)`. Passed as a parameter so that a seed replays a run. */
export type Random = () => number;

/** Randomness for production use, where nothing needs to be replayed. */
export const systemRandom: Random = () => Math.random();

/**
 * A small, fast, seeded generator (mulberry32): good enough for jitter and simulated flow, never
 * for secrets. The same seed gives the same sequence on every machine.
 */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A well-mixed 32-bit hash of a text (FNV-1a), to derive seeds and stable phases from names. */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  return hash >>> 0;
}
