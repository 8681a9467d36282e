import type { ClientEvents, StoreEvents } from './events.js';

const ignore = () => undefined;

/** Telemetry of a client that nobody watches: the library's default. */
export const silentClientEvents: ClientEvents = {
  requestEnded: ignore,
  budgetChanged: ignore,
  budgetPaused: ignore,
  exchangeClock: ignore,
  exchangeClockDisputed: ignore,
  socketOpened: ignore,
  socketClosed: ignore,
  socketRetry: ignore,
  frameReceived: ignore,
};

/** Telemetry of an archive that nobody watches: the library's default. */
export const silentStoreEvents: StoreEvents = {
  committed: ignore,
  commitFailed: ignore,
  commitBlocked: ignore,
  queueChanged: ignore,
  quarantined: ignore,
  partitionMade: ignore,
  partitionLead: ignore,
  partitionReopened: ignore,
  databaseState: ignore,
  migrated: ignore,
  databaseAwaited: ignore,
  embeddedPostgres: ignore,
};
