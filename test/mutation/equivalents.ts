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
  {
    file: 'archive/row-blocks.ts',
    original: 'this.#fields.length - 1',
    replacement: 'this.#fields.length + 1',
    reason: 'which of two memories of a minute is asked, not what an instant is',
  },
  {
    file: 'archive/row-blocks.ts',
    original: 'at === this.#fields.length - 1',
    replacement: 'false',
    reason: 'which of two memories of a minute is asked, not what an instant is',
  },
  {
    file: 'store/writer/trade-columns.ts',
    original: 'last - first',
    replacement: 'last + first',
    reason: 'all times lie on the same days as the first and the last of them',
  },
  {
    file: 'store/writer/trade-columns.ts',
    original: '(this.ms[before] ?? 0) > (this.ms[number] ?? 0)',
    replacement: '(this.ms[before] ?? 0) >= (this.ms[number] ?? 0)',
    reason: 'the slower way finds the same order',
  },
  {
    file: 'store/writer/trade-rows.ts',
    original: '2 * staged.length > columns.length',
    replacement: '2 * staged.length <= columns.length',
    reason: 'only when the next group is prepared, not what is in it',
  },
];
