import type { RealtimeWords } from '../contract/realtime.js';
import type { ServerVariants } from '../contract/variants.js';
import type { Clock } from '../kernel/clock.js';
import type { ServerEvents } from '../observe/events.js';
import type { Backend } from './backend.js';
import type { Interference } from './faults.js';

/** Path of the real-time interface, on the same port as the HTTP interface. */
export const REALTIME_PATH = '/ws';

/** Parts shared within one server. */
export interface ServerContext {
  readonly backend: Backend;
  readonly clock: Clock;
  readonly telemetry: ServerEvents;
  readonly variants: ServerVariants;
  readonly words: RealtimeWords;
  /** Makes things go wrong on purpose; default: nothing does. */
  readonly interference?: Interference;
  /** Serves the paths that steer the exchange and show its secrets; default false. */
  readonly control?: boolean;
}
