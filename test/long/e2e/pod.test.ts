import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { chmod, chown } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import test, { type TestContext } from 'node:test';
import { parse } from 'yaml';
import { repositoryPath } from '../../support/repository/repository.js';
import { makeFolder } from '../../support/worlds/export-world.js';

/** The program as the manifest of the StatefulSet has it run, without a cluster: in a mount namespace of its own. */

const manifest = join(repositoryPath, 'config', 'kubernetes', 'embedded', 'statefulset.yaml');
const MAIN = join(repositoryPath, 'dist', 'cli', 'main.js');
/** Stands for /data, which need not be there. */
const DATA = '/mnt';

interface Pod {
  readonly securityContext: { readonly runAsUser: number; readonly fsGroup: number };
  readonly volumes: readonly {
    readonly name: string;
    readonly emptyDir: { readonly sizeLimit?: string };
  }[];
  readonly containers: readonly [
    { readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[] },
  ];
}

function scriptOf(pod: Pod, volume: string): string {
  const { runAsUser, fsGroup } = pod.securityContext;
  const mounts = pod.containers[0].volumeMounts.map(({ name, mountPath }) => {
    const size = pod.volumes.find((one) => one.name === name)?.emptyDir.sizeLimit ?? '';
    const options = size === '' ? '' : `-o size=${size.replace('Mi', 'm')}`;
    return name === 'data'
      ? `mount --bind ${volume} ${DATA}`
      : `mount -t tmpfs ${options} tmpfs ${mountPath}`;
  });
  const user = `--reuid=${runAsUser} --regid=${fsGroup} --clear-groups`;
  return [
    'set -e',
    // The volume lies where another one is mounted over it.
    ...mounts.sort((a, b) => Number(b.includes('--bind')) - Number(a.includes('--bind'))),
    'mount -o remount,ro,bind /',
    'if touch /usr/not-read-only 2>/dev/null; then exit 99; fi',
    `exec setpriv ${user} --no-new-privs --bounding-set=-all ${process.execPath} ${MAIN} start`,
  ].join('\n');
}

/** Starts it, waits until it collects, stops it. */
async function run(t: TestContext, script: string): Promise<void> {
  const child = spawn('unshare', ['--mount', 'sh', '-c', script], {
    stdio: ['ignore', 'pipe', 'pipe'],
    cwd: '/',
    env: {
      ...{ PATH: process.env.PATH, TAPEKEEP_DATA_DIR: DATA, TAPEKEEP_HTTP_PORT: '0' },
      ...{ TAPEKEEP_HTTP_HOST: '0.0.0.0', TAPEKEEP_HTTP_TOKEN: '0123456789abcdef0123' },
    },
  });
  t.after(() => child.kill('SIGKILL'));
  const lines: string[] = [];
  const ended = once(child, 'close');
  createInterface({ input: child.stderr }).on('line', (line) => lines.push(line));
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    // The first summary comes when rows were stored.
    if (/\(lag .*rows\/s/.test(line)) child.kill('SIGTERM');
  }
  assert.deepEqual(await ended, [0, null], lines.join('\n'));
}

test('it runs as a pod does, and again on the same volume', async (t) => {
  const { spec } = parse(readFileSync(manifest, 'utf8')) as {
    spec: { template: { spec: Pod } };
  };
  const pod = spec.template.spec;
  const { runAsUser, fsGroup } = pod.securityContext;
  const volume = await makeFolder(t, 'volume');
  // What Kubernetes makes of a new volume with fsGroup.
  if (process.getuid?.() === 0) await chown(volume, 0, fsGroup);
  await chmod(volume, 0o2770);
  const user = [`--reuid=${runAsUser}`, `--regid=${fsGroup}`, '--clear-groups'];
  const probe = `mount -t tmpfs tmpfs ${DATA} && setpriv ${user.join(' ')} test -r ${MAIN}`;
  const probed = spawnSync('unshare', ['--mount', 'sh', '-c', probe]);
  if (probed.status !== 0) {
    t.skip('it takes Linux, root and a folder that all can read: no pod was run');
    return;
  }
  const script = scriptOf(pod, volume);
  await run(t, script);
  await run(t, script);
});
