import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import ts from 'typescript';

/** The built program. */
const BUILT = pathToFileURL(join(import.meta.dirname, '../../../dist/')).href;

const texts = new Map<string, string>();

/**
 * Arguments of Node that run a file of TypeScript as plain JavaScript, so that each process is spared the loader
 * of TypeScript. Imports of `src` are imports of the built program; nothing else of the repository may be imported.
 */
function plainArguments(path: string): string[] {
  return ['--input-type=module', '--eval', plainText(path)];
}

/** Runs such a file up to a step, at which it is killed; without a step to its end. @returns its last line */
export async function runToStep(path: string, step: string, args: string[]): Promise<string> {
  const child = spawn(process.execPath, [...plainArguments(path), ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'close');
  let last = '';
  for await (const line of createInterface({ input: child.stdout })) {
    last = line;
    if (line === `at ${step}`) child.kill('SIGKILL');
  }
  await ended;
  return last;
}

/** Starts such a file as a process that talks by messages. */
export function startPlainChild(path: string): ChildProcess {
  return spawn(process.execPath, plainArguments(path), {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: { PATH: process.env.PATH },
  });
}

/** The same as an address that `node --import` takes: it runs before a program of its own process. */
export function preloadAddress(path: string): string {
  return `data:text/javascript;base64,${Buffer.from(plainText(path)).toString('base64')}`;
}

function plainText(path: string): string {
  const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 };
  const text =
    texts.get(path) ??
    ts
      .transpileModule(readFileSync(path, 'utf8'), { compilerOptions })
      .outputText.replaceAll(/ from '(?:\.\.\/)+src\//g, ` from '${BUILT}`);
  texts.set(path, text);
  return text;
}
