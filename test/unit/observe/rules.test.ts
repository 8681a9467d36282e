import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { Metrics } from '../../../src/observe/metrics.js';
import { repositoryPath } from '../../support/repository/repository.js';

const path = join(repositoryPath, 'config', 'prometheus-rules.yml');

test('alerts speak only of metrics and labels that exist', async () => {
  const registry = new Registry();
  const labels = new Set([...new Metrics(registry).labelNames.values()].flat());
  const known = new Set((await registry.getMetricsAsJSON()).map(({ name }) => name));
  const rules = readFileSync(path, 'utf8');
  const named = [...rules.matchAll(/\btapekeep_[a-z_]+/g)].map(([name]) => name);
  assert.ok(named.length > 10);
  const missing = named.filter((name) => !known.has(name.replace(/_(bucket|sum|count)$/, '')));
  assert.deepEqual(missing, []);
  const used = [...rules.matchAll(/\$labels\.([a-z_]+)/g)].map(([, label]) => label ?? '');
  assert.deepEqual(
    used.filter((label) => !labels.has(label)),
    [],
  );
});

test('Prometheus accepts the rules', (context) => {
  const checked = spawnSync('promtool', ['check', 'rules', path], { encoding: 'utf8' });
  if (checked.error !== undefined) {
    context.diagnostic('promtool is not installed here: its check of the rules was left out');
    return;
  }
  assert.equal(checked.status, 0, checked.stdout + checked.stderr);
});
