import type { FileHandle } from 'node:fs/promises';
import fsPromises from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';

/**
 * Preload of a program: counts the steps that change files, and ends the process before one of them,
 * as a kill or a loss of power would. `FS_STEPS=list` prints every step on stderr; `FS_STEPS=SIGKILL:7`
 * sends that signal before the seventh.
 */
const [word = '', number = ''] = (process.env.FS_STEPS ?? '').split(':');
const fatal = Number(number);
let steps = 0;

function step(name: string): void {
  steps += 1;
  if (word === 'list') process.stderr.write(`step ${steps} ${name}\n`);
  else if (steps === fatal) process.kill(process.pid, word);
}

type Call = (...args: unknown[]) => unknown;

function watch(target: object, names: readonly string[]): void {
  const held = target as Record<string, Call>;
  for (const name of names) {
    const original = held[name];
    if (original === undefined) throw new Error(`no ${name} to watch`);
    held[name] = function watched(this: unknown, ...args: unknown[]) {
      step(name);
      return original.apply(this, args);
    };
  }
}

const probe: FileHandle = await fsPromises.open(process.execPath, 'r');
watch(Object.getPrototypeOf(probe) as object, ['write', 'sync', 'writeFile']);
await probe.close();
watch(fsPromises, ['mkdtemp', 'open', 'rename', 'rm', 'mkdir', 'writeFile', 'link', 'unlink']);
syncBuiltinESMExports();
