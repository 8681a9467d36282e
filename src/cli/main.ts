#!/usr/bin/env node
import { CommanderError } from 'commander';
import { EXIT_CODES } from './exit-codes.js';
import { describeFailure, exitCodeOf } from './failure.js';
import { buildProgram } from './program.js';

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
