import { readdir, readFile } from 'node:fs/promises';
import { median } from '../bench/report.js';

/** What a minute of the run looks like from outside. */
export interface Sample {
  readonly minute: number;
  /** Since the daemon was started last, which a kill sets back. */
  readonly lifeMinutes: number;
  readonly rssMb: number;
  readonly descriptors: number;
  readonly lagP99Ms: number;
  readonly openGaps: number;
  /** Stored by this life of the daemon. */
  readonly rows: number;
  readonly requestsPerS: number;
}

/** Figures of a Prometheus text by name; those with labels are summed up. */
export function readFigures(text: string): (name: string, label?: string) => number {
  const lines = text.split('\n').filter((line) => !line.startsWith('#'));
  return (name, label = '') =>
    lines
      .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
      .filter((line) => line.includes(label))
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

/** Memory and descriptors of a process; NaN where the system has no `/proc`, or the process is gone. */
export async function readProcess(pid: number) {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const descriptors = await readdir(`/proc/${pid}/fd`).catch(() => undefined);
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1];
  return {
    rssMb: kilobytes === undefined ? Number.NaN : Number(kilobytes) / 1024,
    descriptors: descriptors?.length ?? Number.NaN,
  };
}

/** Growth an hour: the least squares of what was measured, the first tenth of a life left out. */
function slopePerHour(samples: readonly Sample[], pick: (sample: Sample) => number): number | null {
  const lives = samples.filter(({ lifeMinutes }) => lifeMinutes >= WARM_UP_MINUTES);
  const points = lives
    .map((sample) => ({ x: sample.minute, y: pick(sample) }))
    .filter(({ y }) => Number.isFinite(y));
  if (points.length < POINTS_MIN) return null;
  const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;
  const x = mean(points.map((point) => point.x));
  const y = mean(points.map((point) => point.y));
  const squares = points.reduce((sum, point) => sum + (point.x - x) ** 2, 0);
  if (squares === 0) return null;
  const products = points.reduce((sum, point) => sum + (point.x - x) * (point.y - y), 0);
  return (products / squares) * 60;
}

/** Caches and pools fill for so long after a start. */
const WARM_UP_MINUTES = 5;
const POINTS_MIN = 15;
/** Growth an hour, against the level of the run, from which on it is a leak. */
const RSS_GROWTH_MAX = 0.25;
const DESCRIPTORS_GROWTH_MAX = 10;
const LAG_P99_MAX_MS = 250;

export interface Trend {
  readonly rssMb: number;
  readonly rssMbPerHour: number | null;
  readonly descriptorsPerHour: number | null;
  readonly lagP99MedianMs: number;
  readonly lagP99WorstMs: number;
  /** What is not flat; empty for a run that is too short to say. */
  readonly faults: readonly string[];
}

/** Whether memory, descriptors and the event loop stay as they are. */
export function trendOf(samples: readonly Sample[]): Trend {
  const rssMb = median(samples.map((one) => one.rssMb));
  const rssMbPerHour = slopePerHour(samples, (one) => one.rssMb);
  const descriptorsPerHour = slopePerHour(samples, (one) => one.descriptors);
  const lags = samples.map((one) => one.lagP99Ms);
  const lagP99MedianMs = median(lags);
  const faults = [
    ...(rssMbPerHour !== null && rssMbPerHour > rssMb * RSS_GROWTH_MAX
      ? [`memory grows by ${rssMbPerHour.toFixed(1)} MB an hour`]
      : []),
    ...(descriptorsPerHour !== null && descriptorsPerHour > DESCRIPTORS_GROWTH_MAX
      ? [`descriptors grow by ${descriptorsPerHour.toFixed(1)} an hour`]
      : []),
    ...(rssMbPerHour !== null && lagP99MedianMs > LAG_P99_MAX_MS
      ? [`the event loop lags by ${lagP99MedianMs.toFixed(0)} ms (median of p99)`]
      : []),
  ];
  return {
    ...{ rssMb, rssMbPerHour, descriptorsPerHour, lagP99MedianMs },
    ...{ lagP99WorstMs: Math.max(...lags, 0), faults },
  };
}
