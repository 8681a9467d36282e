import { ExportGapsError } from '../../archive/export/errors.js';
import { isAborted } from '../../kernel/errors.js';
import { commandEnding } from '../ending.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';
import { gapLines } from './export-gaps.js';

/**
 * Exports until done or told to stop. Gaps, and being stopped, have exit codes of their own.
 *
 * @param left what a person is told of the files when it was stopped
 */
export async function untilStopped(
  left: string | (() => string),
  work: (signal: AbortSignal) => Promise<void>,
): Promise<ExitCode> {
  using ending = commandEnding.hold();
  try {
    await work(ending.signal);
    return EXIT_CODES.ok;
  } catch (error) {
    if (commandEnding.outputCode !== undefined) throw error;
    if (ending.signal.aborted && isAborted(error)) {
      process.stderr.write(`tapekeep: stopped; ${typeof left === 'string' ? left : left()}\n`);
      return EXIT_CODES.forced;
    }
    if (!(error instanceof ExportGapsError)) throw error;
    process.stderr.write(`${gapLines(error).join('\n')}\n`);
    return EXIT_CODES.gaps;
  }
}
