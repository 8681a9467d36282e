import type { VNode } from 'preact';
import { html } from './html.js';
import { levelOf } from './widgets.js';

/** Bars of time: equal steps of the last 24 hours, or the pieces of a day. */

/** Class of a step that is covered to so many percent. */
function stepClass(percentCovered: number): string {
  if (percentCovered < 0) return 'none';
  if (percentCovered >= 100) return 'full';
  if (percentCovered >= 90) return 'most';
  return percentCovered >= 30 ? 'some' : 'gap';
}

/** Coverage of steps: alike neighbours are one rectangle. */
export function coverageBar(steps: readonly number[], label: string): VNode {
  const paths = new Map<string, string>();
  let from = 0;
  for (let at = 1; at <= steps.length; at += 1) {
    const name = stepClass(steps[from] ?? -1);
    if (at < steps.length && stepClass(steps[at] ?? -1) === name) continue;
    paths.set(name, `${paths.get(name) ?? ''}M${from} 0H${at}V1H${from}z`);
    from = at;
  }
  return html`<svg class="bar" viewBox=${`0 0 ${Math.max(1, steps.length)} 1`} preserveAspectRatio="none" role="img" aria-label=${label}>
    ${[...paths].map(([name, path]) => html`<path class=${name} d=${path} />`)}
  </svg>`;
}

export interface BarPiece {
  readonly from: string;
  readonly to: string;
  readonly state: string;
}

/** Pieces of a time range, at their places in it. Short ones stay visible. */
export function pieceBar(
  pieces: readonly BarPiece[],
  fromMs: number,
  toMs: number,
  label: string,
): VNode {
  const width = 1440;
  const place = (text: string) =>
    Math.min(width, Math.max(0, ((Date.parse(text) - fromMs) / (toMs - fromMs)) * width));
  return html`<svg class="bar tall" viewBox=${`0 0 ${width} 1`} preserveAspectRatio="none" role="img" aria-label=${label}>
    <rect class="none" width=${width} height="1" />
    ${pieces.map(({ from, to, state }) => {
      const isGap = levelOf(state) !== 'good';
      const size = Math.max(place(to) - place(from), isGap ? 3 : 0);
      return html`<rect class=${`piece ${levelOf(state)}`} x=${place(from)} width=${size} height="1" />`;
    })}
  </svg>`;
}
