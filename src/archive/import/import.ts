import { basename } from 'node:path';
import type { Batch, RowOutcomes } from '../../model/batch.js';
import { NO_OUTCOMES } from '../../model/batch.js';
import type { PartitionMarket, Store } from '../../store/index.js';
import { ImportRefusedError } from '../errors.js';
import { importFiles, type PlacingOptions } from './direct.js';
import type { ImportedRow } from './source.js';

export interface ImportOptions extends PlacingOptions {
  readonly path: string;
}

/** Rows that are committed together, and commits under way at once. */
const BATCH_ROWS = 10_000;
const COMMITS_AT_ONCE = 3;

/**
 * Stores the rows of a file, then the claim for each of its markets. Rows that are stored already count as duplicates, so
 * an import that was stopped goes on when it is run again.
 *
 * @returns the outcomes of the rows
 * @throws ImportRefusedError before anything is stored; StoreError; the signal's reason
 */
export async function importRows(options: ImportOptions): Promise<RowOutcomes> {
  const { store, source, kind, intervalS, nowMs, onProgress, signal } = options;
  const markets = await marketsByName(store, source.facts.markets);
  const table = kind === 'trades' ? 'trade' : 'kline';
  const placed = await importFiles(options, markets);
  let sum: RowOutcomes = { ...NO_OUTCOMES, stored: placed.stored, duplicate: placed.duplicate };
  const underWay = new Set<Promise<void>>();
  let done = placed.stored + placed.duplicate;
  const send = async (rows: readonly ImportedRow[]) => {
    const batch = batchOf(rows, markets);
    const work = store.commit(batch, { signal }).then(({ outcomes }) => {
      sum = addOutcomes(sum, outcomes[table]);
      done += rows.length;
      onProgress(done, rows.at(-1)?.market ?? '');
    });
    const tracked = work.finally(() => underWay.delete(tracked));
    underWay.add(tracked);
    if (underWay.size >= COMMITS_AT_ONCE) await Promise.race(underWay);
  };
  try {
    let rows: ImportedRow[] = [];
    for await (const piece of source.rows(nowMs, placed.spans)) {
      signal.throwIfAborted();
      rows.push(...piece);
      if (rows.length < BATCH_ROWS) continue;
      await send(rows);
      rows = [];
    }
    if (rows.length > 0) await send(rows);
    await Promise.all(underWay);
  } finally {
    await Promise.allSettled(underWay);
  }
  if (sum.rejected + sum.conflict === 0) {
    for (const { marketId } of markets.values()) await claimSpan(options, marketId, intervalS);
  }
  return sum;
}

/** Markets of the file. @throws ImportRefusedError */
async function marketsByName(
  store: Store,
  names: readonly string[],
): Promise<Map<string, PartitionMarket>> {
  const known = await store.query<PartitionMarket>(
    'SELECT name AS market, market_id AS "marketId", base_prec AS "basePrec", quote_prec AS "quotePrec" FROM market',
  );
  const ids = new Map(known.map((one) => [one.market, one]));
  const unknown = names.filter((name) => !ids.has(name));
  if (unknown.length === 0) return new Map([...ids].filter(([name]) => names.includes(name)));
  const [first] = unknown;
  const there = [...ids.keys()].sort().slice(0, 5).join(', ');
  throw new ImportRefusedError(
    `the archive has no market ${first === '' ? '(none is named: give --market)' : first}${
      there === ''
        ? ': start the collector once, which reads the list of markets'
        : `; it has ${there}, …`
    }. Name the market of the file by --market`,
  );
}

function batchOf(
  rows: readonly ImportedRow[],
  markets: ReadonlyMap<string, PartitionMarket>,
): Batch {
  const trades = [];
  const klines = [];
  for (const row of rows) {
    const marketId = markets.get(row.market)?.marketId ?? 0;
    if ('trade' in row) trades.push({ ...row.trade, marketId });
    else klines.push({ ...row.kline, marketId });
  }
  return { ...(trades.length > 0 && { trades }), ...(klines.length > 0 && { klines }) };
}

/** Marks a claim as the user's: nothing in the file proves that it has all of the span. */
async function claimSpan(
  { store, source, path, kind, claim, signal }: ImportOptions,
  marketId: number,
  intervalS: number,
): Promise<void> {
  if (claim === undefined) return;
  const key = { kind, marketId, variant: intervalS };
  const stream = await store.ensureStream({ ...key, collectFromMs: claim.fromMs });
  const { sha256, rows } = source.facts;
  const evidence = { claim: 'stated at import', file: basename(path), sha256, rows };
  await store.commit({ claims: [{ stream, span: claim, evidence }] }, { signal });
}

function addOutcomes(a: RowOutcomes, b: RowOutcomes): RowOutcomes {
  return {
    stored: a.stored + b.stored,
    updated: a.updated + b.updated,
    duplicate: a.duplicate + b.duplicate,
    conflict: a.conflict + b.conflict,
    rejected: a.rejected + b.rejected,
  };
}
