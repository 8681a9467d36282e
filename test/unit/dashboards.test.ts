import assert from 'node:assert/strict';
import test from 'node:test';
import * as units from '@grafana/grafana-foundation-sdk/units';
import { Registry } from 'prom-client';
import { STREAM_KINDS } from '../../src/model/series.js';
import { Metrics } from '../../src/observe/metrics.js';
import { asking, type Board, readBoard } from '../support/dashboards/grafana.js';

/** The committed dashboards of Grafana; that they equal their source is held with the other generated files. */

const BOARDS: readonly Board[] = ['operators', 'analysts'];
const UNITS: ReadonlySet<unknown> = new Set(Object.values(units));

test('each panel of a dashboard has a title, a text, a known unit and a place of its own', () => {
  for (const board of BOARDS) {
    const taken = new Map<string, string>();
    const ids = readBoard(board).panels.map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length);
    for (const { title, description, fieldConfig, gridPos } of asking(board)) {
      assert.ok(description !== undefined && description.length > 20, title);
      assert.ok(UNITS.has(fieldConfig?.defaults.unit), `${title}: no unit of Grafana`);
      assert.ok(gridPos.x + gridPos.w <= 24, title);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
          assert.equal(taken.get(`${x} ${y}`), undefined, `${title} covers another panel`);
          taken.set(`${x} ${y}`, title);
        }
      }
    }
  }
});

test('where the data of a dashboard come from is a variable', () => {
  for (const board of BOARDS) {
    const { templating, panels } = readBoard(board);
    const sources = templating.list.filter(({ type }) => type === 'datasource');
    assert.equal(sources.length, 1);
    const [{ name, query } = assert.fail()] = sources;
    const uid = `\${${name}}`;
    for (const { title, targets } of asking(board)) {
      for (const { datasource } of targets)
        assert.deepEqual(datasource, { type: query, uid }, title);
    }
    const named = [...panels, ...templating.list].flatMap(
      ({ datasource }) => datasource?.uid ?? [],
    );
    assert.deepEqual([...new Set(named)], [uid]);
  }
});

test('rates of the operators are taken over the interval that Grafana chooses', () => {
  for (const { title, targets } of asking('operators')) {
    for (const { expr = '' } of targets) {
      for (const [, span] of expr.matchAll(/\[([^\]]+)\]/g)) {
        assert.equal(span, '$__rate_interval', title);
      }
      assert.doesNotMatch(expr, /_total\b(?!\{[^}]*\}\[)/, `${title}: a counter without its rate`);
    }
  }
});

test('the operators ask for metrics and labels that exist', async () => {
  const registry = new Registry();
  const { labelNames } = new Metrics(registry);
  const metrics = new Map(labelNames);
  const known = new Set((await registry.getMetricsAsJSON()).map(({ name }) => name));
  const seen = new Set<string>();
  const check = (expr: string, title: string) => {
    for (const [, name = '', filter = ''] of expr.matchAll(/\b(tapekeep_\w+)(?:\{([^}]*)\})?/g)) {
      const metric = name.replace(/_(bucket|sum|count)$/, '');
      assert.ok(known.has(metric), `${title}: ${name}`);
      seen.add(metric);
      const labels = ['instance', 'le', ...(metrics.get(metric) ?? [])];
      for (const [, label = ''] of filter.matchAll(/(\w+)=~?"/g)) {
        assert.ok(labels.includes(label), `${title}: ${name} has no label ${label}`);
      }
    }
  };
  for (const { title, targets } of asking('operators')) {
    for (const { expr = '' } of targets) check(expr, title);
  }
  for (const { name, query } of readBoard('operators').templating.list) {
    const text = typeof query === 'string' ? query : (query as { query: string }).query;
    check(text.replaceAll(/label_values\((\w+), (\w+)\)/g, '$1{$2="x"}'), name);
  }
  assert.ok(seen.size > 30, `${seen.size} metrics`);
});

test('analysts choose a market and kinds, which no query writes out or leaves unquoted', () => {
  const { templating } = readBoard('analysts');
  const kinds = templating.list.find(({ name }) => name === 'kind');
  assert.equal(kinds?.query, STREAM_KINDS.join(','));
  for (const { title, targets } of asking('analysts')) {
    for (const { rawSql = '' } of targets) {
      assert.doesNotMatch(rawSql, /\$\{(?!\w+:sqlstring\})|\$(?!__|\{)/, title);
    }
  }
  const text = JSON.stringify(asking('analysts'));
  for (const name of ['market', 'kind']) assert.ok(text.includes(`\${${name}:sqlstring}`), name);
});
