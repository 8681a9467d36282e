import { setMaxListeners } from 'node:events';
import {
  createExchangeClient,
  createExchangeClock,
  openStateFeed,
} from '../../../src/client/index.js';
import { Collector } from '../../../src/collect/collector.js';
import { Ledgers } from '../../../src/collect/ledgers.js';
import { type CollectSettings, openMarketUnit } from '../../../src/collect/market-unit.js';
import { type ArchivePort, calledBy, PRIORITY } from '../../../src/collect/ports.js';
import { TradeEvidence } from '../../../src/collect/trades/evidence.js';
import { GapFiller } from '../../../src/collect/trades/filler.js';
import { OffsetModes } from '../../../src/collect/trades/offset-mode.js';
import { noTraits } from '../../../src/collect/trades/walk.js';
import type { TradeWalker } from '../../../src/collect/trades/walker.js';
import { RequestBudget } from '../../../src/kernel/budget.js';
import { systemClock } from '../../../src/kernel/clock.js';
import { isAborted } from '../../../src/kernel/errors.js';
import { systemRandom } from '../../../src/kernel/random.js';
import type { CollectEvents } from '../../../src/observe/events.js';
import { noTelemetry } from '../no-telemetry.js';
import {
  copyDatabase,
  openPlainStore,
  runSql,
  type TestPostgres,
} from '../postgres/postgres-server.js';

/** Ways to choose whose newest trades are asked for: our collector, and the simplest one there is. */
export const POLICIES = ['pushed', 'roundRobin'] as const;
export type Policy = (typeof POLICIES)[number];

export interface ContestantOptions {
  readonly policy: Policy;
  readonly postgres: TestPostgres;
  readonly server: { readonly url: string; readonly realtimeUrl: string };
  readonly requestsPerS: number;
  /** How far back history is wanted, milliseconds; default: from the start on. */
  readonly history?: number | 'all';
  readonly exactTimes: boolean;
  /** Cron expression of ours for trades. */
  readonly floorSchedule: string;
  /** Collects depth and candles as well, with the schedules of the default settings. */
  readonly collectsAll?: boolean;
}

export interface Contestant {
  /** When the commit that first stored a trade had ended, by id; this machine's time. */
  readonly storedAtMs: ReadonlyMap<number, number>;
  /** When the newest trades of any market were first asked for; this machine's time. */
  firstPolledAtMs(): number | undefined;
  /** Longest time in the span in which some market was not asked for its newest trades. */
  longestWaitMs(fromMs: number, untilMs: number): number;
  /** Rows of trades that its looks and walks brought so far, however often. */
  receivedRows(): number;
  stop(): Promise<void>;
}

/** Polls under way at the same time; enough for the budget at the latencies of this machine. */
const WORKERS = 8;
let databases = 0;

/** Starts collecting from `server` into a database of its own. */
export async function startContestant(options: ContestantOptions): Promise<Contestant> {
  const { policy, postgres, server, exactTimes, floorSchedule, collectsAll = false } = options;
  databases += 1;
  const name = `freshness_${databases}`;
  const store = await openPlainStore(await copyDatabase(postgres.url, name));
  await store.makePartitionsAhead(systemClock.wallMs());
  const time = createExchangeClock({ clock: systemClock });
  const shared = { clock: systemClock, random: systemRandom, telemetry: noTelemetry.client };
  const budget = new RequestBudget({
    clock: systemClock,
    ratePerS: options.requestsPerS,
    burst: options.requestsPerS,
    maxWaiting: 10_000,
  });
  const client = createExchangeClient({
    ...{ ...shared, baseUrl: server.url, exchangeClock: time, budget },
  });
  const storedAtMs = new Map<number, number>();
  const archive = new Proxy<ArchivePort>(store, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key, target);
      if (key !== 'commit') return typeof value === 'function' ? value.bind(target) : value;
      const commit: ArchivePort['commit'] = async (batch, how) => {
        const result = await target.commit(batch, how);
        const nowMs = systemClock.wallMs();
        for (const { tid } of batch.trades ?? []) {
          if (!storedAtMs.has(tid)) storedAtMs.set(tid, nowMs);
        }
        return result;
      };
      return commit;
    },
  });
  const polledAtMs = new Map<string, number[]>();
  const exchange = calledBy(client, (endpoint, params, how) => {
    if (endpoint === 'history' || endpoint === 'historyResult') {
      const { market } = params as { readonly market: string };
      polledAtMs.set(market, [...(polledAtMs.get(market) ?? []), systemClock.wallMs()]);
    }
    return client.call(endpoint, params, how);
  });
  let received = 0;
  const telemetry = new Proxy<CollectEvents>(noTelemetry.collect, {
    get(target, key) {
      if (key !== 'received') return Reflect.get(target, key) as unknown;
      const count: CollectEvents['received'] = (event) => {
        if (event.stream === 'trades') received += event.count;
      };
      return count;
    },
  });
  const settings: CollectSettings = {
    markets: [],
    streams: {
      markets: { schedule: '0 0 * * * *', max: 1_000 },
      trades: {
        ...{ enabled: true, schedule: floorSchedule, exactTimes },
        history: options.history ?? 0,
      },
      depth: { enabled: collectsAll, schedule: '*/5 * * * * *', levels: 5 },
      tickers: { enabled: policy === 'pushed', schedule: '*/2 * * * * *' },
      candles: {
        ...{ enabled: collectsAll, schedule: '*/15 * * * * *', intervalsS: [60, 3600] },
        ...{ history: 0, grace: 10_000 },
      },
      states: { enabled: policy === 'pushed', periodsS: [86_400] },
    },
  };
  const connectBudget = new RequestBudget({
    ...{ clock: systemClock, ratePerS: 100, burst: 100, maxWaiting: 1000 },
  });
  const context = {
    ...{ settings, exchange, archive, time, telemetry },
    requestsPerS: () => budget.state().ratePerS,
    ...{ clock: systemClock, random: systemRandom },
    openStateFeed: (market: string, periodS: number) =>
      openStateFeed({
        ...shared,
        ...{ url: server.realtimeUrl, market, periodS, exchangeClock: time, connectBudget },
      }),
  };
  const stopPolling = await (policy === 'pushed' ? collect(context) : roundRobin(context));
  return {
    storedAtMs,
    firstPolledAtMs: () =>
      [...polledAtMs.values()].map(([first = 0]) => first).sort((a, b) => a - b)[0],
    longestWaitMs(fromMs, untilMs) {
      const waits = [...polledAtMs.values()].flatMap((moments) => {
        const before = moments.filter((atMs) => atMs < fromMs).at(-1) ?? fromMs;
        const within = moments.filter((atMs) => atMs >= fromMs && atMs < untilMs);
        const all = [before, ...within, untilMs];
        return all.slice(1).map((atMs, at) => atMs - (all[at] ?? atMs));
      });
      return Math.max(...waits);
    },
    receivedRows: () => received,
    async stop() {
      await stopPolling();
      await client.close();
      await store.stop();
      await runSql(postgres.url, `DROP DATABASE ${name} WITH (FORCE)`);
    },
  };
}

type Context = ConstructorParameters<typeof Collector>[0];

async function collect(context: Context): Promise<() => Promise<void>> {
  const collector = new Collector(context);
  await collector.start();
  return () => collector.stop();
}

/** The same walks, one market after the other, again and again. */
async function roundRobin(context: Context): Promise<() => Promise<void>> {
  const { exchange, archive, time, clock, telemetry } = context;
  const stopping = new AbortController();
  const { signal } = stopping;
  setMaxListeners(0, signal);
  const listed = await exchange.call('markets', {});
  const { ids } = await archive.ensureMarkets(listed.data, time.nowMs(), { isComplete: true });
  const filler = new GapFiller({ exchange, clock, telemetry });
  const shared = {
    ...context,
    ledgers: new Ledgers({ archive, time, clock, telemetry }),
    watch: { pushed() {}, followed() {} },
    traits: noTraits(),
    offsets: new OffsetModes({ archive, clock, telemetry }),
    evidenceOf: (market: string) => new TradeEvidence({ market, time, clock, telemetry }),
    depthToleranceMs: 0,
  };
  const walkers: TradeWalker[] = [];
  for (const [market, marketId] of ids) {
    const { trades } = await openMarketUnit(shared, market, marketId);
    if (trades !== undefined) walkers.push(trades);
  }
  for (const walker of walkers) filler.add(walker);
  filler.start();
  let next = 0;
  const work = async () => {
    while (!signal.aborted) {
      const turn = await exchange.reserve('history', PRIORITY.head, signal);
      const walker = walkers[next % walkers.length];
      next += 1;
      await walker?.pollHead(signal, turn).finally(() => turn.giveBack());
    }
  };
  const ended = Array.from({ length: WORKERS }, () =>
    work().catch((error: unknown) => {
      if (!signal.aborted && !isAborted(error)) throw error;
    }),
  );
  return async () => {
    stopping.abort();
    await Promise.all([...ended, filler.stop()]);
  };
}
