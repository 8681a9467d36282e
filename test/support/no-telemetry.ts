import type { Telemetry } from '../../src/observe/events.js';

const section = new Proxy({}, { get: () => () => undefined });

/** Telemetry that goes nowhere, for tests that look at something else. */
export const noTelemetry = new Proxy({}, { get: () => section }) as Telemetry;
