import type { Balance } from '../../contract/resources.js';
import { equalDecimals } from '../../kernel/decimal.js';
import { ALL_MARKETS_ID, type BalanceRow } from '../../model/batch.js';
import { type ExchangePort, PRIORITY } from '../ports.js';
import { quarantineRows } from '../quarantine.js';
import { type SnapshotOptions, SnapshotRecorder } from '../snapshot.js';

export interface BalanceCollectorOptions extends SnapshotOptions {
  readonly exchange: ExchangePort;
  readonly knownBalances: () => Promise<readonly BalanceRow[]>;
}

/**
 * Follows what the account holds: a row for each currency that changed, appeared or is listed no
 * longer. What the archive knows from before a restart is not stored again.
 */
export class BalanceCollector {
  readonly #options: BalanceCollectorOptions;
  readonly #recorder: SnapshotRecorder;
  #known: ReadonlyMap<string, BalanceRow> | undefined;

  constructor(options: BalanceCollectorOptions) {
    this.#options = options;
    this.#recorder = new SnapshotRecorder(options);
  }

  async poll(signal: AbortSignal): Promise<void> {
    const { exchange, time, knownBalances } = this.#options;
    this.#known ??= new Map((await knownBalances()).map((row) => [row.currency, row]));
    const known = this.#known;
    const reply = await exchange.call('balances', {}, { priority: PRIORITY.snapshot, signal });
    const { receivedAtMs, rejected } = reply;
    const observedAtMs = Math.floor(time.nowMs());
    const seen = { marketId: ALL_MARKETS_ID, observedAtMs, receivedAtMs };
    const listed = Object.entries(reply.data);
    const changed: BalanceRow[] = listed
      .filter(([currency, balance]) => !isSame(known.get(currency), balance))
      .map(([currency, { available, freeze }]) => ({ ...seen, currency, available, freeze }));
    // An unreadable entry does not prove that the currency is gone.
    const gone: BalanceRow[] = [...known.keys()]
      .filter((currency) => rejected.length === 0 && reply.data[currency] === undefined)
      .map((currency) => ({ ...seen, currency, available: null, freeze: null }));
    await this.#recorder.record({
      observedAtMs,
      batch: {
        balances: [...changed, ...gone],
        quarantine: quarantineRows('balances', null, rejected, receivedAtMs),
      },
      evidence: { endpoint: 'balances', currencies: listed.length },
      series: 'balance',
      received: listed.length + gone.length + rejected.length,
      rejected: rejected.length,
      unchanged: listed.length - changed.length,
      isWhole: rejected.length === 0,
    });
    const next = new Map(known);
    for (const row of changed) next.set(row.currency, row);
    for (const { currency } of gone) next.delete(currency);
    this.#known = next;
  }
}

function isSame(known: BalanceRow | undefined, { available, freeze }: Balance): boolean {
  const [a, f] = [known?.available ?? null, known?.freeze ?? null];
  return a !== null && f !== null && equalDecimals(a, available) && equalDecimals(f, freeze);
}
