import type { VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { Answer, Asked } from '../api/endpoints.js';
import { useAsk } from './api.js';
import { pieceBar } from './bar.js';
import {
  clockTime,
  counted,
  duration,
  grouped,
  instant,
  interval,
  percent,
  streamName,
} from './format.js';
import { html } from './html.js';
import { marketUrl } from './markets.js';
import { address } from './router.js';
import { Command, figures, levelOf, pill, shown, table, texts } from './widgets.js';

/** One day of one stream: what is covered, what is missing and why, and what helps. */

type Day = Answer<'day'>;
export type Piece = Day['pieces'][number];
type Check = Day['checks'][number];

const DAY_MS = 86_400_000;

/** A time range that is missing, with its reason and what to do. */
export function explained({
  state,
  from,
  to,
  lengthMs,
  why,
  advice,
  note,
  attempts,
  nextTry,
}: Piece): VNode {
  return html`<li class="piece">
    <p>${pill(state)} <b>${duration(lengthMs / 1000)}</b>
      <span class="muted">${instant(from)} to ${clockTime(to)}</span></p>
    <p>${why}</p>
    ${advice !== null && html`<p class="advice">${advice}</p>`}
    ${
      (attempts > 0 || nextTry !== null) &&
      html`<p class="muted">${counted(attempts, 'attempt')}${nextTry !== null && `, next ${nextTry}`}</p>`
    }
    ${note !== null && html`<p class="note">${note}</p>`}
  </li>`;
}

const MOST_PIECES = 50;

function pieceList(title: string, pieces: readonly Piece[]): unknown {
  if (pieces.length === 0) return null;
  const rest = pieces.length - MOST_PIECES;
  return html`<details open=${title === 'Missing'}>
    <summary>${title} <span class="muted">${pieces.length}</span></summary>
    <ul class="pieces">${pieces.slice(0, MOST_PIECES).map(explained)}</ul>
    ${rest > 0 && html`<p class="muted">and ${counted(rest, 'further range')}</p>`}
  </details>`;
}

function piecesOf(day: Day): VNode {
  const fromMs = Date.parse(day.day);
  const rest = day.pieces.filter(({ state }) => state !== 'covered');
  const isGap = ({ state }: Piece) => levelOf(state) !== 'idle';
  const label = `${duration(day.coveredS)} of ${duration(day.expectedS)} covered`;
  return html`
    ${pieceBar(day.pieces, fromMs, fromMs + DAY_MS, label)}
    <div class="hours" aria-hidden="true">${['00', '06', '12', '18', '24'].map((one) => html`<span>${one}</span>`)}</div>
    ${pieceList('Missing', rest.filter(isGap))}
    ${pieceList(
      'Not expected',
      rest.filter((one) => !isGap(one)),
    )}
  `;
}

function checksOf(checks: readonly Check[]): unknown {
  if (checks.length === 0) return null;
  return html`<h3>Trades against candles</h3>
    ${table<Check>({
      caption: 'Checks of trades against candles',
      rows: checks,
      isCards: false,
      columns: [
        texts('Interval', ({ intervalS }) => interval(intervalS)),
        figures('Match', ({ verified }) => grouped(verified)),
        figures('Mismatch', ({ mismatches }) =>
          mismatches === 0 ? '0' : html`<b class="bad">${grouped(mismatches)}</b>`,
        ),
        figures('Unchecked', ({ unchecked }) => grouped(unchecked)),
      ],
    })}`;
}

function body(day: Day): VNode {
  const { condition, reasons, changedAt, expectedS, coveredS, rows, sessions, commands } = day;
  return html`
    <p>${pill(condition ?? 'not expected')} ${reasons.length > 0 && html`<span>${reasons.join(' ')}</span>`}</p>
    <dl class="facts">
      <dt>Covered</dt><dd>${expectedS === 0 ? 'nothing is expected' : percent(coveredS / expectedS)}</dd>
      <dt>Not covered</dt><dd>${duration(Math.max(0, expectedS - coveredS))}</dd>
      <dt>Rows</dt><dd>${grouped(rows)}</dd>
      <dt>Changed</dt><dd>${instant(changedAt)}</dd>
    </dl>
    ${piecesOf(day)}
    ${checksOf(day.checks)}
    ${
      sessions.length > 0 &&
      html`<h3>Sessions</h3><ul class="sessions">${sessions.map(
        (
          one,
        ) => html`<li><b>${one.what}</b> ${instant(one.from)} to ${one.to === null ? 'now' : instant(one.to)}
          ${one.reason !== null && html`<span class="muted">${one.reason}</span>`}</li>`,
      )}</ul>`
    }
    ${
      commands.length > 0 &&
      html`<h3>Commands</h3><ul class="commands">${commands.map(
        ({ what, command }) => html`<li><span>${what}</span><${Command} text=${command} /></li>`,
      )}</ul>`
    }
  `;
}

export interface DayProps {
  readonly market: string;
  readonly kind: NonNullable<Asked<'days'>['kind']>;
  readonly day: string;
  readonly variant: string | null;
  readonly onClose: () => void;
}

export function DayPanel({ market, kind, day, variant, onClose }: DayProps): VNode {
  const question = { market, kind, day, ...(variant !== null && { variant: Number(variant) }) };
  const found = useAsk('day', question, { isFollowed: true });
  const panel = useRef<HTMLElement>(null);
  useEffect(
    () => panel.current?.focus({ preventScroll: matchMedia('(min-width: 1100px)').matches }),
    [],
  );
  const name = market === '*' ? 'all markets' : market;
  return html`<aside class="panel" ref=${panel} tabindex="-1" aria-label=${`${name} on ${day}`}>
    <header>
      <div><h2>${name}</h2><p class="muted">${streamName(kind, Number(variant))} · ${day} UTC</p></div>
      <button type="button" class="quiet" onClick=${onClose}>Close</button>
    </header>
    ${shown(found, body)}
    <p class="links">
      ${market !== '*' && html`<a href=${marketUrl(market, { day })}>Candles of the day</a>`}
      <a href=${address('/gaps', { market, kind, from: day })}>Gaps since</a>
    </p>
  </aside>`;
}
