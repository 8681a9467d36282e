import { CommanderError } from 'commander';
import { commandEnding, EndedError, endSoon } from './ending.js';
import { describeFailure, EXIT_CODES, type ExitCode, exitCodeOf } from './failure.js';
import { buildProgram } from './program.js';
import { StuckStatementError } from './query/time-limit.js';

/** As in package.json. Older ones fail in the middle of a command, in words that name no cause. */
const LEAST_NODE = [20, 19] as const;

/** What is wrong with a version of Node; null when nothing is. */
export function nodeFault(version: string): string | null {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [leastMajor, leastMinor] = LEAST_NODE;
  if (major > leastMajor || (major === leastMajor && minor >= leastMinor)) return null;
  return `tapekeep: this is Node ${version}, and Node ${LEAST_NODE.join('.')} or newer is needed`;
}

/**
 * Runs the command that the arguments name. Nothing is thrown: what went wrong is printed on standard
 * error, and by the exit code that is set for the process.
 *
 * @param args without the program's own name
 */
export async function runCommand(args: readonly string[]): Promise<void> {
  let code: ExitCode = EXIT_CODES.ok;
  const fault = nodeFault(process.versions.node);
  if (fault !== null) {
    process.stderr.write(`${fault}\n`);
    process.exitCode = EXIT_CODES.failure;
    return;
  }
  const program = buildProgram((given) => {
    code = given;
  });
  try {
    await program.parseAsync(withStatements(args), { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) {
      // Commander has printed what is wrong; help and version are no failures.
      code = error.exitCode === 0 ? EXIT_CODES.ok : EXIT_CODES.usage;
    } else if (error instanceof EndedError || commandEnding.outputCode !== undefined) {
      // Failures after the output was closed are caused by that.
      code = EXIT_CODES.forced;
    } else {
      process.stderr.write(`${describeFailure(error)}\n`);
      code = exitCodeOf(error);
      // An exit in order would wait for the thread on which the statement runs.
      if (error instanceof StuckStatementError) process.kill(process.pid, 'SIGKILL');
    }
  }
  if (code === EXIT_CODES.forced) endSoon();
  process.exitCode = afterOutput(code);
}

/** A command that was ended because its reader has seen enough did well; what it found out stays. */
function afterOutput(code: ExitCode): ExitCode {
  const { outputCode } = commandEnding;
  if (outputCode === undefined) return code;
  return outputCode === EXIT_CODES.ok && code !== EXIT_CODES.forced ? code : outputCode;
}

/** A name of an option, with or without its value. */
const OPTION = /^--[a-z][a-z-]*(?:=.*)?$/s;

/**
 * The arguments, with statements that begin with a comment of SQL (`-- …`) escaped from option parsing: they
 * get a space before them. An option has no white space in its name, and a comment that has none is no
 * statement.
 */
export function withStatements(args: readonly string[]): string[] {
  if (!args.includes('query')) return [...args];
  return args.map((one) =>
    one.startsWith('--') && /\s/.test(one) && !OPTION.test(one) ? ` ${one}` : one,
  );
}
