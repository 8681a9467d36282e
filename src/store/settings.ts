import { OLDEST_SANE_MS, SANE_AHEAD_MS } from '../ledger/sane-window.js';
import type { StoreOptions } from './api.js';

/** Options of the store with nothing left out. */
export type Settings = Required<StoreOptions>;

const DEFAULTS = {
  ...{ poolSize: 4, connectTimeoutMs: 10_000, statementTimeoutMs: 30_000 },
  commitLatencyMs: 100,
  maxGroupRows: 20_000,
  ...{ maxQueuedBatches: 1_000, maxQueuedRows: 200_000 },
  retryCapMs: 2_000,
  drainDeadlineMs: 8_000,
  saneFromMs: OLDEST_SANE_MS,
  saneAheadMs: SANE_AHEAD_MS,
  partitionsAhead: 3,
  quarantineKeepRows: 10_000,
};

export function settingsOf(options: StoreOptions): Settings {
  return { ...DEFAULTS, exchangeNowMs: () => options.clock.wallMs(), ...options };
}
