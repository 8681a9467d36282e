import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { connect, createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import test from 'node:test';
import { makeDatabase, runSql } from '../../support/postgres/postgres.js';
import { Program, startSandbox } from '../../support/programs/program.js';

const hasLoopback6 = Object.values(networkInterfaces()).some((found) =>
  found?.some(({ address }) => address === '::1'),
);

/** The status that a page of the console answers with, asked under another name. */
async function statusOf(url: string, host: string): Promise<number | undefined> {
  const asked = request(url, { headers: { host } }).end();
  const [answer] = await once(asked, 'response');
  answer.resume();
  return answer.statusCode;
}

test('exchange, database and console at [::1]', async (t) => {
  if (!hasLoopback6) {
    t.diagnostic('this machine has no ::1: nothing was tested');
    return;
  }
  const { program, ready } = await startSandbox(['--host', '::1']);
  t.after(() => program.dispose());
  assert.match(ready.url, /^http:\/\/\[::1\]:\d+$/);
  assert.match(ready.realtimeUrl, /^ws:\/\/\[::1\]:\d+/);
  const direct = new URL(await makeDatabase('empty'));
  // The server of the tests listens at 127.0.0.1 only.
  const relay = createServer((near) => {
    const far = connect(Number(direct.port), direct.hostname);
    for (const socket of [near, far])
      socket.on('error', () => far.destroy(near.destroy().errored ?? undefined));
    near.pipe(far).pipe(near);
  });
  relay.listen(0, '::1');
  await once(relay, 'listening');
  t.after(() => relay.close());
  const address = relay.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const database = `postgres://${direct.username}:${direct.password}@[::1]:${port}${direct.pathname}`;
  const daemon = new Program(['--log-level', 'debug', '--log-format', 'json', 'start'], {
    env: {
      TAPEKEEP_DATABASE_URL: database,
      TAPEKEEP_EXCHANGE_URL: ready.url,
      TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
      TAPEKEEP_HTTP_HOST: '::1',
      TAPEKEEP_HTTP_PORT: '0',
    },
  });
  t.after(() => daemon.dispose());
  await daemon.line((line) => line.includes('real-time connection opened'));
  await daemon.line((line) => line.includes('"committed"'));
  const line = await daemon.line((text) => text.startsWith('  status '));
  const url = line.split(/\s+/)[2] ?? '';
  assert.match(url, /^http:\/\/\[::1\]:\d+\/$/);
  await daemon.until(async () => (await fetch(`${url}readyz`)).status === 200);
  assert.equal(await statusOf(`${url}healthz`, new URL(url).host), 200);
  assert.equal(await statusOf(`${url}status`, 'rebound.example'), 403);
  const rows = await runSql<{ kind: string }>(
    direct.href,
    'SELECT DISTINCT kind FROM stream ORDER BY 1',
  );
  assert.ok(rows.some(({ kind }) => kind === 'states'));
  daemon.kill('SIGTERM');
  assert.deepEqual(await daemon.ended(), { code: 0, signal: null }, daemon.dump());
});
