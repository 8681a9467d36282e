import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { after } from 'node:test';
import type { CommandEnd, CommandOrder } from './commands-child.js';
import { startPlainChild } from './plain-child.js';

export type { CommandEnd } from './commands-child.js';

const CHILD = join(import.meta.dirname, 'commands-child.ts');

interface Waiting {
  readonly resolve: (end: CommandEnd) => void;
  readonly reject: (error: Error) => void;
}

let child: ChildProcess | undefined;
const waiting = new Map<number, Waiting>();
let lastId = 0;

/**
 * Runs a command of the built program in a process that all commands of a test file share. For what
 * only prints and ends: what a process is needed for – signals, a closed pipe, a kill – needs a
 * `Program`.
 */
export function runCommand(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<CommandEnd> {
  child ??= start();
  lastId += 1;
  const order: CommandOrder = {
    id: lastId,
    args,
    env: { PATH: process.env.PATH ?? '', ...env },
  };
  child.send(order);
  return new Promise((resolve, reject) => waiting.set(order.id, { resolve, reject }));
}

function start(): ChildProcess {
  const started = startPlainChild(CHILD);
  started.on('message', ({ id, ...end }: CommandEnd & { readonly id: number }) => {
    waiting.get(id)?.resolve(end);
    waiting.delete(id);
  });
  started.on('close', (code, signal) => {
    child = undefined;
    for (const { reject } of waiting.values()) {
      reject(new Error(`the process of the commands ended, ${code ?? signal}`));
    }
    waiting.clear();
  });
  return started;
}

after(async () => {
  if (child === undefined) return;
  const ended = once(child, 'close');
  child.kill();
  await ended;
});
