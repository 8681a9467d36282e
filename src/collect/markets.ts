import { TapekeepError } from '../kernel/errors.js';
import { nearestName } from '../kernel/nearest.js';
import { Share } from '../model/share.js';
import type { CollectEvents } from '../observe/events.js';
import { type ArchivePort, type ExchangePort, type ExchangeTime, PRIORITY } from './ports.js';
import { quarantineRows, streamReport } from './reports.js';

interface MarketListOptions {
  readonly exchange: ExchangePort;
  readonly archive: ArchivePort;
  readonly time: ExchangeTime;
  readonly telemetry: CollectEvents;
  /** Markets to collect; empty for all. */
  readonly wanted: readonly string[];
  /** Most markets that are collected at once, whatever the exchange lists. */
  readonly max: number;
  /** The first share asks the exchange, and the others read the archive. Left out: all markets. */
  readonly share?: Share | undefined;
}

/** Listed names that an error shows. */
const LISTED_SHOWN = 10;

type MarketListChanges = Awaited<ReturnType<ArchivePort['ensureMarkets']>>;

/** Keeps the list of markets that are collected, as the exchange and the configuration have it. */
export class MarketList {
  readonly #options: MarketListOptions;
  readonly #share: Share;
  #chosen: ReadonlyMap<string, number> = new Map();
  #collected: ReadonlyMap<string, number> = new Map();
  #missing: readonly string[] = [];
  #leftOut = 0;
  #hasBegun = false;

  constructor(options: MarketListOptions) {
    this.#options = options;
    this.#share = options.share ?? Share.whole;
  }

  /** Ids of the markets that all shares together collect, by name. */
  get chosen(): ReadonlyMap<string, number> {
    return this.#chosen;
  }

  /** Ids of the markets that are collected, by name. */
  get collected(): ReadonlyMap<string, number> {
    return this.#collected;
  }

  /** Names that the configuration wants and the exchange does not list. */
  get missing(): readonly string[] {
    return this.#missing;
  }

  /** How many markets are listed and wanted, and not collected because there are too many. */
  get leftOut(): number {
    return this.#leftOut;
  }

  /**
   * Learns the list once.
   *
   * @throws TapekeepError `no_markets`; `markets_not_listed` at the first look alone, and only when nothing
   * that is wanted was ever listed: a market that went may come back, and so may others that are waited for
   */
  async refresh(signal: AbortSignal): Promise<void> {
    await (this.#share.isFirst ? this.#ask(signal) : this.#read());
  }

  /** Reads what the first share has noted in the archive. */
  async #read(): Promise<void> {
    const { ids, delisted } = await this.#options.archive.listedMarkets();
    if (ids.size + delisted.length === 0) {
      throw new TapekeepError(
        'no_markets',
        `the archive has no list of markets yet: the daemon of share 1/${this.#share.of} asks the exchange for it`,
      );
    }
    const before = this.#collected;
    this.#choose(ids, new Set(ids.keys()));
    const isNew = (name: string) => !before.has(name);
    const added = [...this.#collected.keys()].filter(isNew).sort();
    const removed = [...before.keys()].filter((name) => !ids.has(name)).sort();
    this.#reportChanges({ added, removed, changed: [] }, before);
  }

  /** Asks the exchange, and notes in the archive what changed. */
  async #ask(signal: AbortSignal): Promise<void> {
    const { exchange, archive, time, wanted, max } = this.#options;
    const reply = await exchange.call('markets', {}, { priority: PRIORITY.markets, signal });
    if (reply.rejected.length > 0) {
      await archive.commit({
        quarantine: quarantineRows('markets', null, reply.rejected, reply.receivedAtMs),
      });
    }
    if (reply.data.length === 0) {
      throw new TapekeepError(
        'no_markets',
        'the exchange lists no market that can be read; its list is asked for again, and nothing is taken as delisted',
      );
    }
    // An entry that could not be read is no delisting: that market stays as it was known.
    const isComplete = reply.rejected.length === 0;
    const nowMs = Math.floor(time.nowMs());
    const list = { isComplete, take: { wanted, max } };
    const changes = await archive.ensureMarkets(reply.data, nowMs, list);
    const before = this.#collected;
    const names = new Set([...reply.data.map(({ name }) => name), ...changes.ids.keys()]);
    this.#choose(changes.ids, names);
    this.#reportChanges(changes, before);
    for (const { kind, market, span, reason } of changes.givenUp) {
      if (wanted.length > 0 && !wanted.includes(market)) continue;
      streamReport(this.#options.telemetry, kind, market).gap(span, reason);
    }
    const { delisted } = changes;
    const missing = wanted.filter((name) => !names.has(name));
    const listed = [...names].sort();
    const isAnyKnown = missing.length < wanted.length || missing.some((n) => delisted.includes(n));
    if (!this.#hasBegun && isComplete && wanted.length > 0 && !isAnyKnown) {
      // Most likely misspelt: to wait in silence would lose the time until an operator looks.
      throw unlisted(missing, listed);
    }
    this.#hasBegun = true;
    this.#reportMissing(missing, listed);
  }

  /**
   * Those that the archive has known longest are kept: what is listed anew pushes none of them out, and
   * the choice is the same at every start.
   */
  #choose(ids: ReadonlyMap<string, number>, listed: ReadonlySet<string>): void {
    const { wanted, max, telemetry } = this.#options;
    const names = new Set(wanted);
    const isWanted = (name: string) => names.size === 0 || names.has(name);
    const all = [...ids].filter(([name]) => isWanted(name));
    const kept = all.length > max ? all.sort(([, a], [, b]) => a - b).slice(0, max) : all;
    this.#chosen = new Map(kept);
    this.#collected = new Map(kept.filter(([name]) => this.#share.has(name)));
    const leftOut = [...listed].filter(isWanted).length - kept.length;
    if (leftOut === this.#leftOut) return;
    this.#leftOut = leftOut;
    telemetry.marketsLeftOut({ count: leftOut, max });
  }

  /** Of markets that are left out nothing is reported: there may be any number of them. */
  #reportChanges(
    changes: Pick<MarketListChanges, 'added' | 'removed' | 'changed'>,
    before: ReadonlyMap<string, number>,
  ): void {
    const isOurs = (name: string) =>
      this.#leftOut === 0 || this.#collected.has(name) || before.has(name);
    const added = changes.added.filter(isOurs);
    const removed = changes.removed.filter(isOurs);
    const changed = changes.changed.filter(isOurs);
    if (added.length + removed.length + changed.length === 0) return;
    this.#options.telemetry.marketsChanged({ added, removed, changed });
  }

  /** Says once, not at every refresh, which wanted markets do not exist. */
  #reportMissing(names: readonly string[], listed: readonly string[]): void {
    if (names.join() === this.#missing.join()) return;
    this.#missing = names;
    const wrong = namesWithAdvice(names, listed);
    const message = `the exchange does not list ${wrong}, named in the setting "markets"; what appears later is picked up`;
    this.#options.telemetry.marketsMissing({ names, message });
  }
}

function unlisted(missing: readonly string[], listed: readonly string[]): TapekeepError {
  const some = listed.slice(0, LISTED_SHOWN).join(', ');
  const more = listed.length > LISTED_SHOWN ? `, and ${listed.length - LISTED_SHOWN} more` : '';
  return new TapekeepError(
    'markets_not_listed',
    `the exchange lists none of the markets that the setting "markets" (TAPEKEEP_MARKETS) names: ${namesWithAdvice(missing, listed)}. It lists ${some}${more}. Correct the setting, or leave it out to collect all of them`,
  );
}

/** Names that are not listed, each with the listed one that may be meant. */
function namesWithAdvice(names: readonly string[], listed: readonly string[]): string {
  const known = new Map(listed.map((name) => [bareName(name), name]));
  return names
    .map((name) => {
      const meant = known.get(bareName(name)) ?? nearestName(name, listed);
      return meant === undefined ? name : `${name} (did you mean ${meant}?)`;
    })
    .join(', ');
}

/** A name without what people get wrong: case and the sign between the currencies. */
function bareName(name: string): string {
  return name.replaceAll(/[^a-z0-9]/gi, '').toUpperCase();
}
