import { TapekeepError } from '../kernel/errors.js';
import type { CollectEvents } from '../observe/events.js';
import { type ArchivePort, type ExchangePort, type ExchangeTime, PRIORITY } from './ports.js';
import { quarantineRows } from './quarantine.js';

export interface MarketListOptions {
  readonly exchange: ExchangePort;
  readonly archive: ArchivePort;
  readonly time: ExchangeTime;
  readonly telemetry: CollectEvents;
  /** Markets to collect; empty for all. */
  readonly wanted: readonly string[];
}

/** The exchange lists no market at all: more likely its fault than the truth. */
export class NoMarketsError extends TapekeepError {
  constructor() {
    super(
      'no_markets',
      'retry',
      'the exchange lists no market that can be read; its list is asked for again, and nothing is taken as delisted',
    );
  }
}

/** Keeps the list of markets that are collected, as the exchange and the configuration have it. */
export class MarketList {
  readonly #options: MarketListOptions;
  #collected: ReadonlyMap<string, number> = new Map();
  #missing = '';

  constructor(options: MarketListOptions) {
    this.#options = options;
  }

  /** Ids of the markets that are collected, by name. */
  get collected(): ReadonlyMap<string, number> {
    return this.#collected;
  }

  /** Names that the configuration wants and the exchange does not list. */
  get missing(): readonly string[] {
    return this.#missing === '' ? [] : this.#missing.split(',');
  }

  /** Asks for the list once, and notes in the archive what changed. */
  async refresh(signal: AbortSignal): Promise<void> {
    const { exchange, archive, time, telemetry, wanted } = this.#options;
    const reply = await exchange.call('markets', {}, { priority: PRIORITY.markets, signal });
    if (reply.rejected.length > 0) {
      await archive.commit({
        quarantine: quarantineRows('markets', null, reply.rejected, reply.receivedAtMs),
      });
    }
    if (reply.data.length === 0) throw new NoMarketsError();
    // An entry that could not be read is no delisting: that market stays as it was known.
    const isComplete = reply.rejected.length === 0;
    const nowMs = Math.floor(time.nowMs());
    const changes = await archive.ensureMarkets(reply.data, nowMs, { isComplete });
    this.#collected = new Map(
      [...changes.ids].filter(([name]) => wanted.length === 0 || wanted.includes(name)),
    );
    const { added, removed, changed } = changes;
    if (added.length + removed.length + changed.length > 0) {
      telemetry.marketsChanged({ added, removed, changed });
    }
    this.#reportMissing(
      wanted.filter((name) => !changes.ids.has(name)),
      changes.ids.keys(),
    );
  }

  /** Says once, not at every refresh, which wanted markets do not exist. */
  #reportMissing(names: readonly string[], listed: Iterable<string>): void {
    const missing = names.join(',');
    if (missing === this.#missing) return;
    this.#missing = missing;
    if (names.length === 0) return;
    const known = new Map([...listed].map((name) => [bareName(name), name]));
    const wrong = names.map((name) => {
      const meant = known.get(bareName(name));
      return meant === undefined ? name : `${name} (did you mean ${meant}?)`;
    });
    this.#options.telemetry.pollFailed({
      stream: 'markets',
      market: names[0] ?? '',
      code: 'unknown_market',
      message: `the exchange does not list ${wrong.join(', ')}, named in the setting "markets"; what appears later is picked up`,
      action: 'skip',
    });
  }
}

/** A name without what people get wrong: case and the sign between the currencies. */
function bareName(name: string): string {
  return name.replaceAll(/[^a-z0-9]/gi, '').toUpperCase();
}
