import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { delimiter, join } from 'node:path';
import type { TestContext } from 'node:test';
import { isThere } from '../../../src/kernel/folders.js';
import { makeFolder } from '../worlds/export-world.js';

/** Credentials of the stores of tests; the SDK finds them in the environment. */
export const CREDENTIALS = {
  ...{ AWS_ACCESS_KEY_ID: 'tapekeep-test', AWS_SECRET_ACCESS_KEY: 'tapekeep-test-secret' },
  ...{ AWS_EC2_METADATA_DISABLED: 'true', AWS_REGION: 'us-east-1' },
};

/** Path of versitygw; undefined where it is not installed. */
export async function findVersitygw(): Promise<string | undefined> {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const path = join(folder, 'versitygw');
    if (await isThere(path)) return path;
  }
  return undefined;
}

/** Starts versitygw with a bucket `archive` in a folder. Returns its address; undefined where there is none. */
export async function startVersitygw(t: TestContext): Promise<string | undefined> {
  const program = await findVersitygw();
  if (program === undefined) {
    t.skip('versitygw is not installed here (github.com/versity/versitygw)');
    return undefined;
  }
  const folder = await makeFolder(t, 'versitygw');
  return await runVersitygw(program, folder, (stop) => t.after(stop));
}

/** @param onStop is given what ends it */
export async function runVersitygw(
  program: string,
  folder: string,
  onStop: (stop: () => Promise<void>) => void,
): Promise<string> {
  await mkdir(join(folder, 'archive'), { recursive: true });
  const port = await freePort();
  const child = spawn(program, ['--port', `127.0.0.1:${port}`, '--quiet', 'posix', folder], {
    env: {
      PATH: process.env.PATH,
      ROOT_ACCESS_KEY: CREDENTIALS.AWS_ACCESS_KEY_ID,
      ROOT_SECRET_KEY: CREDENTIALS.AWS_SECRET_ACCESS_KEY,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  onStop(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  // It says where it listens.
  await Promise.race([once(child.stdout, 'data'), ended]);
  child.stdout.resume();
  return `http://127.0.0.1:${port}`;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
