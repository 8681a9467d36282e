import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Bench } from './report.js';

/**
 * Runs a benchmark of this folder: `npm run bench -- NAME [options]`. Prints a table and, as the
 * last line, the figures as JSON. Without a name it lists what there is.
 */
const NOT_A_BENCH: ReadonlySet<string> = new Set(['run', 'report']);

const names = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.slice(0, -'.ts'.length))
  .filter((name) => !NOT_A_BENCH.has(name))
  .sort();

async function load(name: string): Promise<Partial<Bench>> {
  const url = pathToFileURL(join(import.meta.dirname, `${name}.ts`)).href;
  return (await import(url)) as Partial<Bench>;
}

async function list(): Promise<void> {
  for (const name of names) {
    const { about, run } = await load(name);
    if (run !== undefined) process.stdout.write(`${name.padEnd(12)} ${about ?? ''}\n`);
  }
}

async function main([name, ...options]: readonly string[]): Promise<number> {
  if (name === undefined) {
    await list();
    return 0;
  }
  const bench: Partial<Bench> = names.includes(name) ? await load(name) : {};
  if (bench.run === undefined) {
    process.stderr.write(`no benchmark ${name}; without a name they are listed\n`);
    return 2;
  }
  const { table, figures } = await bench.run(options);
  process.stdout.write(`${table}\n${JSON.stringify({ bench: name, ...figures })}\n`);
  return 0;
}

process.exitCode = await main(process.argv.slice(2));
