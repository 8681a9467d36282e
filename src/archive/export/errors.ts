import { codeOf, messageOf, TapekeepError } from '../../kernel/errors.js';
import type { SeriesGaps } from './manifest.js';

/** Rows are not written because some of the span is not proven complete. Nothing was written. */
export class ExportGapsError extends TapekeepError {
  readonly gaps: readonly SeriesGaps[];

  constructor(gaps: readonly SeriesGaps[]) {
    const names = [...new Set(gaps.map(({ market }) => market))].join(', ');
    super('export_gaps', 'fatal', `the span is not complete for ${names}; nothing was written`);
    this.gaps = gaps;
  }
}

/** The place to write to cannot be used. */
export class OutputError extends TapekeepError {
  constructor(path: string, advice: string, cause?: unknown) {
    super('output_refused', 'fatal', `cannot write ${path}: ${advice}`, { cause });
  }
}

/** The disk is full. What was begun is taken away. */
export class DiskFullError extends TapekeepError {
  constructor(path: string, cause: unknown) {
    super(
      'disk_full',
      'retry',
      `no space is left for ${path}; nothing was left behind there. Free some, choose another place with --out, or a shorter span`,
      { cause },
    );
  }
}

const FULL_CODES: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT']);

/** Names a full disk as such, however it is told; other errors stay as they are. */
export function asDiskFull(error: unknown, path: string): unknown {
  const isFull = FULL_CODES.has(codeOf(error)) || /No space left on device/i.test(messageOf(error));
  return isFull && !(error instanceof DiskFullError) ? new DiskFullError(path, error) : error;
}
