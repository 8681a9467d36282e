import type { Market } from '../../contract/resources.js';
import type { StartReason, StreamRef } from '../../ledger/batch.js';
import type { StreamKind } from '../../model/series.js';
import type { ArchiveIdentity, MarketChanges, MarketChoice, StreamKey } from '../api.js';
import type { Database, Runner } from '../database.js';
import { giveUpMissing, resumeListed } from '../delisting.js';
import { StoreError } from '../errors.js';
import { fromMs, toMs } from '../instants.js';
import { lockRowsSql } from '../locks.js';
import { keptFromSql } from '../sealing/kept-from.js';

const LOCK_CATALOG = lockRowsSql('catalog');

const READ_ARCHIVE = `
  SELECT name, base_url AS "baseUrl", is_sandbox AS "isSandbox", identity FROM archive`;
const CLAIM_ARCHIVE = `
  INSERT INTO archive (name, base_url, is_sandbox, identity) VALUES ($1, $2, $3, $4)
  ON CONFLICT (is_only) DO UPDATE
    SET base_url = excluded.base_url, identity = coalesce(excluded.identity, archive.identity),
        since_modes = CASE archive.base_url WHEN excluded.base_url THEN archive.since_modes
                                            ELSE '{}' END`;

/** The archive's binding to one exchange. @throws {@link StoreError} when it is another's. */
export async function claimArchive(database: Database, wanted: ArchiveIdentity): Promise<void> {
  await database.transaction(async (runner) => {
    await runner.rows(LOCK_CATALOG);
    const bound = await readArchive(runner);
    if (bound !== null && !isSameExchange(bound, wanted)) throw otherExchange(bound, wanted);
    const { name, baseUrl, isSandbox, identity } = wanted;
    await runner.rows(CLAIM_ARCHIVE, [name, baseUrl, isSandbox, identity]);
  });
}

export async function readArchive(runner: Runner): Promise<ArchiveIdentity | null> {
  const [row] = await runner.rows<ArchiveIdentity>(READ_ARCHIVE);
  return row ?? null;
}

/**
 * A known identity decides by itself: the same exchange may move to another address, from which its
 * name is made. Without one the name decides.
 */
function isSameExchange(bound: ArchiveIdentity, wanted: ArchiveIdentity): boolean {
  if (bound.isSandbox !== wanted.isSandbox) return false;
  const isIdentityKnown = bound.identity !== null && wanted.identity !== null;
  return isIdentityKnown ? bound.identity === wanted.identity : bound.name === wanted.name;
}

function describeExchange({ name, baseUrl, isSandbox, identity }: ArchiveIdentity): string {
  const kind = isSandbox ? 'sandbox' : 'exchange';
  const history = identity === null ? '' : `, history ${identity}`;
  return `the ${kind} "${name}" at ${baseUrl}${history}`;
}

function otherExchange(bound: ArchiveIdentity, wanted: ArchiveIdentity): StoreError {
  return new StoreError(
    'archive_of_another_exchange',
    'fatal',
    `this database is the archive of ${describeExchange(bound)} and can not take the data of ${describeExchange(wanted)}: give each exchange a database of its own (database.url, or dataDir for the embedded one)`,
  );
}

const READ_MARKETS = `
  SELECT market_id, name, stock, money, stock_prec, money_prec, fee_prec, min_amount,
         delisted_at IS NOT NULL AS is_delisted
  FROM market WHERE market_id <> 0`;
const INSERT_MARKETS = `
  INSERT INTO market (name, stock, money, stock_prec, money_prec, fee_prec, min_amount,
                      first_seen_at, last_seen_at)
  SELECT m.*, ${fromMs('$8')}, ${fromMs('$8')}
  FROM unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::int[], $6::int[], $7::numeric[])
    AS m ORDER BY 1
  RETURNING market_id, name`;
const SEE_MARKETS = `
  UPDATE market SET last_seen_at = greatest(last_seen_at, ${fromMs('$2')}), delisted_at = NULL
  WHERE market_id = ANY ($1::int[])`;
const DELIST_MARKETS = `
  UPDATE market SET delisted_at = ${fromMs('$2')} WHERE market_id = ANY ($1::int[])`;
/** What held until now; since the last change, or since the market was first seen. */
const KEEP_OLD_TERMS = `
  INSERT INTO market_history (market_id, span, stock_prec, money_prec, fee_prec, min_amount)
  SELECT m.market_id, tstzrange(f.since, ${fromMs('$2')}), stock_prec, money_prec, fee_prec, min_amount
  FROM market m, LATERAL (
    SELECT coalesce(max(upper(span)), m.first_seen_at) AS since
    FROM market_history h WHERE h.market_id = m.market_id) f
  WHERE m.market_id = $1 AND f.since < ${fromMs('$2')}`;
const CHANGE_TERMS = `
  UPDATE market SET stock_prec = $2, money_prec = $3, fee_prec = $4, min_amount = $5
  WHERE market_id = $1`;
const SAME_AMOUNT = 'SELECT $1::numeric = $2::numeric AS same';

interface MarketTerms {
  readonly market_id: number;
  readonly name: string;
  readonly stock_prec: number;
  readonly money_prec: number;
  readonly fee_prec: number;
  readonly min_amount: string;
  readonly is_delisted: boolean;
}

const ALL: MarketChoice = { wanted: [], max: Number.MAX_SAFE_INTEGER };

/** Brings the table of markets in line with the exchange's list. */
export async function ensureMarkets(
  database: Database,
  markets: readonly Market[],
  atMs: number,
  { isComplete, take = ALL }: { readonly isComplete: boolean; readonly take?: MarketChoice },
): Promise<MarketChanges> {
  return await database.transaction(async (runner) => {
    await runner.rows(LOCK_CATALOG);
    const rows = await runner.rows<MarketTerms>(READ_MARKETS);
    const known = new Map(rows.map((row) => [row.name, row]));
    const listed = new Map(
      markets.filter(({ name }) => name !== '*').map((one) => [one.name, one]),
    );
    const ids = new Map<string, number>();
    const added: string[] = [];
    const relisted: number[] = [];
    const changed: string[] = [];
    for (const market of listed.values()) {
      const row = known.get(market.name);
      if (row === undefined) continue;
      ids.set(market.name, row.market_id);
      if (row.is_delisted) {
        added.push(market.name);
        relisted.push(row.market_id);
      }
      if (!(await hasSameTerms(runner, row, market))) {
        changed.push(market.name);
        await runner.rows(KEEP_OLD_TERMS, [row.market_id, atMs]);
        const { stockPrec, moneyPrec, feePrec, minAmount } = market;
        await runner.rows(CHANGE_TERMS, [row.market_id, stockPrec, moneyPrec, feePrec, minAmount]);
      }
    }
    await resumeListed(runner, relisted, atMs);
    await runner.rows(SEE_MARKETS, [[...ids.values()], atMs]);
    const absent = rows.filter(({ name, is_delisted }) => !is_delisted && !listed.has(name));
    const gone = isComplete ? absent : [];
    if (!isComplete) for (const { name, market_id } of absent) ids.set(name, market_id);
    const unknown = [...listed.values()].filter(({ name }) => !known.has(name));
    const fresh = takenIn(take, [...ids.keys()], unknown);
    for (const { market_id, name } of await insertMarkets(runner, fresh, atMs)) {
      ids.set(name, market_id);
      added.push(name);
    }
    const goneIds = gone.map((row) => row.market_id);
    await runner.rows(DELIST_MARKETS, [goneIds, atMs]);
    await giveUpMissing(runner, goneIds, atMs);
    const delisted = rows.filter(({ name }) => !ids.has(name)).map(({ name }) => name);
    const removed = gone.map((row) => row.name).sort();
    return { ids, added: added.sort(), removed, changed, delisted: delisted.sort() };
  });
}

/** Of markets that are not known yet, those that are wanted and have room, by name. */
function takenIn(
  { wanted, max }: MarketChoice,
  known: readonly string[],
  unknown: readonly Market[],
): Market[] {
  const names = new Set(wanted);
  const isWanted = (name: string) => names.size === 0 || names.has(name);
  const room = Math.max(0, max - known.filter(isWanted).length);
  const fresh = unknown.filter(({ name }) => isWanted(name));
  return fresh.sort((a, b) => (a.name < b.name ? -1 : 1)).slice(0, room);
}

async function hasSameTerms(runner: Runner, row: MarketTerms, market: Market): Promise<boolean> {
  if (
    row.stock_prec !== market.stockPrec ||
    row.money_prec !== market.moneyPrec ||
    row.fee_prec !== market.feePrec
  ) {
    return false;
  }
  if (row.min_amount === market.minAmount) return true;
  const values = [row.min_amount, market.minAmount];
  const [compared] = await runner.rows<{ same: boolean }>(SAME_AMOUNT, values);
  return compared?.same === true;
}

async function insertMarkets(
  runner: Runner,
  markets: readonly Market[],
  atMs: number,
): Promise<{ market_id: number; name: string }[]> {
  if (markets.length === 0) return [];
  return await runner.rows<{ market_id: number; name: string }>(INSERT_MARKETS, [
    markets.map(({ name }) => name),
    markets.map(({ stock }) => stock),
    markets.map(({ money }) => money),
    markets.map(({ stockPrec }) => stockPrec),
    markets.map(({ moneyPrec }) => moneyPrec),
    markets.map(({ feePrec }) => feePrec),
    markets.map(({ minAmount }) => minAmount),
    atMs,
  ]);
}

const STREAM_COLUMNS = `
  stream_id AS "streamId", kind, market_id AS "marketId", variant,
  ${toMs('collect_from')} AS "collectFromMs"`;
const FIND_STREAM = `
  SELECT ${STREAM_COLUMNS} FROM stream WHERE kind = $1 AND market_id = $2 AND variant = $3`;
const INSERT_STREAM = `
  INSERT INTO stream (kind, market_id, variant, collect_from)
  VALUES ($1, $2, $3, greatest(${fromMs('$4')}, ${keptFromSql('$1::text')}))
  ON CONFLICT DO NOTHING`;
const SET_COLLECT_FROM = `
  UPDATE stream SET collect_from = greatest(${fromMs('$2')}, ${keptFromSql('kind')}),
    start_tries = NULL, start_reason = $3
  WHERE stream_id = $1`;

/** Finds or makes a stream; racing makers get the same one. */
export async function ensureStream(runner: Runner, key: StreamKey): Promise<StreamRef> {
  const unique: [StreamKind, number, number] = [key.kind, key.marketId, key.variant];
  const [found] = await runner.rows<StreamRef>(FIND_STREAM, unique);
  if (found !== undefined) return found;
  await runner.rows(INSERT_STREAM, [...unique, key.collectFromMs ?? null]);
  const [made] = await runner.rows<StreamRef>(FIND_STREAM, unique);
  if (made === undefined) {
    throw new StoreError('database_failed', 'retry', `the stream ${unique.join('/')} was not made`);
  }
  return made;
}

export async function setCollectFrom(
  runner: Runner,
  streamId: number,
  collectFromMs: number,
  reason: StartReason | null,
): Promise<void> {
  await runner.rows(SET_COLLECT_FROM, [streamId, collectFromMs, reason]);
}
