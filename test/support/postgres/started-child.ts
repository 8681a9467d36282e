import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';

const program = join(import.meta.dirname, 'postgres-child.ts');

/** The small daemon of `postgres-child.ts` as another user. */
export async function startChild(
  t: TestContext,
  dataDir: string,
  ids: { readonly uid: number; readonly gid: number },
) {
  const child = spawn(process.execPath, ['--import', 'tsx', program, dataDir], {
    ...{ ...ids, cwd: join(import.meta.dirname, '../../..'), env: { PATH: '/usr/bin:/bin' } },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  const errors: string[] = [];
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk.toString('utf8')));
  const ended = once(child, 'close');
  const [line] = (await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    ended.then(() => []),
  ])) as [string?];
  return {
    /** The first line that it prints, its address; undefined where it ended before. */
    first: line,
    errors: () => errors.join(''),
    async stop() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/** The writer of `postgres-writing-child.ts`, which prints what it has committed until it is killed. */
export function startWriter(url: string, seed: number): ChildProcess {
  const file = join(import.meta.dirname, 'postgres-writing-child.ts');
  return spawn(process.execPath, ['--import', 'tsx', file, url, String(seed)], {
    ...{ cwd: join(import.meta.dirname, '../../..'), env: { PATH: '/usr/bin:/bin' } },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}
