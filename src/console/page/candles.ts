import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import uPlot from 'uplot';
import type { Answer } from '../api/endpoints.js';
import { axes, color, useChart } from './charts.js';
import { short, stamp } from './format.js';
import { html } from './html.js';

/** Candles with their volume. Where time is not covered, the chart is shaded. */

type Document = Answer<'candles'>;

const PHONE_WIDTH = 640;
/** Share of the height below the candles that volume takes. */
const VOLUME_SHARE = 0.22;

/** Numbers of the texts, for drawing alone. */
function columnsOf({ candles }: Document): uPlot.AlignedData {
  const number = (name: 'open' | 'high' | 'low' | 'close' | 'volume') =>
    candles.map((one) => Number(one[name]));
  const times = candles.map(({ timeMs }) => timeMs / 1000);
  return [
    times,
    ...(['open', 'high', 'low', 'close', 'volume'] as const).map(number),
  ] as uPlot.AlignedData;
}

function shadeGaps(chart: uPlot, { gaps }: Document): void {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.fillStyle = color('gap-shade');
  for (const { fromMs, toMs } of gaps) {
    const left = Math.max(bbox.left, chart.valToPos(fromMs / 1000, 'x', true));
    const right = Math.min(bbox.left + bbox.width, chart.valToPos(toMs / 1000, 'x', true));
    if (right > left) ctx.fillRect(left, bbox.top, Math.max(2, right - left), bbox.height);
  }
  ctx.restore();
}

function drawCandles(chart: uPlot, intervalS: number): void {
  const { ctx, bbox } = chart;
  const [times, opens, highs, lows, closes, volumes] = chart.data as number[][];
  if (times === undefined || opens === undefined) return;
  const step =
    chart.valToPos((times[0] ?? 0) + intervalS, 'x', true) -
    chart.valToPos(times[0] ?? 0, 'x', true);
  const width = Math.max(1, Math.min(step * 0.7, 14 * devicePixelRatio));
  const mostVolume = Math.max(...(volumes ?? []), 0) || 1;
  const [up, down] = [color('up'), color('down')];
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const [at, time] of times.entries()) {
    const [open = 0, close = 0] = [opens[at], closes?.[at]];
    const middle = chart.valToPos(time + intervalS / 2, 'x', true);
    const y = (value: number) => chart.valToPos(value, 'y', true);
    ctx.fillStyle = close >= open ? up : down;
    const height = ((volumes?.[at] ?? 0) / mostVolume) * bbox.height * VOLUME_SHARE;
    ctx.globalAlpha = 0.3;
    ctx.fillRect(middle - width / 2, bbox.top + bbox.height - height, width, height);
    ctx.globalAlpha = 1;
    const [top, bottom] = [y(highs?.[at] ?? open), y(lows?.[at] ?? open)];
    const wick = Math.max(1, devicePixelRatio);
    ctx.fillRect(middle - wick / 2, top, wick, Math.max(1, bottom - top));
    const [upper, lower] = [y(Math.max(open, close)), y(Math.min(open, close))];
    ctx.fillRect(middle - width / 2, upper, width, Math.max(1, lower - upper));
  }
  ctx.restore();
}

/** Range of prices that leaves room for the volume below them. */
function priceRange(chart: uPlot): [number, number] {
  const [first, last] = chart.series[0]?.idxs ?? [0, 0];
  const part = (at: number) => (chart.data[at] as number[]).slice(first, last + 1);
  const [high, low] = [Math.max(...part(2)), Math.min(...part(3))];
  if (!Number.isFinite(high) || !Number.isFinite(low)) return [0, 1];
  const space = (high - low || Math.abs(high) * 0.01 || 1) * 0.08;
  return [low - space - (high - low) * VOLUME_SHARE, high + space];
}

export function CandleChart({ document: found }: { document: Document }): VNode {
  const [at, setAt] = useState<number | null>(null);
  const { intervalS, candles } = found;
  const { holder, chart } = useChart(
    (width) => ({
      data: columnsOf(found),
      options: {
        ...{ width, height: width < PHONE_WIDTH ? 260 : 380, legend: { show: false } },
        axes: axes((value) => String(Number(value.toPrecision(7)))),
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC'),
        scales: {
          x: { range: (_chart, low, high) => [low, high + intervalS] },
          y: { range: (own) => priceRange(own) },
        },
        series: [
          {},
          ...['open', 'high', 'low', 'close', 'volume'].map((label) => ({
            label,
            show: label !== 'volume',
            paths: () => null,
            points: { show: false },
          })),
        ],
        cursor: { points: { show: false } },
        hooks: {
          drawClear: [(own) => shadeGaps(own, found)],
          draw: [(own) => drawCandles(own, intervalS)],
          setCursor: [({ cursor: { idx } }) => setAt(idx ?? null)],
        },
      },
    }),
    [found],
  );
  useEffect(() => chart.current?.redraw(false), [chart]);
  const candle = candles[at ?? candles.length - 1];
  return html`<figure class="chart candles" role="group" aria-label="Candles">
    <figcaption class="figure">
      ${
        candle !== undefined &&
        html`<span class="muted">${stamp(candle.timeMs).slice(0, 16)} UTC</span>
          <span>open <b>${candle.open}</b></span> <span>high <b>${candle.high}</b></span>
          <span>low <b>${candle.low}</b></span> <span>close <b>${candle.close}</b></span>
          <span>volume <b>${candle.volume}</b></span>
          ${candle.isVerified === false && html`<span class="muted">not complete: its time is not over, or a part of it is missing</span>`}`
      }
    </figcaption>
    <div ref=${holder} class="plot" aria-hidden="true"></div>
    ${found.isCut && html`<p class="muted">Only the newest ${short(candles.length)} candles are shown.</p>`}
  </figure>`;
}
