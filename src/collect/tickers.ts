import type { TickerEntry } from '../contract/resources.js';
import type { TickerRow } from '../ledger/batch.js';
import { type ExchangePort, PRIORITY } from './ports.js';
import { quarantineRows } from './quarantine.js';
import { type SnapshotOptions, SnapshotRecorder } from './snapshot.js';

export interface TickerCollectorOptions extends SnapshotOptions {
  readonly exchange: ExchangePort;
  /** Ids of the markets that are collected, by name; it changes while running. */
  readonly marketIds: () => ReadonlyMap<string, number>;
}

const SECOND_MS = 1000;

/**
 * Takes the tickers of all markets with one call, and stores those that changed. One stream covers
 * them all.
 */
export class TickerCollector {
  readonly #options: TickerCollectorOptions;
  readonly #recorder: SnapshotRecorder;
  #lastLooks = new Map<number, string>();

  constructor(options: TickerCollectorOptions) {
    this.#options = options;
    this.#recorder = new SnapshotRecorder(options);
  }

  async poll(signal: AbortSignal): Promise<void> {
    const { exchange, time } = this.#options;
    const reply = await exchange.call('tickers', {}, { priority: PRIORITY.snapshot, signal });
    const observedAtMs = Math.floor(time.nowMs());
    const { receivedAtMs } = reply;
    const looks = new Map<number, string>();
    const changed: TickerRow[] = [];
    for (const [name, marketId] of this.#options.marketIds()) {
      const entry = reply.data[name];
      if (entry === undefined) continue;
      const look = lookOf(entry);
      looks.set(marketId, look);
      if (look === this.#lastLooks.get(marketId)) continue;
      changed.push({
        marketId,
        observedAtMs,
        receivedAtMs,
        atMs: Math.round(entry.at * SECOND_MS),
        ...figuresOf(entry),
      });
    }
    const rejected = reply.rejected.filter(({ at }) => this.#isCollected(at));
    await this.#recorder.record({
      observedAtMs,
      batch: {
        tickers: changed,
        quarantine: quarantineRows('tickers', null, rejected, receivedAtMs),
      },
      evidence: { endpoint: 'tickers', markets: looks.size, refused: rejected.length },
      series: 'ticker',
      received: looks.size + rejected.length,
      rejected: rejected.length,
      unchanged: looks.size - changed.length,
    });
    this.#lastLooks = looks;
  }

  #isCollected(key: number | string): boolean {
    return this.#options.marketIds().has(String(key));
  }
}

function figuresOf({ ticker }: TickerEntry) {
  const { bid, ask, open, high, low, last, vol, deal, change } = ticker;
  return { bid, ask, open, high, low, last, volume: vol, deal, change };
}

/** What makes two tickers the same: every figure, but not the time they were taken. */
function lookOf(entry: TickerEntry): string {
  return Object.values(figuresOf(entry)).join('|');
}
