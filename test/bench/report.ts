/** What a benchmark found. */
export interface BenchReport {
  /** For people. */
  readonly table: string;
  /** For programs: printed with the bench's name as one line of JSON. */
  readonly figures: {
    /** Ours against a baseline measured in the same run; above 1 is better. */
    readonly ratio: Readonly<Record<string, number>>;
    readonly [name: string]: unknown;
  };
}

/** What a file of this folder exports to be a benchmark. */
export interface Bench {
  /** One line for the list. */
  readonly about: string;
  /** @param options what stands after the name on the command line */
  run(options: readonly string[]): Promise<BenchReport>;
}

/** Lays out rows in columns; the first column to the left, all others to the right. */
export function tableOf(rows: ReadonlyArray<readonly string[]>): string {
  const width = (column: number) => Math.max(...rows.map((row) => row[column]?.length ?? 0));
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) =>
        column === 0 ? cell.padEnd(width(column)) : cell.padStart(width(column)),
      )
      .join('  ');
  return rows.map(line).join('\n');
}

/** The middle one of some measurements. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[sorted.length >>> 1] ?? Number.NaN;
}
