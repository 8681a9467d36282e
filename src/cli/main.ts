#!/usr/bin/env node
import { EXIT_CODES } from './exit-codes.js';
import { runCommand } from './run.js';

// A reader such as `head` that has seen enough closes the pipe: no failure of ours.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(EXIT_CODES.ok);
  process.stderr.write(`tapekeep: the output can not be written (${error.message})\n`);
  process.exit(EXIT_CODES.failure);
});

await runCommand(process.argv.slice(2));
