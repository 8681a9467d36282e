#!/usr/bin/env node
import { CommanderError } from 'commander';
import { EXIT_CODES } from './exit-codes.js';
import { describeFailure, exitCodeOf } from './failure.js';
import { buildProgram } from './program.js';

// A reader such as `head` that has seen enough closes the pipe: no failure of ours.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(EXIT_CODES.ok);
  process.stderr.write(`tapekeep: the output can not be written (${error.message})\n`);
  process.exit(EXIT_CODES.failure);
});

const program = buildProgram((code) => {
  process.exitCode = code;
});
for (const command of [program, ...program.commands]) command.exitOverride();

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) {
    // Commander has told already what is wrong; help and version are no failures.
    process.exitCode = error.exitCode === 0 ? EXIT_CODES.ok : EXIT_CODES.usage;
  } else {
    process.stderr.write(`${describeFailure(error)}\n`);
    process.exitCode = exitCodeOf(error);
  }
}
