import type { Depth } from '../contract/resources.js';
import { compareDecimals } from '../kernel/decimal.js';
import { type ExchangePort, PRIORITY } from './ports.js';
import { type SnapshotOptions, SnapshotRecorder } from './snapshot.js';

export interface DepthCollectorOptions extends SnapshotOptions {
  readonly marketId: number;
  readonly exchange: ExchangePort;
  /** Price levels asked for on each side. */
  readonly levels: number;
}

/**
 * Takes snapshots of one market's depth. A snapshot equal to the one before it is not stored again;
 * it extends coverage.
 */
export class DepthCollector {
  readonly #options: DepthCollectorOptions;
  readonly #recorder: SnapshotRecorder;
  #lastLook = '';

  constructor(options: DepthCollectorOptions) {
    this.#options = options;
    this.#recorder = new SnapshotRecorder(options);
  }

  async poll(signal: AbortSignal): Promise<void> {
    const { exchange, market, levels, marketId } = this.#options;
    const reply = await exchange.call(
      'depth',
      { market, limit: levels },
      { priority: PRIORITY.snapshot, signal },
    );
    if (this.#recorder.isUnknown(reply)) return;
    const { asks, bids } = sortedDepth(reply.data);
    const look = JSON.stringify([asks, bids]);
    const isUnchanged = look === this.#lastLook;
    const { receivedAtMs, covered = null } = reply;
    const observedAtMs = this.#recorder.instantOf(reply);
    if (observedAtMs === undefined) return;
    const row = {
      marketId,
      observedAtMs,
      receivedAtMs,
      bidPrices: bids.map(([price]) => price),
      bidAmounts: bids.map(([, amount]) => amount),
      askPrices: asks.map(([price]) => price),
      askAmounts: asks.map(([, amount]) => amount),
    };
    await this.#recorder.record({
      observedAtMs,
      batch: { depths: isUnchanged ? [] : [row] },
      evidence: { endpoint: 'depth', levels },
      series: 'depth',
      received: 1,
      rejected: 0,
      unchanged: isUnchanged ? 1 : 0,
      knownSinceMs: covered?.fromMs ?? null,
    });
    this.#lastLook = look;
  }
}

/** Best first on both sides, whatever the server's order (field notes: bids may come ascending). */
export function sortedDepth({ asks, bids }: Depth): Depth {
  return {
    asks: [...asks].sort(([a], [b]) => compareDecimals(a, b)),
    bids: [...bids].sort(([a], [b]) => compareDecimals(b, a)),
  };
}
