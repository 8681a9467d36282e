#!/usr/bin/env node
import { commandEnding } from './ending.js';

// Before anything else is loaded, which takes a while.
commandEnding.listen();
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (commandEnding.goesOnWithout('stdout', error.message)) return;
  // A reader such as `head` that has seen enough closes the pipe: no failure of ours.
  if (error.code === 'EPIPE') {
    commandEnding.outputEnded('output closed');
    return;
  }
  process.stderr.write(`tapekeep: the output cannot be written (${error.message})\n`);
  commandEnding.outputEnded('output failed');
});
// Progress cannot be written any more. Work that ends for that is not done.
process.stderr.on('error', (error) => {
  if (!commandEnding.goesOnWithout('stderr', error.message)) {
    commandEnding.outputEnded('output failed');
  }
});

const { runCommand } = await import('./run.js');
await runCommand(process.argv.slice(2));
