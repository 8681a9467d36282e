import type { Clock } from '../../kernel/clock.js';
import { isAborted } from '../../kernel/errors.js';
import type { Random } from '../../kernel/random.js';
import { retry } from '../../kernel/retry.js';
import { type Span, spanContains, subtractSpans } from '../../kernel/span.js';
import type { Batch, CommitResult } from '../../model/batch.js';
import type { Share } from '../../model/share.js';
import type { StoreEvents } from '../../observe/events.js';
import {
  closeOrphanSessions,
  closeSession,
  LAST_SEEN_ALIVE,
  type StreamPlace,
} from '../completeness/ledger.js';
import type { Runner } from '../connection.js';
import { actionOf } from '../errors.js';
import { type DatabaseIdentity, isSameDatabase, nameOfDatabase } from '../identity.js';
import { fromMs } from '../sql.js';
import { hasAll, type Known, readKnown, withoutClaims } from '../writer/commit-number.js';
import type { Writer } from '../writer/writer.js';
import { refused, type SpoolFiles } from './files.js';
import {
  countRows,
  decode,
  decodeHeader,
  type OpenedSession,
  renumbered,
  type SpooledBatch,
  type SpoolRecord,
  sessionsOf,
} from './records.js';

/** Stores what was kept: in its order, by the writer, as any other batch of its stream. */

const PAUSES = { baseMs: 100, capMs: 2_000, maxAttempts: 40_000 };
/** Handed to the writer at once; it makes transactions of them. */
const BATCHES_AT_ONCE = 200;
const ROWS_AT_ONCE = 20_000;

/** A session is one stream's at one time, so that one which was opened twice is found again. */
const FIND_SESSION = `
  SELECT session_id FROM session
  WHERE stream_id = $1 AND market_id = $2 AND connected_at = ${fromMs('$3')}
  ORDER BY session_id DESC LIMIT 1`;
const OPEN_SESSION = `
  INSERT INTO session (stream_id, market_id, connected_at, last_message_at)
  VALUES ($1, $2, ${fromMs('$3')}, ${fromMs('$3')}) RETURNING session_id`;

/** Closed at a start, before what they had proven was stored. */
const EXTEND_SESSIONS = `
  UPDATE session SET closed_at = greatest(closed_at, ${LAST_SEEN_ALIVE})
  WHERE market_id = ANY ($2::integer[]) AND session_id = ANY ($1::bigint[]) AND close_code IS NULL AND closed_at IS NOT NULL`;

const COVERED = `
  SELECT span FROM coverage
  WHERE stream_id = $1 AND market_id = $2 AND upper(span) > ${fromMs('$3')} ORDER BY lower(span)`;

export interface ReplayOptions {
  readonly database: Runner;
  readonly clock: Clock;
  readonly random: Random;
  readonly share: Share;
  readonly signal: AbortSignal;
  readonly commit: (batch: Batch, era: number, signal: AbortSignal) => Promise<CommitResult>;
  /** Called after it opened a session. */
  readonly onOpened: () => void;
  /** Called for a batch that the database refuses. */
  readonly onRefused: (error: unknown) => void;
}

/** Manner in which records of one file are stored. */
export interface ReplayMode {
  /** Era of batches that an earlier process made; undefined: each has its own. */
  readonly era: number | undefined;
  /** Others may have covered some of that time meanwhile: rows and claims of it are left out. */
  readonly isShared: boolean;
  /** Markets and sessions that the database still has, where the rest is gone: then nothing is claimed. */
  readonly rowsOnly: Known | undefined;
}

export class Replay {
  readonly #options: ReplayOptions;
  /** Numbers that the database gave, by {@link keyOf}. */
  readonly #numbers = new Map<string, number>();
  /** Sessions of an earlier process, with their markets. */
  readonly #earlier = new Map<number, number>();
  /** By stream: what others had covered before its first batch was stored. */
  readonly #covered = new Map<number, readonly Span[]>();

  constructor(options: ReplayOptions) {
    this.#options = options;
  }

  /** The database went back: what it knew of sessions may be gone. */
  forget(): void {
    this.#numbers.clear();
    this.#earlier.clear();
    this.#covered.clear();
  }

  get #patience() {
    const { clock, random, signal } = this.#options;
    const isRetryable = (error: unknown) => actionOf(error) === 'retry';
    return { ...PAUSES, clock, random, signal, isRetryable };
  }

  /** Waits for the database as long as it is away. @returns batches that were stored @throws the signal's reason */
  async store(records: readonly SpoolRecord[], mode: ReplayMode): Promise<number> {
    let stored = 0;
    let part: Promise<boolean>[] = [];
    let rows = 0;
    const settle = async () => {
      stored += (await Promise.all(part)).filter(Boolean).length;
      part = [];
      rows = 0;
    };
    for (const record of records) {
      this.#options.signal.throwIfAborted();
      if ('batch' in record) {
        const prepared = await retry(this.#patience, () => this.#prepared(record, mode));
        part.push(this.#commit(prepared, mode.era ?? record.era));
        rows += countRows(record.batch);
        if (part.length >= BATCHES_AT_ONCE || rows >= ROWS_AT_ONCE) await settle();
      } else {
        // Claims of the session are stored before its end.
        await settle();
        await retry(this.#patience, async () => {
          const id = await this.numberOf(record.session, record.sessions);
          await closeSession(this.#options.database, id, record.end);
        });
      }
    }
    await settle();
    return stored;
  }

  /** Gives sessions that ended with their process the end of what they proved. */
  async extendSessions(): Promise<void> {
    const [ids, marketIds] = [[...this.#earlier.keys()], [...new Set(this.#earlier.values())]];
    await retry(this.#patience, async () => {
      const { database, share } = this.#options;
      await database.rows(EXTEND_SESSIONS, [ids, marketIds]);
      await closeOrphanSessions(database, share);
    });
    this.forget();
  }

  /** The batch as the database can store it. @throws the errors of the database */
  async numbered(batch: Batch, opened: readonly OpenedSession[]): Promise<Batch> {
    if (opened.length === 0) return batch;
    const numbers = new Map<number, number>();
    for (const id of sessionsOf(batch)) numbers.set(id, await this.numberOf(id, opened));
    return renumbered(batch, (id) => numbers.get(id) ?? id);
  }

  async #prepared(record: SpooledBatch, mode: ReplayMode): Promise<Batch> {
    const { rowsOnly, isShared } = mode;
    const { stream } = record;
    const own = isShared ? await this.#uncovered(record) : record.batch;
    const claimed = rowsOnly === undefined ? own : withoutClaims(own, { known: rowsOnly });
    const numbered = await this.numbered(claimed, record.sessions);
    // Pushed trades, which have no stream, have no session either.
    if (isShared && stream !== undefined) {
      for (const id of sessionsOf(numbered)) this.#earlier.set(id, stream.marketId);
    }
    return numbered;
  }

  /** The number that the database gave to a session. @throws the errors of the database */
  async numberOf(id: number, opened: readonly OpenedSession[]): Promise<number> {
    const session = opened.find((one) => one.id === id);
    if (session === undefined) return id;
    const key = keyOf(session);
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    const { stream, atMs } = session;
    const values = [stream.streamId, stream.marketId, atMs];
    const { database, onOpened } = this.#options;
    const [found] = await database.rows<{ sessionId: number }>(FIND_SESSION, values);
    const [row] = found
      ? [found]
      : await database.rows<{ sessionId: number }>(OPEN_SESSION, values);
    if (found === undefined) onOpened();
    const number = row?.sessionId ?? Number.NaN;
    this.#numbers.set(key, number);
    return number;
  }

  /** Leaves out what others have covered: they saw it with rows of their own. */
  async #uncovered({ batch, stream }: SpooledBatch): Promise<Batch> {
    const { claims = [], states, depths, tickers } = batch;
    const rows = [...(states ?? []), ...(depths ?? []), ...(tickers ?? [])];
    const times = [
      ...claims.map(({ span }) => span.fromMs),
      ...rows.map((one) => one.observedAtMs),
    ];
    if (stream === undefined || times.length === 0) return batch;
    const covered = await this.#coveredOf(stream, Math.min(...times));
    if (covered.length === 0) return batch;
    const isOpen = ({ observedAtMs }: { readonly observedAtMs: number }) =>
      !covered.some((span) => spanContains(span, observedAtMs));
    return {
      ...batch,
      ...(states && { states: states.filter(isOpen) }),
      ...(depths && { depths: depths.filter(isOpen) }),
      ...(tickers && { tickers: tickers.filter(isOpen) }),
      claims: claims.flatMap((claim) =>
        subtractSpans(claim.span, covered).map((span) => ({ ...claim, span })),
      ),
    };
  }

  async #coveredOf({ streamId, marketId }: StreamPlace, firstMs: number): Promise<readonly Span[]> {
    const known = this.#covered.get(streamId);
    if (known !== undefined) return known;
    const values = [streamId, marketId, firstMs];
    const rows = await this.#options.database.rows<{ span: Span }>(COVERED, values);
    const spans = rows.map(({ span }) => span);
    this.#covered.set(streamId, spans);
    return spans;
  }

  /** One that is refused for what it claims is stored without that. */
  async #commit(batch: Batch, era: number): Promise<boolean> {
    const { commit, signal, onRefused } = this.#options;
    const { claims = [], ...rest } = batch;
    try {
      await commit(batch, era, signal);
      return true;
    } catch (error) {
      if (isAborted(error) || actionOf(error) !== 'data') throw error;
      if (claims.length > 0) return await this.#commit(rest, era);
      onRefused(error);
      return false;
    }
  }
}

function keyOf({ stream, atMs }: OpenedSession): string {
  return `${stream.streamId} ${atMs}`;
}

/** Parts that store what an earlier process kept. */
export interface EarlierOptions {
  readonly owner: DatabaseIdentity;
  readonly share: Share;
  readonly database: Runner;
  readonly telemetry: StoreEvents;
  readonly writer: Pick<Writer, 'era' | 'acknowledged'>;
}

/**
 * Stores it, oldest first. Its claims hold where the database still has all that it had confirmed to that process,
 * and no frame before them is missing; else its rows are stored alone. Time that others have covered meanwhile is theirs.
 *
 * @throws StoreError `spool_refused` at the first file of another archive; the signal's reason
 */
export async function storeEarlier(
  files: SpoolFiles,
  replay: Replay,
  { owner, share, database, telemetry, writer }: EarlierOptions,
): Promise<void> {
  let isBroken = false;
  let isAny = false;
  for (;;) {
    const file = await files.oldest();
    if (file === undefined) break;
    isAny = true;
    const { header: first, payloads, isDamaged, tornBytes } = await files.read(file);
    const header = decodeHeader(first);
    if (header !== undefined && !isSameDatabase(header.owner, owner)) {
      const whose = `belongs to the database ${nameOfDatabase(header.owner)}, and this one is ${nameOfDatabase(owner)}`;
      throw refused(`${files.dir} ${whose}`);
    }
    const isSame =
      header !== undefined &&
      (await hasAll(database, writer.acknowledged, header.acknowledged, share));
    const isClaimed = isSame && !file.isRowsOnly && !isBroken;
    const rowsOnly = isClaimed ? undefined : await readKnown(database);
    const records = header === undefined ? [] : payloads.map(decode);
    const batches = await replay.store(records, { era: writer.era, isShared: true, rowsOnly });
    telemetry.spooled({ outcome: 'stored', batches });
    const isUnreadable = header === undefined && (payloads.length > 0 || tornBytes === 0);
    if (tornBytes > 0 && !isDamaged) telemetry.spoolTorn({ bytes: tornBytes });
    if (isDamaged || isUnreadable) {
      isBroken = true;
      const { code, message } = await files.setAside(file);
      telemetry.spoolFailed({ code, message });
    } else await files.remove(file);
  }
  if (isAny) await replay.extendSessions();
}
