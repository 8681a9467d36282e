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
// What is told on the way can not be told any more: work that ends for it, a daemon's above all, is not done.
process.stderr.on('error', () => commandEnding.outputEnded('output failed'));

await runCommand(process.argv.slice(2));
