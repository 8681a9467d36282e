import assert from 'node:assert/strict';
import type { Program } from './program.js';

/** A page of metrics as it was at one moment. */
export interface MetricsPage {
  readonly text: string;
  /** The sum of all series of a name, or of those whose labels have this part, such as `endpoint="history"`. */
  sum(name: string, label?: string): number;
}

/** Reads the page of a daemon that has told its address. */
export async function readMetrics(daemon: Program): Promise<MetricsPage> {
  const shown = daemon.lines.stdout.find((line) => line.trimStart().startsWith('metrics'));
  const url = shown?.trim().split(/\s+/)[1];
  assert.ok(url !== undefined, daemon.dump());
  const text = await (await fetch(url)).text();
  return {
    text,
    sum: (name, label = '') =>
      [...text.matchAll(new RegExp(`^${name}(\\{[^}]*\\})? (\\S+)$`, 'gm'))]
        .filter(([, labels = '']) => labels.includes(label))
        .reduce((total, [, , value]) => total + Number(value), 0),
  };
}
