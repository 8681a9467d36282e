import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import type { Change } from '../../../src/cli/notices/notices.js';
import { startHttpStub } from '../../support/exchanges/stub-server.js';
import { makeDatabase } from '../../support/postgres/postgres.js';
import { runCommand } from '../../support/programs/commands.js';
import { Program, startSandbox } from '../../support/programs/program.js';
import { makeFolder } from '../../support/worlds/export-world.js';

const SECRET = 'T0/B0/sEcReT';

test('a daemon tells of an exchange that is away and of its return, and shows no address', async (t) => {
  const stub = await startHttpStub(t, (_, response) => response.end('ok'));
  const dataDir = await makeFolder(t);
  const file = join(dataDir, 'webhook');
  await writeFile(file, `${stub.baseUrl}/${SECRET}\n`);
  const first = await startSandbox(['--seed', '7']);
  const { port } = new URL(first.ready.url);
  await first.program.dispose();
  const env = {
    ...{ TAPEKEEP_DATABASE_URL: await makeDatabase(), TAPEKEEP_DATA_DIR: dataDir },
    ...{ TAPEKEEP_EXCHANGE_URL: first.ready.url, TAPEKEEP_REALTIME_URL: first.ready.realtimeUrl },
    ...{ TAPEKEEP_HTTP_ENABLED: 'false', TAPEKEEP_ALERTS_WEBHOOK_FILE: file },
  };
  const daemon = new Program(['--log-level', 'debug', '--log-format', 'json', 'start'], { env });
  t.after(() => daemon.dispose());
  const told = () =>
    stub.seen.flatMap(({ url, body }) => {
      assert.equal(url, `/${SECRET}`);
      return (JSON.parse(body) as { changes: Change[] }).changes.map(
        ({ change, check }) => `${check} ${change}`,
      );
    });
  // Checks that change some seconds apart are told in two notices.
  const untilTold = async (count: number) => {
    while (told().length < count) await stub.requests(stub.seen.length + 1);
    return told()
      .slice(count - 2)
      .sort();
  };
  assert.deepEqual(await untilTold(2), ['exchange fired', 'phase fired']);
  const { program: sandbox } = await startSandbox(['--seed', '7', '--port', port]);
  t.after(() => sandbox.dispose());
  assert.deepEqual(await untilTold(4), ['exchange ended', 'phase ended']);
  daemon.kill('SIGTERM');
  assert.deepEqual(await daemon.ended(), { code: 0, signal: null }, daemon.dump());
  const shown = await runCommand(['config', 'show', '--set'], env);
  const doctor = await runCommand(['doctor'], env);
  assert.match(doctor.out, /notices +sent to 127\.0\.0\.1:\d+ as json/);
  for (const text of [daemon.text('stderr'), daemon.text('stdout'), shown.out, doctor.out]) {
    assert.ok(!text.includes('sEcReT'));
  }
});

test('a failure that ends the daemon is told before it ends', async (t) => {
  const stub = await startHttpStub(t, (_, response) => response.end('ok'));
  const { program, ready } = await startSandbox(['--seed', '7']);
  t.after(() => program.dispose());
  const daemon = new Program(['start'], {
    env: {
      ...{ TAPEKEEP_DATABASE_URL: await makeDatabase(), TAPEKEEP_DATA_DIR: await makeFolder(t) },
      ...{ TAPEKEEP_EXCHANGE_URL: ready.url, TAPEKEEP_REALTIME_URL: ready.realtimeUrl },
      ...{ TAPEKEEP_HTTP_ENABLED: 'false', TAPEKEEP_ALERTS_WEBHOOK: stub.baseUrl },
    },
  });
  t.after(() => daemon.dispose());
  // Its first summary comes when it collects.
  await daemon.line((line) => /\(lag .*rows\/s/.test(line));
  // At the same address there is another exchange now.
  await program.dispose();
  const { port } = new URL(ready.url);
  const { program: other } = await startSandbox(['--seed', '8', '--port', port]);
  t.after(() => other.dispose());
  const { code } = await daemon.ended();
  assert.notEqual(code, 0, daemon.dump());
  const [{ body } = assert.fail(daemon.dump())] = stub.seen;
  const [change] = (JSON.parse(body) as { changes: Change[] }).changes;
  assert.deepEqual([change?.check, change?.change], ['going on', 'fired']);
});
