import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { repositoryPath } from '../repository/repository.js';

/** Reads the committed dashboards, and fills in variables and macros as Grafana does. */

export type Board = 'operators' | 'analysts';

export interface Target {
  readonly refId: string;
  readonly datasource: { readonly type: string; readonly uid: string };
  readonly expr?: string;
  readonly legendFormat?: string;
  readonly rawSql?: string;
  readonly format?: string;
}

export interface Shown {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly datasource?: { readonly type: string; readonly uid: string };
  readonly gridPos: {
    readonly x: number;
    readonly y: number;
    readonly w: number;
    readonly h: number;
  };
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } };
  readonly targets?: readonly Target[];
}

export interface Variable {
  readonly name: string;
  readonly type: string;
  readonly query: unknown;
  readonly datasource?: { readonly uid: string };
}

interface Dashboard {
  readonly uid: string;
  readonly panels: readonly Shown[];
  readonly templating: { readonly list: readonly Variable[] };
}

export function readBoard(board: Board): Dashboard {
  const path = join(repositoryPath, 'config', 'grafana', 'dashboards', `${board}.json`);
  return JSON.parse(readFileSync(path, 'utf8')) as Dashboard;
}

/** Panels that ask something. */
export function asking(board: Board): (Shown & { readonly targets: readonly Target[] })[] {
  return readBoard(board).panels.flatMap((panel) =>
    panel.targets === undefined ? [] : [{ ...panel, targets: panel.targets }],
  );
}

/** A PromQL as it is asked while every variable is at "All". */
export function promQuery(expr: string, rateInterval: string): string {
  const filled = expr
    .replaceAll('$__rate_interval', rateInterval)
    .replaceAll(/"\$(instance|stream|market)"/g, '".*"');
  assert.doesNotMatch(filled, /\$/);
  return filled;
}

export interface SqlRange {
  readonly from: string;
  readonly to: string;
  readonly stepS: number;
}

const quoted = (texts: readonly string[]) =>
  texts.map((text) => `'${text.replaceAll("'", "''")}'`).join(',');

/** SQL as the data source of Postgres sends it. */
export function sqlQuery(
  sql: string,
  { from, to, stepS }: SqlRange,
  chosen: Readonly<Record<string, readonly string[]>>,
): string {
  const filled = sql
    .replaceAll(/\$\{(\w+):sqlstring\}/g, (_, name: string) => quoted(chosen[name] ?? []))
    .replaceAll(/\$__timeFilter\(([^)]*)\)/g, `$1 BETWEEN '${from}' AND '${to}'`)
    .replaceAll('$__timeFrom()', `'${from}'`)
    .replaceAll('$__timeTo()', `'${to}'`)
    .replaceAll('$__interval_ms', String(stepS * 1000));
  assert.doesNotMatch(filled, /\$/);
  return filled;
}
