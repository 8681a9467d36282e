import type { Clock } from '../../kernel/clock.js';
import type { StreamRef } from '../../ledger/batch.js';
import type { CollectEvents } from '../../observe/events.js';
import type { ArchivePort, ExchangePort, ExchangeTime } from '../ports.js';

export interface CandleCollectorOptions {
  readonly market: string;
  readonly marketId: number;
  readonly intervalS: number;
  /** Its `collectFromMs` is set: candles of older open times are not expected. */
  readonly stream: StreamRef;
  readonly exchange: ExchangePort;
  readonly archive: ArchivePort;
  readonly time: ExchangeTime;
  readonly clock: Clock;
  readonly telemetry: CollectEvents;
  /** How long after its close a candle may still change, exchange milliseconds. */
  readonly graceMs: number;
  /** Whether its newest candle counts as the progress of the market's candles. */
  readonly isFinest: boolean;
  /** How many closed candles before a new one are read again, to catch revisions. */
  readonly rereads: number;
}
