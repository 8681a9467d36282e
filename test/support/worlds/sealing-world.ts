import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { FolderStorage } from '../../../src/archive/cold/storage.js';
import {
  type LifeOptions,
  type LifeReport,
  liveOn,
  previewSealing,
  restore,
} from '../../../src/archive/sealing/life.js';
import type { LifeRules } from '../../../src/archive/sealing/plan.js';
import type { LifeStep, LifeWatcher } from '../../../src/archive/sealing/seal.js';
import { systemClock } from '../../../src/kernel/clock.js';
import type { StreamRef, TradeRow } from '../../../src/model/batch.js';
import type { PartitionInfo, Store } from '../../../src/store/index.js';
import { runSql } from '../postgres/postgres.js';
import { trade } from '../postgres/postgres-rows.js';
import { standInForCold } from './cold-stand-in.js';
import { openWithStreams } from './store-world.js';

export const DAY_MS = 86_400_000;
/** 2026-01-13, the first of three days. */
export const FIRST_MS = Date.UTC(2026, 0, 13);
/** Long after. */
export const LATER_MS = Date.UTC(2026, 3, 1);

export const ALL_AT_ONCE: LifeRules = {
  ...{
    sealAfterMs: DAY_MS,
    coldAfterMs: null,
    retentionMs: {},
    restMs: 0,
    needsChecks: true,
    needsTimes: false,
  },
};

/** Trades of two markets on each of three days, with decimals that no float holds. */
export function threeDays(perDay = 40): TradeRow[] {
  return [0, 1, 2].flatMap((day) =>
    Array.from({ length: perDay * 2 }, (_, n): TradeRow => {
      const tradedAtS = FIRST_MS / 1000 + day * 86_400 + 60 * n;
      const isOdd = n % 7 === 0;
      return trade(1 + day * 1000 + n, 0, {
        ...{ marketId: 1 + (n % 2), tradedAtS, side: n % 3 === 0 ? 'buy' : 'sell' },
        executedAtUs: n % 5 === 0 ? null : tradedAtS * 1_000_000 + 123_457,
        ...{ price: isOdd ? '0.000000000000000001' : '61837.63000000', amount: '3.0' },
        total: isOdd ? '0.000000000000000003' : n % 4 === 0 ? '185512.9' : '185512.89',
        receivedAtMs: tradedAtS * 1000 + 321,
      });
    }),
  );
}

export interface SealingWorld {
  readonly store: Store;
  readonly url: string;
  readonly coldDir: string;
  readonly streams: readonly StreamRef[];
}

/** Three days of two markets, covered whole. */
export async function openSealingWorld(
  t: TestContext,
  perDay?: number,
  databaseUrl?: string,
): Promise<SealingWorld> {
  const { store, url, trades } = await openWithStreams(databaseUrl);
  const other = await store.ensureStream({ kind: 'trades', marketId: 2, variant: 0 });
  const span = { fromMs: FIRST_MS, toMs: FIRST_MS + 3 * DAY_MS };
  const streams = [trades, other];
  const claims = streams.map((stream) => ({ stream, span, evidence: {} }));
  await store.commit({ trades: threeDays(perDay), claims });
  await standInForCold(url);
  const coldDir = await mkdtemp(join(tmpdir(), 'tapekeep-cold-test-'));
  t.after(() => rm(coldDir, { recursive: true, force: true }));
  return { store, url, coldDir, streams };
}

export interface LifeRun extends Partial<Omit<LifeOptions, 'rules' | 'watcher'>> {
  readonly rules?: Partial<LifeRules>;
  readonly onStep?: LifeWatcher['onStep'];
}

function optionsOf({ store, coldDir }: Pick<SealingWorld, 'store' | 'coldDir'>, run: LifeRun) {
  const { rules, onStep, ...rest } = run;
  return {
    ...{
      store,
      cold: new FolderStorage(coldDir),
      clock: systemClock,
      version: '1.2.3',
      nowMs: LATER_MS,
    },
    signal: new AbortController().signal,
    rules: { ...ALL_AT_ONCE, ...rules },
    watcher: { onStep: onStep ?? (() => undefined), onRows: () => undefined },
    ...rest,
  };
}

export async function live(
  world: Pick<SealingWorld, 'store' | 'coldDir'>,
  run: LifeRun = {},
): Promise<LifeReport> {
  return await liveOn(optionsOf(world, run));
}

export async function preview(
  world: Pick<SealingWorld, 'store' | 'coldDir'>,
  run: LifeRun = {},
): Promise<LifeReport> {
  return await previewSealing(optionsOf(world, run));
}

export async function bringBack(
  world: Pick<SealingWorld, 'store' | 'coldDir'>,
  run: LifeRun = {},
  isWithoutFiles = false,
): Promise<LifeReport> {
  return await restore(optionsOf(world, run), isWithoutFiles);
}

/** The partitions of trades, oldest first. */
export async function tradePartitions(store: Store): Promise<PartitionInfo[]> {
  return (await store.sealing.partitions()).filter(({ table }) => table === 'trade');
}

/** All trades with every digit of their values. */
export async function allTrades(url: string): Promise<object[]> {
  return await runSql(
    url,
    `SELECT market_id, traded_at::text, tid::text, executed_at::text, side::text,
            trim_scale(price)::text AS price, trim_scale(amount)::text AS amount,
            trim_scale(total)::text AS total, received_at::text
     FROM trade ORDER BY market_id, traded_at, tid`,
  );
}

export type { LifeStep };
