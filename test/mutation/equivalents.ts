/** Mutants that change nothing that a caller can see, or only how long something takes. */
export const EQUIVALENTS: readonly {
  readonly file: string;
  readonly original: string;
  readonly replacement: string;
  readonly reason: string;
}[] = [];
