import type { Market } from '../../contract/resources.js';
import { equalDecimals } from '../../kernel/decimal.js';
import { exchangeKindOf } from '../../kernel/exchange-kind.js';
import { isEmptySpan } from '../../kernel/span.js';
import { isoMs } from '../../kernel/timestamp.js';
import type { StreamRef } from '../../model/batch.js';
import type { StartTries } from '../../model/explain.js';
import type { GapReason } from '../../model/gap-reasons.js';
import { MOMENT_STREAMS, type StreamKind } from '../../model/series.js';
import { type Gap, listGaps, rememberGap } from '../completeness/gaps.js';
import { streamRefSql } from '../completeness/ledger.js';
import type { Runner } from '../connection.js';
import type { Database } from '../database.js';
import { StoreError } from '../errors.js';
import { lockRowsSql } from '../locks.js';
import { fromMs, toMs, unnested } from '../sql.js';
import { keptFromSql } from './partitions.js';

/** The exchange that an archive belongs to. */
export interface ArchiveIdentity {
  readonly name: string;
  readonly baseUrl: string;
  /** What it has is made up, or of the past: see {@link exchangeKindOf}. */
  readonly isSandbox: boolean;
  /** Names the exchange's history (its header `x-tapekeep-exchange`); null where none is sent. */
  readonly identity: string | null;
  /** How it is asked; default `contract`. */
  readonly dialect?: string;
}

/** Markets that are to be known: an exchange may list any number of others. */
export interface MarketChoice {
  /** None: all of them. */
  readonly wanted: readonly string[];
  /** Of those that are listed now. */
  readonly max: number;
}

/** Part of a gap that was given up, with why. */
type GivenUp = Gap & { readonly reason: GapReason };

/** The list of markets as the archive has it. */
export interface ListedMarkets {
  /** Market ids by name, of all markets that are listed now. */
  readonly ids: ReadonlyMap<string, number>;
  /** Known from before and not listed now, whenever they left the list. */
  readonly delisted: readonly string[];
}

/** Changes that a complete list of markets brought. */
export interface MarketChanges extends ListedMarkets {
  /** Seen for the first time, or again after a delisting. */
  readonly added: readonly string[];
  /** Absent from the list: delisted as of now. */
  readonly removed: readonly string[];
  /** Other precision or minimum than before. */
  readonly changed: readonly string[];
  /** Given up of those, where nothing was known of the gap before. */
  readonly givenUp: readonly GivenUp[];
}

export interface StreamKey extends Pick<StreamRef, 'kind' | 'marketId' | 'variant'> {
  /** Used only when the stream is new. */
  readonly collectFromMs?: number | null;
}

const LOCK_CATALOG = lockRowsSql('catalog');

const READ_ARCHIVE = `
  SELECT name, base_url, is_sandbox, identity, dialect FROM archive`;
const CLAIM_ARCHIVE = `
  INSERT INTO archive (name, base_url, is_sandbox, identity, dialect) VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (is_only) DO UPDATE
    SET name = excluded.name, base_url = excluded.base_url, identity = coalesce(excluded.identity, archive.identity),
        since_modes = CASE archive.base_url WHEN excluded.base_url THEN archive.since_modes
                                            ELSE '{}' END`;

/**
 * Binds this archive to an exchange, or checks that it is bound to this one: which may have moved, with the name that
 * is made from its address.
 *
 * @throws {@link StoreError} `archive_of_another_exchange`
 */
export async function claimArchive(database: Database, wanted: ArchiveIdentity): Promise<void> {
  await database.transaction(async (runner) => {
    await runner.rows(LOCK_CATALOG);
    const bound = await readArchive(runner);
    const other = bound === null ? undefined : otherExchange(bound, wanted);
    if (other !== undefined) throw other;
    const { name, baseUrl, isSandbox, identity, dialect = 'contract' } = wanted;
    await runner.rows(CLAIM_ARCHIVE, [name, baseUrl, isSandbox, identity, dialect]);
  });
}

/** The exchange that this archive is bound to, or null before the first claim. */
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
  if ((bound.dialect ?? 'contract') !== (wanted.dialect ?? 'contract')) return false;
  const isIdentityKnown = bound.identity !== null && wanted.identity !== null;
  return isIdentityKnown ? bound.identity === wanted.identity : bound.name === wanted.name;
}

function describeExchange({
  name,
  baseUrl,
  identity,
  dialect = 'contract',
}: ArchiveIdentity): string {
  const history = identity === null ? '' : `, history ${identity}`;
  const asked = dialect === 'contract' ? '' : `, asked as ${dialect}`;
  return `the ${exchangeKindOf(identity)} "${name}" at ${baseUrl}${history}${asked}`;
}

/** Why an archive that is bound to one exchange cannot take the data of another; undefined where it is the same. */
export function otherExchange(
  bound: ArchiveIdentity,
  wanted: ArchiveIdentity,
): StoreError | undefined {
  if (isSameExchange(bound, wanted)) return undefined;
  return new StoreError(
    'archive_of_another_exchange',
    `this database is the archive of ${describeExchange(bound)} and cannot take the data of ${describeExchange(wanted)}: give each exchange a database of its own (database.url, or dataDir for the embedded one)`,
  );
}

const READ_MARKETS = `
  SELECT market_id, name, base AS stock, quote AS money, base_prec AS stock_prec, quote_prec AS money_prec,
         fee_prec, min_amount, delisted_at IS NOT NULL AS is_delisted
  FROM market`;
const INSERT_MARKETS = `
  INSERT INTO market (name, base, quote, base_prec, quote_prec, fee_prec, min_amount,
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
  INSERT INTO market_history (market_id, span, base_prec, quote_prec, fee_prec, min_amount)
  SELECT m.market_id, tstzrange(f.since, ${fromMs('$2')}), base_prec, quote_prec, fee_prec, min_amount
  FROM market m, LATERAL (
    SELECT coalesce(max(upper(span)), m.first_seen_at) AS since
    FROM market_history h WHERE h.market_id = m.market_id) f
  WHERE m.market_id = $1 AND f.since < ${fromMs('$2')}`;
const CHANGE_TERMS = `
  UPDATE market SET base_prec = $2, quote_prec = $3, fee_prec = $4, min_amount = $5
  WHERE market_id = $1`;

interface KnownMarket extends Market {
  readonly marketId: number;
  readonly isDelisted: boolean;
}

/** Returns the list as it was last noted. */
export async function readListedMarkets(runner: Runner): Promise<ListedMarkets> {
  const rows = await runner.rows<KnownMarket>(READ_MARKETS);
  const listed = rows.filter(({ isDelisted }) => !isDelisted);
  const delisted = rows.filter(({ isDelisted }) => isDelisted).map(({ name }) => name);
  return {
    ids: new Map(listed.map(({ name, marketId }) => [name, marketId])),
    delisted: delisted.sort(),
  };
}

export const ALL_MARKETS: MarketChoice = { wanted: [], max: Number.MAX_SAFE_INTEGER };

/**
 * Upserts a list of markets. Those absent from a complete list (the default) are marked as
 * delisted; those absent from an incomplete one stay as they are known, and keep their ids. New ones are
 * taken in by name, as long as no more are listed of those that are wanted than `take.max`.
 */
export async function ensureMarkets(
  database: Database,
  markets: readonly Market[],
  atMs: number,
  list: { readonly isComplete: boolean; readonly take?: MarketChoice } = { isComplete: true },
): Promise<MarketChanges> {
  const { isComplete, take = ALL_MARKETS } = list;
  return await database.transaction(async (runner) => {
    await runner.rows(LOCK_CATALOG);
    const rows = await runner.rows<KnownMarket>(READ_MARKETS);
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
      ids.set(market.name, row.marketId);
      if (row.isDelisted) {
        added.push(market.name);
        relisted.push(row.marketId);
      }
      if (!hasSameTerms(row, market)) {
        changed.push(market.name);
        await runner.rows(KEEP_OLD_TERMS, [row.marketId, atMs]);
        const { stockPrec, moneyPrec, feePrec, minAmount } = market;
        await runner.rows(CHANGE_TERMS, [row.marketId, stockPrec, moneyPrec, feePrec, minAmount]);
      }
    }
    await resumeListed(runner, relisted, atMs);
    await runner.rows(SEE_MARKETS, [[...ids.values()], atMs]);
    const absent = rows.filter(({ name, isDelisted }) => !isDelisted && !listed.has(name));
    const gone = isComplete ? absent : [];
    if (!isComplete) for (const { name, marketId } of absent) ids.set(name, marketId);
    const unknown = [...listed.values()].filter(({ name }) => !known.has(name));
    const fresh = takenIn(take, [...ids.keys()], unknown);
    for (const { marketId, name } of await insertMarkets(runner, fresh, atMs)) {
      ids.set(name, marketId);
      added.push(name);
    }
    const goneIds = gone.map((row) => row.marketId);
    await runner.rows(DELIST_MARKETS, [goneIds, atMs]);
    const left = await runner.rows<{ id: number }>(LEFT_OPEN);
    const givenUp = await giveUpMissing(
      runner,
      new Set([...goneIds, ...left.map(({ id }) => id)]),
      atMs,
    );
    const delisted = rows.filter(({ name }) => !ids.has(name)).map(({ name }) => name);
    const removed = gone.map((row) => row.name).sort();
    return { ids, added: added.sort(), removed, changed, delisted: delisted.sort(), givenUp };
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

function hasSameTerms(a: Market, b: Market): boolean {
  return (
    a.stockPrec === b.stockPrec &&
    a.moneyPrec === b.moneyPrec &&
    a.feePrec === b.feePrec &&
    equalDecimals(a.minAmount, b.minAmount)
  );
}

async function insertMarkets(
  runner: Runner,
  markets: readonly Market[],
  atMs: number,
): Promise<{ marketId: number; name: string }[]> {
  if (markets.length === 0) return [];
  return await runner.rows<{ marketId: number; name: string }>(INSERT_MARKETS, [
    ...unnested(
      markets,
      'name',
      'stock',
      'money',
      'stockPrec',
      'moneyPrec',
      'feePrec',
      'minAmount',
    ),
    atMs,
  ]);
}

const FIND_STREAM = `
  SELECT ${streamRefSql('stream')} FROM stream WHERE kind = $1 AND market_id = $2 AND variant = $3`;
const INSERT_STREAM = `
  INSERT INTO stream (kind, market_id, variant, collect_from)
  VALUES ($1, $2, $3, greatest(${fromMs('$4')}, ${keptFromSql('$1::text')}))
  ON CONFLICT DO NOTHING`;
/** Finds or makes a stream; racing makers get the same one. */
export async function ensureStream(runner: Runner, key: StreamKey): Promise<StreamRef> {
  const unique: [StreamKind, number, number] = [key.kind, key.marketId, key.variant];
  const [found] = await runner.rows<StreamRef>(FIND_STREAM, unique);
  if (found !== undefined) return found;
  await runner.rows(INSERT_STREAM, [...unique, key.collectFromMs ?? null]);
  const [made] = await runner.rows<StreamRef>(FIND_STREAM, unique);
  if (made === undefined) {
    throw new StoreError('database_failed', `the stream ${unique.join('/')} was not made`, {
      action: 'retry',
    });
  }
  return made;
}

/** A try to go below the lowest that is covered, while the start of history is not known. */
export type StartTry = Omit<StartTries, 'attempts'>;

/** The tries of stream `s` as columns, for lists of streams. */
export const START_TRIES = `
  CASE WHEN s.start_tries IS NOT NULL THEN json_build_object(
    'attempts', (s.start_tries->>'attempts')::int,
    'reason', s.start_tries->>'reason',
    'note', s.start_tries->>'note',
    'nextAttemptAtMs', ${toMs(`(s.start_tries->>'nextAttemptAt')::timestamptz`)}) END
  AS start_tries`;

const READ_TRIES = `SELECT ${START_TRIES} FROM stream s WHERE stream_id = $1`;

/** Once the start is known there is nothing below it to be tried. */
const NOTE_TRY = `
  UPDATE stream SET start_tries = jsonb_build_object(
    'attempts', coalesce((start_tries->>'attempts')::int, 0) + 1,
    'reason', $2::text, 'note', $3::text, 'nextAttemptAt', ${fromMs('$4')})
  WHERE stream_id = $1 AND collect_from IS NULL`;
const FORGET_TRIES = 'UPDATE stream SET start_tries = NULL WHERE stream_id = $1';

/** Tries to find the start of history that led no further; null when it is known, or the last one did. */
export async function readStartTries(runner: Runner, streamId: number): Promise<StartTries | null> {
  const [row] = await runner.rows<{ startTries: StartTries | null }>(READ_TRIES, [streamId]);
  return row?.startTries ?? null;
}

/** Counts such a try while the start is not known; null when one led further. */
export async function noteStartTry(
  runner: Runner,
  streamId: number,
  failed: StartTry | null,
): Promise<void> {
  if (failed === null) await runner.rows(FORGET_TRIES, [streamId]);
  else {
    const { reason, note, nextAttemptAtMs } = failed;
    await runner.rows(NOTE_TRY, [streamId, reason, note, nextAttemptAtMs]);
  }
}

/** How a server understands `since` and `lastId` (field notes, since / lastId). */
export type OffsetMode = 'skip' | 'id';

/** The endpoints that page through trades. */
export type PagedEndpoint = 'history' | 'historyResult';

type OffsetModes = Partial<Record<PagedEndpoint, OffsetMode>>;

const READ_MODES = 'SELECT since_modes AS modes FROM archive';
const REMEMBER_MODE = `
  UPDATE archive SET since_modes = since_modes || jsonb_build_object($1::text, $2::text)`;

/** How each endpoint understands its offset, as far as it was found out. Empty as well while the archive belongs to no exchange. */
export async function readOffsetModes(runner: Runner): Promise<OffsetModes> {
  const [row] = await runner.rows<{ modes: OffsetModes }>(READ_MODES);
  return row?.modes ?? {};
}

/** Of an archive that belongs to no exchange yet nothing is remembered: it is found out again. */
export async function rememberOffsetMode(
  runner: Runner,
  endpoint: PagedEndpoint,
  mode: OffsetMode,
): Promise<void> {
  await runner.rows(REMEMBER_MODE, [endpoint, mode]);
}

/**
 * Ledger of a market that leaves the exchange's list, or comes back to it. While it is
 * not listed it cannot be asked about: what is missing then is given up, until it is listed again.
 */

const REASON: GapReason = 'delisted';
const MISSED_REASON: GapReason = 'not observed';
const OPEN_REASON: GapReason = 'not collected';
/** Gaps of one market that are given up at once, newest first; others by the next list of markets. */
const GIVEN_UP_MAX = 1000;

/** Delisted markets with gaps that are open all the same: more than were given up at once, or opened since. */
const LEFT_OPEN = `
  SELECT DISTINCT market_id AS id FROM gap JOIN market USING (market_id)
  WHERE gap.state = 'open' AND delisted_at IS NOT NULL`;

/** When each of the markets was last on the list, and found missing from it. */
const READ_AWAY = `
  SELECT market_id, last_seen_at AS last_seen, delisted_at AS delisted FROM market
  WHERE market_id = ANY ($1::int[]) ORDER BY market_id`;

/**
 * @param marketIds markets that are marked as delisted already
 * @returns gaps of which nothing was known before
 */
async function giveUpMissing(
  runner: Runner,
  marketIds: ReadonlySet<number>,
  atMs: number,
): Promise<GivenUp[]> {
  const found: GivenUp[] = [];
  if (marketIds.size === 0) return found;
  const markets = await runner.rows<Record<'marketId' | 'lastSeenMs' | 'delistedMs', number>>(
    READ_AWAY,
    [[...marketIds]],
  );
  for (const { marketId, lastSeenMs, delistedMs } of markets) {
    const note = `the market was last on the exchange's list at ${isoMs(lastSeenMs)}, and found missing from it at ${isoMs(delistedMs)}`;
    const states = ['open', 'filling'] as const;
    const filter = { marketIds: [marketId], states, hasLag: true };
    const gaps = await listGaps(runner, { ...filter, limit: GIVEN_UP_MAX }, atMs);
    for (const gap of gaps.slice(0, GIVEN_UP_MAX - 1)) {
      const parts = await giveUp(runner, gap, { delistedMs, note, atMs });
      if (gap.gapId === null) found.push(...parts.map((part) => ({ ...gap, ...part })));
    }
    // There may be more: the last stays open, and as a memory, from which the next list of markets goes on.
    const last = gaps[GIVEN_UP_MAX - 1];
    if (last !== undefined && last.gapId === null) {
      const { span, ...stream } = last;
      await rememberGap(runner, stream, {
        ...{ span, state: 'open', reason: OPEN_REASON, note: null },
        ...{ atMs, nextAttemptAtMs: null, isAttempt: false },
      });
    }
  }
  return found;
}

/**
 * Until a list lacked the market it may have been there: what can only be seen at its instant, and was not, was missed
 * until then, as of any other market. So a replay of that time does not say which markets will leave.
 */
async function giveUp(
  runner: Runner,
  { span, kind, ...stream }: Pick<Gap, 'streamId' | 'marketId' | 'kind' | 'span'>,
  { delistedMs, note, atMs }: { delistedMs: number; note: string; atMs: number },
): Promise<Pick<GivenUp, 'span' | 'reason'>[]> {
  const { fromMs, toMs } = span;
  const goneMs = MOMENT_STREAMS.has(kind)
    ? Math.min(toMs, Math.max(fromMs, Math.floor(delistedMs)))
    : fromMs;
  const parts = [
    { span: { fromMs, toMs: goneMs }, reason: MISSED_REASON },
    { span: { fromMs: goneMs, toMs }, reason: REASON },
  ].filter((part) => !isEmptySpan(part.span));
  for (const part of parts) {
    await rememberGap(runner, stream, {
      ...{ ...part, state: 'unfillable', note },
      ...{ atMs, nextAttemptAtMs: null, isAttempt: false },
    });
  }
  return parts;
}

/** Of what can be fetched later the exchange may return the time between after all. */
const REOPEN = `
  UPDATE gap SET state = 'open', reason = '${OPEN_REASON}', note = $3, closed_at = NULL,
    next_attempt_at = NULL
  FROM stream s
  WHERE s.stream_id = gap.stream_id AND NOT s.kind = ANY ($2::text[])
    AND gap.market_id = ANY ($1::int[]) AND gap.state = 'unfillable' AND gap.reason = '${REASON}'`;

const KEEP_ABSENCE = `
  INSERT INTO market_absence (market_id, span)
  SELECT market_id, tstzrange(delisted_at, ${fromMs('$2')}) FROM market
  WHERE market_id = ANY ($1::int[]) AND delisted_at < ${fromMs('$2')}
  ON CONFLICT DO NOTHING`;

/**
 * Of $3, what can only be seen at its instant: from the end of its coverage, or its beginning, on nothing was seen. An
 * absence before this one is given up already.
 */
const UNSEEN = `
  SELECT s.stream_id, s.market_id, s.kind, c.until AS from, m.last_seen_at AS last_seen, m.delisted_at AS delisted
  FROM stream s JOIN market m USING (market_id), LATERAL (
    SELECT coalesce((
      SELECT upper(span) FROM coverage
      WHERE market_id = s.market_id AND stream_id = s.stream_id
      ORDER BY lower(span) DESC LIMIT 1), s.collect_from) AS at) began, LATERAL (
    SELECT greatest(began.at, (
      SELECT max(upper(span)) FROM market_absence WHERE market_id = s.market_id)) AS until) c
  WHERE s.kind = ANY ($3::text[]) AND s.market_id = ANY ($1::int[]) AND began.at IS NOT NULL AND c.until < ${fromMs('$2')}
  ORDER BY s.market_id, s.stream_id`;

/** @param marketIds markets that are still marked as delisted, and listed again at `atMs` */
async function resumeListed(
  runner: Runner,
  marketIds: readonly number[],
  atMs: number,
): Promise<void> {
  if (marketIds.length === 0) return;
  const unseen = await runner.rows<
    Record<'streamId' | 'marketId' | 'fromMs' | 'lastSeenMs' | 'delistedMs', number> & {
      kind: StreamKind;
    }
  >(UNSEEN, [marketIds, atMs, [...MOMENT_STREAMS]]);
  const back = isoMs(atMs);
  for (const { fromMs, lastSeenMs, delistedMs, ...stream } of unseen) {
    const [seen, missed] = [lastSeenMs, delistedMs].map(isoMs);
    const note = `the market was on the exchange's list at ${seen}, missing from it at ${missed}, and back at ${back}: nothing was observed between`;
    const span = { fromMs, toMs: atMs };
    await giveUp(runner, { ...stream, span }, { delistedMs, note, atMs });
  }
  await runner.rows(KEEP_ABSENCE, [marketIds, atMs]);
  const note = `the exchange lists the market again since ${back}`;
  await runner.rows(REOPEN, [marketIds, [...MOMENT_STREAMS], note]);
}
