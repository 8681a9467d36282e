#!/usr/bin/env node
import { commandEnding } from './ending.js';
import { runCommand } from './run.js';

// A reader such as `head` that has seen enough closes the pipe: no failure of ours.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') {
    commandEnding.outputEnded('output closed');
    return;
  }
  process.stderr.write(`tapekeep: the output can not be written (${error.message})\n`);
  commandEnding.outputEnded('output failed');
});
process.stderr.on('error', (error: NodeJS.ErrnoException) => {
  commandEnding.outputEnded(error.code === 'EPIPE' ? 'output closed' : 'output failed');
});

await runCommand(process.argv.slice(2));
