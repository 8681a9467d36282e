import type { Clock } from '../kernel/clock.js';
import type { Level, LogFields, Logger } from './logger.js';
import type { MetricLabels, MetricName, Metrics } from './metrics.js';
import { ROW_OUTCOMES, type RunCounts } from './run-counts.js';

/** Fields of an event that hold a number. */
type Figure<E> = {
  [K in keyof E]: E[K] extends number | undefined ? K : never;
}[keyof E];

/**
 * Effect of an event on a metric: a figure, one of its fields, or what follows from it. A field in milliseconds is
 * reported in seconds; one that is undefined moves nothing. Labels are the fields of the same name.
 */
type Moves<E, Named> = {
  readonly [M in MetricName as MetricLabels[M] extends keyof E | Named ? M : never]?:
    | number
    | Figure<E>
    | ((event: E) => number);
};

/** Log line and metrics of an event. */
export interface Entry<E, Named extends string = never> {
  /** Undefined: this one is not logged. */
  readonly level: Level | ((event: E, recorder: Recorder) => Level | undefined);
  readonly text: string | ((event: E) => string);
  /** Repeated failures are logged now and then; the same key is the same failure. */
  readonly flood?: (event: E) => string | undefined;
  /** Default: the event itself. */
  readonly fields?: (event: E) => LogFields;
  /** Labels that are no fields of the event, or other values for them. */
  readonly labels?: (
    event: E,
  ) => Readonly<Record<string, string>> & { readonly [L in Named]: string };
  readonly moves?: Moves<E, Named>;
  /** Further effects. */
  readonly record?: (recorder: Recorder, event: E) => void;
}

/** Declares an event by what it carries, and the labels that it gives beside its fields. */
export function event<E, Named extends string = never>(entry: Entry<E, Named>): Entry<E> {
  return entry as unknown as Entry<E>;
}

/** The functions by which a room reports the events of a section. None throws or takes long. */
export type Reports<S> = {
  readonly [K in keyof S]: S[K] extends Entry<infer E> ? (event: E) => void : never;
};

/** Targets of events, with what has to be remembered from one to the next. */
export class Recorder {
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly counts: RunCounts;
  readonly clock: Clock;
  /** Ends of the partitions made ahead, by table; exchange time. */
  readonly partitionEnds = new Map<string, number>();
  /** Undefined until the first report of the database, so that a start is logged as one. */
  wasUp: boolean | undefined;
  readonly #begun = new Set<string>();

  constructor(logger: Logger, metrics: Metrics, counts: RunCounts, clock: Clock) {
    this.clock = clock;
    this.logger = logger;
    this.metrics = metrics;
    this.counts = counts;
    metrics.begin();
    metrics.move('last_commit_timestamp_seconds', clock.wallMs() / 1000);
  }

  /** The label of a stream. What is counted of a new one starts at zero, so that rates work at once. */
  stream(name: string): string {
    const stream = this.metrics.label('stream', name);
    if (this.#begun.has(stream)) return stream;
    this.#begun.add(stream);
    this.metrics.move('rows_received_total', 0, { stream });
    this.metrics.move('walk_stalls_total', 0, { stream });
    for (const outcome of ROW_OUTCOMES) {
      this.metrics.move('rows_total', 0, { stream, outcome });
    }
    return stream;
  }

  #move<E extends object>(entry: Entry<E>, event: E): void {
    const values = { ...event, ...entry.labels?.(event) } as Readonly<Record<string, unknown>>;
    if (typeof values.stream === 'string') this.stream(values.stream);
    for (const [name, from] of Object.entries(entry.moves ?? {})) {
      const value = figureOf(from as Figure<E> | number | ((event: E) => number), event);
      if (value !== undefined) this.metrics.moveOf(name as MetricName, value, values);
    }
  }

  /** Writes the log line of an event, and moves what it moves. */
  report<E extends object>(entry: Entry<E>, event: E): void {
    const level = typeof entry.level === 'function' ? entry.level(event, this) : entry.level;
    if (entry.moves !== undefined) this.#move(entry, event);
    entry.record?.(this, event);
    if (level === undefined) return;
    const text = typeof entry.text === 'function' ? entry.text(event) : entry.text;
    const fields = entry.fields === undefined ? (event as LogFields) : entry.fields(event);
    const key = entry.flood?.(event);
    if (key === undefined) this.logger.write(level, text, fields);
    else this.logger.writeRepeating(level, key, text, fields);
  }
}

function figureOf<E>(from: Figure<E> | number | ((event: E) => number), event: E) {
  if (typeof from === 'number') return from;
  if (typeof from === 'function') return from(event);
  const value = event[from as keyof E] as number | undefined;
  return value !== undefined && String(from).endsWith('Ms') ? value / 1000 : value;
}

export const wholeSeconds = (ms: number) => Math.round(ms / 1000);
/** An error by its stable code. */
export interface Failure {
  readonly code: string;
  readonly message: string;
}
