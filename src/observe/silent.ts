import type { ClientEvents } from './events.js';

const ignore = () => undefined;

/** Telemetry of a client that nobody watches: the library's default. */
export const silentClientEvents: ClientEvents = {
  requestEnded: ignore,
  budgetChanged: ignore,
  budgetPaused: ignore,
  exchangeClock: ignore,
  socketOpened: ignore,
  socketClosed: ignore,
  socketRetry: ignore,
  frameReceived: ignore,
};
