import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { parse } from 'yaml';
import { startHttpStub } from '../../support/exchanges/stub-server.js';
import { makeDatabase } from '../../support/postgres/postgres.js';
import { PostgresProxy } from '../../support/postgres/postgres-proxy.js';
import { Program } from '../../support/programs/program.js';
import {
  prometheusLack,
  type Rules,
  startAlertmanager,
  startPrometheus,
} from '../../support/programs/prometheus.js';
import { repositoryPath } from '../../support/repository/repository.js';
import { makeFolder } from '../../support/worlds/export-world.js';

/** An alert from the daemon to a person: Prometheus, its Alertmanager, and a receiver. */

const read = (name: string) => readFileSync(join(repositoryPath, 'config', name), 'utf8');

interface ManagerConfig {
  readonly route: object;
  readonly receivers: readonly { readonly name: string }[];
}

/** One message of Alertmanager's webhook. */
interface Message {
  readonly status: 'firing' | 'resolved';
  readonly alerts: readonly {
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
  }[];
}

test('an alert of a database that is away fires and ends at a receiver', async (t) => {
  const lack = prometheusLack(true);
  if (lack !== undefined) {
    t.skip(`${lack}: no alert was sent`);
    return;
  }
  const receiver = await startHttpStub(t, (_, response) => response.end());
  const target = await makeDatabase();
  const proxy = new PostgresProxy(target);
  t.after(() => proxy.stop());
  const daemon = new Program(['--log-level', 'debug', '--log-format', 'json', 'start'], {
    env: {
      ...{ TAPEKEEP_DATABASE_URL: await proxy.start(), TAPEKEEP_DATA_DIR: await makeFolder(t) },
      TAPEKEEP_HTTP_PORT: '0',
    },
  });
  t.after(() => daemon.dispose());
  const page = await daemon.page();
  const config = parse(read('alertmanager.yml')) as ManagerConfig;
  const manager = await startAlertmanager(t, {
    ...config,
    // The committed file with short pauses, and the receiver of this test.
    route: { ...config.route, group_wait: '1s', group_interval: '1s' },
    receivers: config.receivers.map(({ name }) => ({
      name,
      webhook_configs: [{ url: receiver.baseUrl }],
    })),
  });
  // The committed rules, but for how long it must be so: a minute there.
  const { groups } = parse(read('prometheus-rules.yml')) as Rules;
  const rules = {
    groups: groups.map((group) => ({
      ...group,
      rules: group.rules
        .filter(({ alert }) => alert === 'TapekeepDatabaseDown')
        .map((rule) => ({ ...rule, for: '1s' })),
    })),
  };
  const prometheus = await startPrometheus(t, page, rules, manager);
  await daemon.until(async () => {
    const [up] = await prometheus.query('tapekeep_database_up');
    return up?.value[1] === '1';
  });
  assert.deepEqual(receiver.seen, []);
  proxy.retarget(undefined);
  proxy.endAll();
  await receiver.requests(1);
  proxy.retarget(target);
  await receiver.requests(2);
  const messages = receiver.seen.map(({ body }) => JSON.parse(body) as Message);
  assert.deepEqual(
    messages.map(({ status }) => status),
    ['firing', 'resolved'],
  );
  for (const { alerts } of messages) {
    assert.deepEqual(
      alerts.map(({ labels }) => labels.alertname),
      ['TapekeepDatabaseDown'],
    );
    assert.equal(alerts[0]?.annotations.runbook_url, 'docs/runbook.md#tapekeepdatabasedown');
  }
});

test('Alertmanager accepts its configuration, with each receiver that it shows', async (t) => {
  if (spawnSync('amtool', ['--version']).error !== undefined) {
    t.skip("Debian's prometheus-alertmanager is not installed: its configuration was not checked");
    return;
  }
  const folder = await makeFolder(t);
  const check = async (name: string, text: string) => {
    const path = join(folder, name);
    await writeFile(path, text);
    const { status, stdout, stderr } = spawnSync('amtool', ['check-config', path], {
      encoding: 'utf8',
    });
    assert.equal(status, 0, stdout + stderr);
    return parse(text) as ManagerConfig;
  };
  await check('committed.yml', read('alertmanager.yml'));
  const shown = await check('shown.yml', read('alertmanager.yml').replaceAll('    # ', '    '));
  assert.equal(Object.keys(shown.receivers[0] ?? {}).length, 5);
});

test('Prometheus accepts its configuration', async (t) => {
  const lack = prometheusLack();
  if (lack !== undefined) {
    t.skip(`${lack}: its configuration was not checked`);
    return;
  }
  const folder = await makeFolder(t);
  const token = join(folder, 'token');
  await writeFile(token, 'x');
  await writeFile(join(folder, 'prometheus-rules.yml'), read('prometheus-rules.yml'));
  const path = join(folder, 'prometheus.yml');
  await writeFile(path, read('prometheus.yml').replace('/run/secrets/http_token', token));
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'config', path], {
    encoding: 'utf8',
  });
  assert.equal(status, 0, stdout + stderr);
});
