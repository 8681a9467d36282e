import type { Telemetry } from '../../src/observe/events.js';

const section = new Proxy({}, { get: () => () => undefined });

/** Telemetry that goes nowhere, for tests that look at something else. */
export const noTelemetry = new Proxy({}, { get: () => section }) as Telemetry;

/** Telemetry that goes nowhere but for what a test hears. @param section of {@link noTelemetry} */
export function hearing<Events extends object>(section: Events, heard: Partial<Events>): Events {
  return Object.assign(Object.create(section) as Events, heard);
}
