import { CommanderError } from 'commander';
import { EXIT_CODES } from './exit-codes.js';
import { describeFailure, exitCodeOf } from './failure.js';
import { buildProgram } from './program.js';
import { withStatements } from './query/statement-argument.js';

/**
 * Runs the command that the arguments name. Nothing is thrown: what went wrong is told on standard
 * error, and by the exit code that is set for the process.
 *
 * @param args without the program's own name
 */
export async function runCommand(args: readonly string[]): Promise<void> {
  const program = buildProgram((code) => {
    process.exitCode = code;
  });
  for (const command of [program, ...program.commands]) command.exitOverride();
  try {
    await program.parseAsync(withStatements(args), { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) {
      // Commander has told already what is wrong; help and version are no failures.
      process.exitCode = error.exitCode === 0 ? EXIT_CODES.ok : EXIT_CODES.usage;
    } else {
      process.stderr.write(`${describeFailure(error)}\n`);
      process.exitCode = exitCodeOf(error);
    }
  }
}
