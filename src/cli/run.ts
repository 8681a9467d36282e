import { CommanderError } from 'commander';
import { systemClock } from '../kernel/clock.js';
import { commandEnding, EndedError } from './ending.js';
import { EXIT_CODES, type ExitCode } from './exit-codes.js';
import { describeFailure, exitCodeOf } from './failure.js';
import { buildProgram } from './program.js';
import { withStatements } from './query/statement-argument.js';
import { StuckStatementError } from './query/time-limit.js';

/** Work that was cut off keeps the process no longer than this. */
const LEFTOVER_MS = 500;

/**
 * Runs the command that the arguments name. Nothing is thrown: what went wrong is told on standard
 * error, and by the exit code that is set for the process.
 *
 * @param args without the program's own name
 */
export async function runCommand(args: readonly string[]): Promise<void> {
  let code: ExitCode = EXIT_CODES.ok;
  const program = buildProgram((given) => {
    code = given;
  });
  for (const command of [program, ...program.commands]) command.exitOverride();
  try {
    await program.parseAsync(withStatements(args), { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) {
      // Commander has told already what is wrong; help and version are no failures.
      code = error.exitCode === 0 ? EXIT_CODES.ok : EXIT_CODES.usage;
    } else if (error instanceof EndedError || commandEnding.outputCode !== undefined) {
      // What fails once nobody reads the answer, fails because it was cut off.
      code = EXIT_CODES.forced;
    } else {
      process.stderr.write(`${describeFailure(error)}\n`);
      code = exitCodeOf(error);
      // An exit in order would wait for the thread on which the statement runs.
      if (error instanceof StuckStatementError) process.kill(process.pid, 'SIGKILL');
    }
  }
  if (code === EXIT_CODES.forced) {
    systemClock.after(LEFTOVER_MS, () => process.exit(), { background: true });
  }
  process.exitCode = afterOutput(code);
}

/** A command that was ended because its reader has seen enough did well; what it found out stays. */
function afterOutput(code: ExitCode): ExitCode {
  const { outputCode } = commandEnding;
  if (outputCode === undefined) return code;
  return outputCode === EXIT_CODES.ok && code !== EXIT_CODES.forced ? code : outputCode;
}
