import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { html } from './html.js';

/** Charts by uPlot, in the colours of the page. Its times are UTC. */

export interface Series {
  readonly name: string;
  /** Name of a colour of the style sheet. */
  readonly color: string;
  readonly values: readonly (number | null)[];
  readonly isDashed?: boolean;
}

export interface ChartProps {
  readonly title: string;
  /** UNIX milliseconds, ascending; plain numbers where `isTime` is false. */
  readonly x: readonly number[];
  readonly series: readonly Series[];
  readonly text: (value: number) => string;
  readonly height?: number;
  readonly isTime?: boolean;
}

/** Value of a colour of the style sheet, in the scheme that the page has now. */
export function color(name: string): string {
  const both = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
  return both.match(/#\w+/g)?.at(dark.matches ? -1 : 0) ?? '';
}

const DAY_S = 86_400;
const dark = matchMedia('(prefers-color-scheme: dark)');

/** Grows when the colours of the page change, so that what is drawn is drawn again. */
export function useTheme(): number {
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const tell = () => setTurn((last) => last + 1);
    dark.addEventListener('change', tell);
    return () => dark.removeEventListener('change', tell);
  }, []);
  return turn;
}

/** Labels of an axis of time: a date where steps are days, else the time of the day. */
function timeLabels(_chart: uPlot, splits: number[], _axis: number, _space: number, step: number) {
  return splits.map((at) => {
    const text = new Date(at * 1000).toISOString();
    if (step >= DAY_S) return text.slice(5, 10);
    if (at % DAY_S === 0) return text.slice(5, 10);
    return text.slice(11, step < 60 ? 19 : 16);
  });
}

export function axes(text: (value: number) => string, isTime = true): uPlot.Axis[] {
  const line = { stroke: color('line'), width: 1 };
  const common = {
    ...{ stroke: color('muted'), font: '11px system-ui, sans-serif' },
    ...{ grid: line, ticks: { ...line, size: 4 } },
  };
  return [
    { ...common, size: 26, space: 64, ...(isTime && { values: timeLabels }) },
    {
      ...{ ...common, space: 32 },
      // Wide enough for its longest text.
      size: (_chart, texts) => Math.max(58, ...(texts ?? []).map((one) => 14 + 6.5 * one.length)),
      values: (_chart, splits) => splits.map((one) => (one === null ? '' : text(one))),
    },
  ];
}

/** Draws with what `make` returns, again when `keys` change, as wide as its place. */
export function useChart(
  make: (width: number) => { options: uPlot.Options; data: uPlot.AlignedData } | undefined,
  keys: readonly unknown[],
) {
  const holder = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot>(undefined);
  const theme = useTheme();
  useEffect(() => {
    const place = holder.current;
    if (place === null) return;
    const made = make(place.clientWidth);
    if (made === undefined) return;
    const drawn = new uPlot(made.options, made.data, place);
    chart.current = drawn;
    const watching = new ResizeObserver(() => {
      const { clientWidth: width } = place;
      if (width > 0 && width !== drawn.width) drawn.setSize({ width, height: drawn.height });
    });
    watching.observe(place);
    return () => {
      watching.disconnect();
      chart.current = undefined;
      drawn.destroy();
    };
  }, [...keys, theme]);
  return { holder, chart };
}

/** Lines over time, with the values under the pointer, or else the newest, beside the title. */
export function Chart(props: ChartProps): VNode {
  const { title, x, series, text, height = 150, isTime = true } = props;
  const [at, setAt] = useState<number | null>(null);
  const data = [
    isTime ? x.map((one) => one / 1000) : [...x],
    ...series.map(({ values }) => [...values]),
  ] as uPlot.AlignedData;
  const shape = series.map(({ name, color: own }) => `${name} ${own}`).join();
  const { holder, chart } = useChart(
    (width) => ({
      data,
      options: {
        ...{ width, height, axes: axes(text, isTime), legend: { show: false } },
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC'),
        scales: { x: { time: isTime }, y: { range: (_chart, low, high) => rangeOf(low, high) } },
        cursor: { y: false, points: { size: 6 } },
        series: [
          {},
          ...series.map(({ name, color: own, isDashed }) => ({
            ...{ label: name, stroke: color(own), width: 1.5, points: { show: false } },
            ...(isDashed === true ? { dash: [4, 4] } : {}),
            ...(series.length === 1 ? { fill: `${color(own)}22` } : {}),
          })),
        ],
        hooks: { setCursor: [({ cursor: { idx } }) => setAt(idx ?? null)] },
      },
    }),
    [shape, height, isTime],
  );
  useEffect(() => chart.current?.setData(data), [x, series]);
  const shownAt = at ?? x.length - 1;
  const textOf = ({ values }: Series) => {
    const value = at === null ? lastOf(values) : values[shownAt];
    return value === null || value === undefined ? '–' : text(value);
  };
  const when = at === null || !isTime ? '' : new Date(x[shownAt] ?? 0).toISOString().slice(11, 19);
  return html`<figure class="chart" role="group" aria-label=${title}>
    <figcaption>
      <b>${title}</b>
      <span class="values">
        ${when !== '' && html`<span class="muted">${when} UTC</span>`}
        ${series.map(
          (one) => html`<span key=${one.name}>
            <i class=${`dot ${one.color}`}></i>${series.length > 1 && `${one.name} `}${textOf(one)}
          </span>`,
        )}
      </span>
    </figcaption>
    <div ref=${holder} class="plot" aria-hidden="true"></div>
  </figure>`;
}

function lastOf(values: readonly (number | null)[]): number | null {
  return values.findLast((one) => one !== null) ?? null;
}

/** From zero where all are positive, so that heights can be compared. */
function rangeOf(low: number | null, high: number | null): [number, number] {
  if (low === null || high === null) return [0, 1];
  const top = high <= 0 && low >= 0 ? 1 : high + (high - Math.min(0, low)) * 0.08;
  return [Math.min(0, low * 1.08), top];
}
