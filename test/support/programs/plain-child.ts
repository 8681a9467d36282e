import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import ts from 'typescript';

/** The built program. */
const BUILT = pathToFileURL(join(import.meta.dirname, '../../../dist/')).href;

const texts = new Map<string, string>();

/**
 * What Node is started with to run a file of TypeScript as plain JavaScript, so that each process is spared
 * the loader of TypeScript; therefore it imports nothing but types, and the built program by its address,
 * which is its first argument.
 */
export function plainArguments(path: string): string[] {
  return ['--input-type=module', '--eval', plainText(path), BUILT];
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
    ts.transpileModule(readFileSync(path, 'utf8'), { compilerOptions }).outputText;
  texts.set(path, text);
  return text;
}
