/** Mutants that change nothing that a caller can see, or only how long something takes. */
export const EQUIVALENTS: readonly {
  readonly file: string;
  readonly original: string;
  readonly replacement: string;
  readonly reason: string;
}[] = [
  {
    file: 'archive/events/event-stream.ts',
    original: '{ once: true }',
    replacement: '{}',
    reason: 'a signal aborts once',
  },
  {
    file: 'archive/events/sources.ts',
    original: "kind !== 'trades' || (fromUs % SECOND_US === 0 && toUs % SECOND_US === 0)",
    replacement: "kind !== 'trades' && fromUs % SECOND_US === 0 && toUs % SECOND_US === 0",
    reason: 'rows that all lie within the span are held against it once more',
  },
  {
    file: 'sandbox/engine/level-list.ts',
    original: 'found.length >= limit',
    replacement: 'false',
    reason: 'what follows adds nothing to a full list',
  },
  {
    file: 'store/writer/trade-encoder.ts',
    original: '!hasValue || pointAt === 0 || pointAt === length - 1',
    replacement: 'true',
    reason: 'the slower way, for unusual decimals, writes the same bytes',
  },
  {
    file: 'store/writer/writer.ts',
    original: 'this.#pending.rows >= this.#options.maxGroupRows',
    replacement: 'this.#pending.rows > this.#options.maxGroupRows',
    reason: 'only when the next group is prepared, not what is in it',
  },
  {
    file: 'store/writer/session.ts',
    original: 'true',
    replacement: 'false',
    reason: 'the timer is cancelled when its try ends, and no process ends before that',
  },
];
