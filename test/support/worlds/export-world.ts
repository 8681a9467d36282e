import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { FolderStorage } from '../../../src/archive/cold/storage.js';
import { type ExportPart, exportSeries } from '../../../src/archive/export/export.js';
import type { Format, Manifest } from '../../../src/archive/export/manifest.js';
import { Output } from '../../../src/archive/export/output.js';
import { DuckSession, identifier, literal } from '../../../src/archive/parquet/session.js';
import { openReading } from '../../../src/archive/reading.js';
import { systemClock } from '../../../src/kernel/clock.js';
import type { TradeRow } from '../../../src/model/batch.js';
import type { SeriesKind } from '../../../src/model/kinds.js';
import type { Store } from '../../../src/store/index.js';
import { openTestStore } from '../postgres/postgres.js';
import { claim, NOON_S, trade } from '../postgres/postgres-rows.js';

/** A folder of the test's own, gone after it. */
export async function makeFolder(t: TestContext, name = 'plain'): Promise<string> {
  const base = await mkdtemp(join(tmpdir(), 'tapekeep-export-test-'));
  t.after(() => rm(base, { recursive: true, force: true }));
  const folder = join(base, name);
  await mkdir(folder);
  return folder;
}

/** Everything in a folder, hidden or not. */
export async function namesIn(folder: string): Promise<string[]> {
  return (await readdir(folder)).sort();
}

export async function openDuck(t: TestContext): Promise<DuckSession> {
  const duck = await DuckSession.open(await makeFolder(t, 'spill'));
  t.after(() => duck.close());
  return duck;
}

/** The rows of a Parquet file in their order, each value as text. */
export async function parquetTexts(
  duck: DuckSession,
  columns: readonly { readonly name: string }[],
  path: string,
): Promise<(string | null)[][]> {
  const selected = columns.map(({ name }) => `${identifier(name)}::VARCHAR`).join(', ');
  const rows = await duck.rows('reading', `SELECT ${selected} FROM read_parquet(${literal(path)})`);
  return rows.map((row) => row.map((value) => (value === null ? null : String(value))));
}

export interface ExportRun {
  readonly store: Store;
  readonly kind: SeriesKind;
  readonly parts: readonly ExportPart[];
  readonly format: Format;
  readonly path: string;
  readonly variantS?: number;
  readonly allowGaps?: boolean;
  readonly isForced?: boolean;
  readonly coldDir?: string;
  /** Exchange time; default: the end of the last part. */
  readonly nowMs?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: () => void;
  readonly onPhase?: () => void;
}

/** Exports as the command does; the output is closed whatever happens. */
export async function runExport({ store, path, ...given }: ExportRun): Promise<Manifest> {
  const output = await Output.open({
    ...{ path, manifestPath: undefined, isForced: given.isForced === true },
    sink: { write: () => Promise.reject(new Error('no sink')) },
  });
  const signal = given.signal ?? new AbortController().signal;
  const reading = await openReading(store, {
    cold: new FolderStorage(given.coldDir ?? tmpdir()),
    signal,
  });
  const ignore = () => undefined;
  try {
    return await exportSeries(
      {
        ...{ kind: given.kind, variantS: given.variantS ?? 0, parts: given.parts },
        ...{ format: given.format, allowGaps: given.allowGaps === true, version: '1.2.3' },
        archive: await store.archive(),
        nowMs: given.nowMs ?? Math.max(...given.parts.map(({ span }) => span.toMs)),
      },
      {
        ...{ reader: reading, output, clock: systemClock, signal },
        onProgress: given.onProgress ?? ignore,
        onPhase: given.onPhase ?? ignore,
      },
    );
  } finally {
    await reading.close();
    await output.discard();
  }
}

/** Lines of CSV without quotes, as fields; the heading first. */
export async function readCsv(path: string): Promise<string[][]> {
  const text = await readFile(path, 'utf8');
  return text
    .split('\r\n')
    .slice(0, -1)
    .map((line) => line.split(','));
}

const currencies = { stock: 'A', money: 'B', stockPrec: 8, moneyPrec: 8, feePrec: 4 };

/** Markets with trades that are covered whole, each over the same hundred seconds after noon. */
export async function openTradeArchive(
  tapes: Readonly<Record<string, readonly TradeRow[]>>,
): Promise<{ readonly store: Store; readonly url: string; readonly parts: readonly ExportPart[] }> {
  const { store, url } = await openTestStore();
  const names = Object.keys(tapes);
  const markets = names.map((name) => ({ name, ...currencies, minAmount: '0' }));
  const { ids } = await store.ensureMarkets(markets, NOON_S * 1000);
  const parts: ExportPart[] = [];
  for (const [market, rows] of Object.entries(tapes)) {
    const marketId = ids.get(market) ?? 0;
    const stream = await store.ensureStream({ kind: 'trades', marketId, variant: 0 });
    const trades = rows.map((row) => ({ ...row, marketId }));
    await store.commit({ trades, claims: [claim(stream, 0, 100)] });
    parts.push({ market, marketId, stream, span: secondsAfterNoon(0, 100), notes: [] });
  }
  return { store, url, parts };
}

export function secondsAfterNoon(fromS: number, toS: number) {
  return { fromMs: (NOON_S + fromS) * 1000, toMs: (NOON_S + toS) * 1000 };
}

/** Trades whose decimals no float holds, some with a total of its own. */
export function awkwardTrades(count: number): TradeRow[] {
  return Array.from({ length: count }, (_, index) => {
    const price = `${index % 7 === 0 ? '0.000000000000000001' : '61837.63000000'}`;
    const second = Math.floor((index * 100) / count);
    const executedAtUs = index % 5 === 0 ? null : (NOON_S + second) * 1_000_000 + 123_457;
    return trade(9_007_199_254_000_000 + index, second, {
      ...{ price, amount: '3', side: index % 2 === 0 ? 'buy' : 'sell' },
      total: index % 7 === 0 ? '0.000000000000000003' : index % 3 === 0 ? '185512.9' : '185512.89',
      executedAtUs,
    });
  });
}
