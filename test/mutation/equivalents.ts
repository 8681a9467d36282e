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
];
