import { ClaimGate } from '../../collect/claim-gate.js';
import { type MarketUnit, openMarketUnit } from '../../collect/market-unit.js';
import { patientArchive } from '../../collect/patient.js';
import type { ArchivePort, ClaimTime, ExchangePort } from '../../collect/ports.js';
import { TradeEvidence } from '../../collect/trades/evidence.js';
import { SinceModes } from '../../collect/trades/since-mode.js';
import type { Config } from '../../config/schema.js';
import type { Clock } from '../../kernel/clock.js';
import { systemRandom } from '../../kernel/random.js';
import type { StreamRef } from '../../ledger/batch.js';
import type { Telemetry } from '../../observe/events.js';

export interface UnitSurroundings {
  readonly config: Config;
  readonly archive: ArchivePort;
  readonly exchange: ExchangePort;
  readonly time: ClaimTime;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly signal: AbortSignal;
}

/** What is to be filled of one market. */
export interface UnitScope {
  readonly market: string;
  readonly marketId: number;
  readonly trades: boolean;
  readonly times: boolean;
  readonly intervalsS: readonly number[];
}

/**
 * The collectors of markets, made to fetch nothing but what they are told to want: no history of
 * their own accord, and only streams that can be fetched later.
 */
export class FillUnits {
  readonly #surroundings: UnitSurroundings;
  readonly #archive: ArchivePort;
  readonly #traits = { trades: { largestPage: 0 }, times: { largestPage: 0 } };
  readonly since: SinceModes;

  constructor(surroundings: UnitSurroundings) {
    this.#surroundings = surroundings;
    const { archive, clock, telemetry, signal, time } = surroundings;
    const patient = patientArchive(archive, { clock, random: systemRandom, signal });
    this.#archive = onlyWanted(
      new ClaimGate(patient, time, clock).archive,
      Math.floor(time.nowMs()),
    );
    this.since = new SinceModes({ archive: patient, clock, telemetry: telemetry.collect });
  }

  /** Its streams are made as the daemon makes them, so that a later start expects the same. */
  open({ market, marketId, trades, times, intervalsS }: UnitScope): Promise<MarketUnit> {
    const { config, exchange, time, clock, telemetry } = this.#surroundings;
    const { streams } = config;
    const settings = {
      markets: config.markets,
      streams: {
        ...streams,
        trades: { ...streams.trades, enabled: trades, exactTimes: times },
        depth: { ...streams.depth, enabled: false },
        klines: { ...streams.klines, enabled: intervalsS.length > 0, intervalsS },
        states: { ...streams.states, enabled: false },
      },
    };
    const context = {
      ...{ settings, exchange, archive: this.#archive, time, clock, random: systemRandom },
      telemetry: telemetry.collect,
      traits: this.#traits,
      since: this.since,
      evidenceOf: (name: string) =>
        new TradeEvidence({ market: name, time, clock, telemetry: telemetry.collect }),
      depthToleranceMs: 0,
      watch: { pushed: () => undefined, followed: () => undefined },
      openStateFeed: () => {
        throw new Error('no states are collected here');
      },
    };
    return openMarketUnit(context, market, marketId);
  }
}

/**
 * The archive, with streams that expect nothing before now: what their collectors take for missing
 * is then only what they are told to want. What the ledger itself expects stays as it is.
 */
function onlyWanted(archive: ArchivePort, nowMs: number): ArchivePort {
  return {
    ...archive,
    async ensureStream(key): Promise<StreamRef> {
      const stream = await archive.ensureStream(key);
      return { ...stream, collectFromMs: key.kind === 'kline' ? null : nowMs };
    },
    setCollectFrom: async () => undefined,
  };
}
