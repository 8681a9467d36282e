import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Answer } from '../api/endpoints.js';
import { color, useTheme } from './charts.js';
import { dayAfter, duration } from './format.js';
import { html } from './html.js';
import { marketUrl } from './markets.js';

/** Grid of days on one canvas, of which only the rows in view are drawn: it takes a thousand markets. */

const ROW = 18;
const HEAD = 22;
const MOST_HEIGHT = 640;
const DAY_S = 86_400;

const CONDITIONS: Readonly<Record<string, string>> = {
  ...{ a: 'available', d: 'degraded', p: 'pending', m: 'missing', '-': 'not expected' },
};

export type Days = Answer<'days'>;
type Row = Days['rows'][number];
interface Cell {
  readonly row: number;
  readonly day: number;
}

interface Palette {
  readonly full: string;
  readonly gap: string;
  readonly pending: string;
  readonly none: string;
  readonly text: string;
  readonly muted: string;
  readonly accent: string;
}

function paletteNow(): Palette {
  return {
    ...{ full: color('full'), gap: color('gap'), pending: color('pending') },
    ...{ none: color('none'), text: color('text'), muted: color('muted'), accent: color('accent') },
  };
}

/** Mixes two colours `#rrggbb`. */
function mix(one: string, other: string, share: number): string {
  const part = (text: string, at: number) => Number.parseInt(text.slice(at, at + 2), 16);
  const mixed = [1, 3, 5].map((at) =>
    Math.round(part(one, at) * (1 - share) + part(other, at) * share),
  );
  return `rgb(${mixed.join(' ')})`;
}

/** A hole of minutes is a tint, half a day is nearly as bad as all of it. */
function dayColor(letter: string, missingS: number, palette: Palette): string {
  const share = Math.min(1, missingS / DAY_S);
  if (letter === 'a') return palette.full;
  if (letter === 'm') return palette.gap;
  if (letter === 'd') return mix(palette.full, palette.gap, 0.18 + 0.72 * Math.sqrt(share));
  if (letter === 'p') return mix(palette.pending, palette.gap, 0.5 * share);
  return palette.none;
}

function draw(
  canvas: HTMLCanvasElement,
  days: Days,
  top: number,
  chosen: readonly (Cell | null)[],
): void {
  const context = canvas.getContext('2d');
  const { clientWidth: width, clientHeight: height } = canvas;
  if (context === null || width === 0) return;
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  context.scale(scale, scale);
  const palette = paletteNow();
  const cell = width / days.days;
  const space = cell >= 4 ? 1 : 0;
  const first = Math.floor(top / ROW);
  const last = Math.min(days.rows.length, Math.ceil((top + height) / ROW));
  for (let at = first; at < last; at += 1) {
    const row = days.rows[at];
    if (row === undefined) continue;
    const missing = new Map(row.missing);
    for (let day = 0; day < days.days; day += 1) {
      const letter = row.conditions[day] ?? '-';
      context.fillStyle = dayColor(letter, missing.get(day) ?? 0, palette);
      // Whole pixels: else narrow cells would have seams.
      const left = Math.floor(day * cell * scale) / scale;
      const right = Math.floor((day + 1) * cell * scale) / scale;
      context.fillRect(left, HEAD + at * ROW - top + 1, right - left - space, ROW - 3);
    }
  }
  context.clearRect(0, 0, width, HEAD);
  months(context, days, cell, palette);
  for (const one of chosen) {
    if (one === null) continue;
    context.strokeStyle = palette.text;
    context.lineWidth = 2;
    const place = HEAD + one.row * ROW - top;
    if (place >= HEAD - 1)
      context.strokeRect(one.day * cell - 1, place, Math.max(5, cell + 1), ROW - 1);
  }
}

function months(context: CanvasRenderingContext2D, days: Days, cell: number, palette: Palette) {
  context.fillStyle = palette.muted;
  context.font = '11px system-ui, sans-serif';
  const isDense = days.days > 60;
  let free = 0;
  for (let day = 0; day < days.days; day += 1) {
    const date = dayAfter(days.from, day);
    if (isDense ? !date.endsWith('-01') : day % 7 !== 0) continue;
    const text = isDense
      ? new Date(date).toLocaleDateString('en', { month: 'short', timeZone: 'UTC' })
      : date.slice(5);
    if (day * cell < free) continue;
    context.fillText(
      date.slice(5, 7) === '01' && isDense ? date.slice(0, 4) : text,
      day * cell,
      14,
    );
    free = day * cell + 34;
  }
}

function cellText(days: Days, { row, day }: Cell): string {
  const found = days.rows[row];
  if (found === undefined) return '';
  const condition = CONDITIONS[found.conditions[day] ?? '-'] ?? '';
  const missing = found.missing.find(([at]) => at === day)?.[1] ?? 0;
  const rest = missing > 0 ? `, ${duration(missing)} missing` : '';
  return `${found.market === '*' ? 'all markets' : found.market}, ${dayAfter(days.from, day)}: ${condition}${rest}`;
}

const STEPS: Readonly<Record<string, readonly [number, number]>> = {
  ...{ ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] },
  ...{ PageUp: [-20, 0], PageDown: [20, 0], Home: [0, -1000], End: [0, 1000] },
};

export interface GridProps {
  readonly days: Days;
  readonly market: string | null;
  readonly day: string | null;
  readonly onOpen: (row: Row, day: string) => void;
}

export function CalendarGrid({ days, market, day, onOpen }: GridProps): VNode {
  const canvas = useRef<HTMLCanvasElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [hovered, setHovered] = useState<Cell | null>(null);
  const [focused, setFocused] = useState<Cell | null>(null);
  const [size, setSize] = useState('');
  const theme = useTheme();
  const { rows } = days;
  const height = Math.min(MOST_HEIGHT, rows.length * ROW + HEAD + 2);
  const chosenRow = rows.findIndex((row) => row.market === market);
  const chosenDay = day === null ? -1 : (Date.parse(day) - Date.parse(days.from)) / (DAY_S * 1000);
  const chosen = chosenRow >= 0 && chosenDay >= 0 ? { row: chosenRow, day: chosenDay } : null;

  useEffect(() => {
    if (canvas.current !== null) draw(canvas.current, days, top, [chosen, focused ?? hovered]);
  }, [days, top, hovered, focused, chosen?.row, chosen?.day, size, theme]);
  useEffect(() => {
    const place = canvas.current;
    if (place === null) return;
    const watching = new ResizeObserver(() =>
      setSize(`${place.clientWidth}×${place.clientHeight}`),
    );
    watching.observe(place);
    return () => watching.disconnect();
  }, []);

  const cellAt = (event: MouseEvent): Cell | null => {
    const {
      left,
      top: edge,
      width,
    } = (canvas.current as HTMLCanvasElement).getBoundingClientRect();
    const row = Math.floor((event.clientY - edge - HEAD + top) / ROW);
    const at = Math.floor(((event.clientX - left) / width) * days.days);
    const isIn =
      event.clientY - edge >= HEAD && row >= 0 && row < rows.length && at >= 0 && at < days.days;
    return isIn ? { row, day: at } : null;
  };
  const open = (cell: Cell | null) => {
    const row = cell === null ? undefined : rows[cell.row];
    if (cell !== null && row !== undefined) onOpen(row, dayAfter(days.from, cell.day));
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      return open(focused);
    }
    const step = STEPS[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const now = focused ?? chosen ?? { row: 0, day: days.days - 1 };
    const limit = (value: number, most: number) => Math.min(most, Math.max(0, value));
    const next = {
      row: limit(now.row + step[0], rows.length - 1),
      day: limit(now.day + step[1], days.days - 1),
    };
    setFocused(next);
    const place = scroller.current;
    if (place === null) return;
    const seen = place.clientHeight - HEAD - ROW;
    if (next.row * ROW < place.scrollTop) place.scrollTop = next.row * ROW;
    if (next.row * ROW > place.scrollTop + seen) place.scrollTop = next.row * ROW - seen;
  };
  const told = focused ?? hovered;
  const first = Math.max(0, Math.floor(top / ROW) - 2);
  const names = rows.slice(first, first + Math.ceil(height / ROW) + 4);
  return html`
    <p class="told" aria-live="polite">${told === null ? 'Point at a day, or move with the arrow keys.' : cellText(days, told)}</p>
    <div class="calendar" ref=${scroller} style=${{ height: `${height}px` }} onScroll=${() => setTop(scroller.current?.scrollTop ?? 0)}>
      <div class="names" style=${{ height: `${rows.length * ROW + HEAD}px` }}>
        ${names.map(
          ({ market: name }, at) =>
            html`<a key=${name} tabindex="-1" href=${name === '*' ? '/markets' : marketUrl(name)} style=${{ top: `${HEAD + (first + at) * ROW}px` }}>
              ${name === '*' ? 'all markets' : name}
            </a>`,
        )}
      </div>
      <canvas ref=${canvas} tabindex="0" role="application" aria-label="Days of each market. Arrow keys move, Enter opens a day."
        style=${{ height: `${height}px` }}
        onMouseMove=${(event: MouseEvent) => setHovered(cellAt(event))}
        onMouseLeave=${() => setHovered(null)}
        onFocus=${() => setFocused((last) => last ?? chosen)}
        onBlur=${() => setFocused(null)}
        onClick=${(event: MouseEvent) => open(cellAt(event))}
        onKeyDown=${press}></canvas>
    </div>
  `;
}
