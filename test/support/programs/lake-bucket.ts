import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { systemClock } from '../../../src/kernel/clock.js';
import { makeFolder } from '../worlds/export-world.js';

/** A bucket for programs that read cold files: of versitygw, whose buckets are folders. */

const GATEWAY = 'versitygw';
const BUCKET = 'lake';
const [ACCESS, SECRET] = ['lakeaccess', 'lakesecret'];
/** Another program may take the port between its choice and its use. */
const PORTS = 5;
const PAUSE_MS = 50;
/** Of files that came another way than by it: Spark wants one. */
const ETAG = ['--default-etag', '"0"'];

/** Why a test of it cannot run here; undefined where it can. */
export function bucketLack(): string | undefined {
  const { error } = spawnSync(GATEWAY, ['--version']);
  return error === undefined ? undefined : `${GATEWAY} is not installed`;
}

export interface LakeBucket {
  /** `s3://lake` */
  readonly url: string;
  /** The folder that it is; what is copied there is in the bucket. */
  readonly folder: string;
  /** Where programs find it. */
  readonly env: Readonly<Record<string, string>>;
}

/** Starts a server of one bucket, which ends with the test. */
export async function startLakeBucket(t: TestContext): Promise<LakeBucket> {
  const root = await makeFolder(t, 'buckets');
  const folder = join(root, BUCKET);
  await mkdir(folder);
  for (let turn = 0; turn < PORTS; turn += 1) {
    const endpoint = `http://127.0.0.1:${await freePort()}`;
    if (!(await serve(t, root, endpoint))) continue;
    const env = {
      ...{ AWS_ENDPOINT_URL_S3: endpoint, AWS_REGION: 'us-east-1' },
      // Spark's own ports are for this machine alone.
      SPARK_LOCAL_IP: '127.0.0.1',
      ...{ AWS_ACCESS_KEY_ID: ACCESS, AWS_SECRET_ACCESS_KEY: SECRET },
    };
    return { url: `s3://${BUCKET}`, folder, env };
  }
  throw new Error(`${GATEWAY} did not start on ${PORTS} ports`);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Resolves with true once it answers, with false when it ended. */
async function serve(t: TestContext, root: string, endpoint: string): Promise<boolean> {
  const child = spawn(
    GATEWAY,
    ['--quiet', '--port', new URL(endpoint).host, 'posix', ...ETAG, root],
    {
      env: { ...process.env, ROOT_ACCESS_KEY: ACCESS, ROOT_SECRET_KEY: SECRET },
      stdio: 'ignore',
    },
  );
  let hasEnded = false;
  const ended = once(child, 'close').then(() => {
    hasEnded = true;
  });
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  // Its port is open a little after it says so.
  while (!hasEnded) {
    const isThere = await fetch(endpoint).then(
      () => true,
      () => false,
    );
    if (isThere) return !hasEnded;
    await new Promise<void>((resolve) => {
      systemClock.after(PAUSE_MS, resolve);
    });
  }
  return false;
}
