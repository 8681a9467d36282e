import { type Batch, type QuarantineRow, rowsIn } from '../../model/batch.js';
import { SERIES, WRITTEN_SERIES } from '../../model/series.js';
import type { Share } from '../../model/share.js';
import { describeAddress } from '../address.js';
import type { Runner } from '../connection.js';
import { StoreError } from '../errors.js';
import { RESTART_JOURNAL } from '../journal.js';
import { sharedSession } from '../pooling.js';
import { refusedRow } from './groups.js';

/**
 * The number that each transaction of the writer advances. A database that is not at the number that
 * it confirmed last has come back older than it was, or another program has written to it.
 */

/** The server behind a connection; null where it may not be asked. */
interface Server {
  readonly system: string | null;
  readonly timeline: string | null;
}

/** The database is not the one that was written to last: what is remembered as stored may be gone. */
export class WentBackError extends StoreError {
  readonly acknowledged: number;
  readonly found: number;
  readonly why: string;
  readonly known: Known;

  constructor(
    databaseUrl: string,
    {
      acknowledged,
      found,
      why,
      known,
    }: Pick<WentBackError, 'acknowledged' | 'found' | 'why' | 'known'>,
  ) {
    super(
      'database_went_back',
      `Postgres at ${describeAddress(databaseUrl)} is at commit ${found}, and had confirmed ${acknowledged} (${why}); collecting starts again from what is stored. If this was no failover, check who replaced the database`,
      { action: 'retry' },
    );
    this.acknowledged = acknowledged;
    this.found = found;
    this.why = why;
    this.known = known;
  }
}

/** What a database still knows after it went back. */
export interface Known {
  readonly marketIds: ReadonlySet<number>;
  readonly lastSessionId: number;
}

const KNOWN = `
  SELECT (SELECT coalesce(array_agg(market_id), '{}') FROM market) AS market_ids,
         (SELECT coalesce(max(session_id), 0) FROM session) AS last_session_id`;

export async function readKnown(connection: Runner): Promise<Known> {
  const [row] = await connection.rows<{ marketIds: number[]; lastSessionId: number }>(KNOWN);
  return { marketIds: new Set(row?.marketIds), lastSessionId: row?.lastSessionId ?? 0 };
}

const RECORD = `
  INSERT INTO incident (kind, acknowledged, found, note) VALUES ('went back', $1, $2, $3)`;

/** Writes an incident down, and makes followers of the journal reload. */
export async function recordWentBack(
  connection: Runner,
  { acknowledged, found, why }: WentBackError,
): Promise<void> {
  await connection.rows(RECORD, [acknowledged, found, why]);
  await connection.rows(RESTART_JOURNAL);
}

const SERVER = `
  SELECT system_identifier::text AS system,
         left(pg_walfile_name(pg_current_wal_lsn()), 8) AS timeline FROM pg_control_system()`;
const READ = 'SELECT commit_no, pg_backend_pid() AS pid FROM writer_commit WHERE share = $1';
const NOTE_TIMELINE = 'SELECT note_timeline()';
const HELD_BY = `SELECT token::text FROM exclusive_lock WHERE name = 'writer' AND id = $1`;

/** The commit that a server confirmed last. */
export interface Acknowledged extends Server {
  readonly number: number;
}

/** Where a connection finds the database. */
interface Place extends Acknowledged {
  /** Server process of the connection. */
  readonly pid: number;
  /** Drawn by whoever took the writer's lock last. */
  readonly token: string | null;
}

/** The number with the server process that has it. */
interface Advanced {
  readonly commitNo: number;
  readonly pid: number;
}

/** @throws StoreError while a dump is restored and its row is not there yet */
async function readNumber(connection: Runner, share: number): Promise<Advanced> {
  const [row] = await connection.rows<Advanced>(READ, [share]);
  if (row !== undefined) return row;
  throw new StoreError(
    'database_failed',
    'the table writer_commit is empty: commits wait until the archive is restored whole',
    { action: 'retry' },
  );
}

async function readPlace(connection: Runner, share: number): Promise<Place> {
  // Managed servers may not let it be asked.
  const [server] = await connection.rows<Server>(SERVER).catch(() => []);
  const { system = null, timeline = null } = server ?? {};
  const { commitNo: number, pid } = await readNumber(connection, share);
  const [held] = await connection.rows<{ token: string | null }>(HELD_BY, [share]);
  return { system, timeline, number, pid, token: held?.token ?? null };
}

/**
 * Knowledge of the number of a share. Only the holder of the writer's lock can know it: without the lock every
 * number is right.
 *
 * States: *new* → *known* ↔ *unknown* (a COMMIT was sent, and its answer is lost: one more is right too).
 */
export class CommitNumber {
  readonly #databaseUrl: string;
  readonly #share: number;
  #place: Place | undefined;
  #isUnknown = false;
  /** Of the transaction under way. */
  #begun: number | undefined;
  /** Changes beside the writer's transactions: all, those before the one under way, those before the last confirmed one. */
  readonly #beside = { all: 0, begun: 0, confirmed: 0 };

  /** @param share left out: all of them */
  constructor(databaseUrl: string, share: Share | undefined) {
    this.#databaseUrl = databaseUrl;
    this.#share = share?.number ?? 0;
  }

  /** Last commit that was confirmed; undefined while the lock was never held. */
  get acknowledged(): Acknowledged | undefined {
    if (this.#place === undefined) return undefined;
    const { system, timeline, number } = this.#place;
    return { system, timeline, number };
  }

  /**
   * Compares a new connection with what is known.
   *
   * @param hold takes the writer's lock on it
   * @throws WentBackError; from here on what it found is known
   */
  async settle(connection: Runner, hold: () => Promise<void>): Promise<void> {
    const before = await readPlace(connection, this.#share);
    await hold();
    await connection.rows(NOTE_TIMELINE);
    const now = await readPlace(connection, this.#share);
    const last = this.#place;
    const isNext = this.#isUnknown && last?.number === now.number - 1;
    const other = last && this.#differenceOf(last, before);
    if (last === undefined || (other === undefined && (last.number === now.number || isNext))) {
      this.#learn(now);
      return;
    }
    throw await this.#wentBack(connection, last, now, other);
  }

  /** Token of the hold of the writer's lock, as it was seen last; null before the first. */
  get token(): string | null {
    return this.#place?.token ?? null;
  }

  /** The statement that begins a transaction; what it returns goes to {@link begun}. */
  get advanceSql(): string {
    const advance = `UPDATE writer_commit SET commit_no = commit_no + 1 WHERE share = ${this.#share}`;
    const known = this.#place?.number;
    const right = known === undefined ? [] : this.#isUnknown ? [known, known + 1] : [known];
    const condition = right.length === 0 ? '' : ` AND commit_no IN (${right.join(', ')})`;
    return `${advance}${condition} RETURNING commit_no, pg_backend_pid() AS pid`;
  }

  /**
   * @throws WentBackError; from here on what it found is known. StoreError `database_pooled` when the transaction runs
   *   in another server process than the one that holds the writer's lock
   */
  async begun(connection: Runner, rows: readonly object[] | undefined): Promise<void> {
    const [row] = (rows ?? []) as Advanced[];
    const last = this.#place;
    if (last === undefined) return;
    if (row !== undefined) {
      if (row.pid !== last.pid) throw sharedSession(this.#databaseUrl);
      this.#begun = row.commitNo;
      this.#beside.begun = this.#beside.all;
      this.#learn({ ...last, number: row.commitNo - 1 });
      return;
    }
    const { commitNo } = await readNumber(connection, this.#share);
    throw await this.#wentBack(connection, last, { ...last, number: commitNo });
  }

  committed(): void {
    if (this.#place !== undefined && this.#begun !== undefined) {
      this.#place = { ...this.#place, number: this.#begun };
      this.#beside.confirmed = this.#beside.begun;
    }
    this.#begun = undefined;
  }

  /** A transaction that is not the writer's changed what the program remembers, such as the id of a market. */
  changedBeside(): void {
    this.#beside.all += 1;
  }

  /** @param isInStep whether the server said that it failed: then nothing was committed */
  failed(isInStep: boolean): void {
    if (this.#begun !== undefined && !isInStep) this.#isUnknown = true;
    this.#begun = undefined;
  }

  /**
   * Shows that it is not the same server, or that another held the writer's lock meanwhile. A server that was promoted
   * has every transaction before the last one that it has. So at the right number nothing is lost but what was changed
   * after that commit.
   */
  #differenceOf(last: Place, { system, timeline, token }: Place): string | undefined {
    if (isOther(last.system, system)) return 'another server';
    const isBeside = this.#beside.all !== this.#beside.confirmed;
    if (isOther(last.timeline, timeline) && isBeside) return WAS_PROMOTED;
    return last.token === token ? undefined : WAS_WRITTEN;
  }

  #learn(place: Place): void {
    this.#place = place;
    this.#isUnknown = false;
  }

  /** What it found is known only when all of it could be read: else the next look finds it again. */
  async #wentBack(
    connection: Runner,
    { number: acknowledged }: Place,
    now: Place,
    other?: string,
  ): Promise<WentBackError> {
    const { number: found } = now;
    const seen = found < acknowledged ? IS_OLDER : WAS_WRITTEN;
    const why = other === undefined || other === WAS_WRITTEN ? seen : other;
    const known = await readKnown(connection);
    this.#learn(now);
    return new WentBackError(this.#databaseUrl, { acknowledged, found, why, known });
  }
}

const WAS_PROMOTED = 'a standby was promoted, or a backup was restored';
const IS_OLDER = 'an older copy, or a standby that lacked the last commits';
const WAS_WRITTEN = 'another program has written to it, or rows were removed by hand';

const isOther = (a: string | null, b: string | null) => a !== null && b !== null && a !== b;

const HAS_ALL = `
  SELECT bool_or(timeline = $2) AND NOT coalesce(bool_or(timeline > $2 AND commit_no < $4::bigint), false) AS has
  FROM server_timeline WHERE system = $1 AND share = $3`;

/**
 * Returns true if a database still has all that was confirmed before. A server that was promoted since must come of that
 * timeline, and have had it then: its own commits have the numbers of those that it lacked.
 */
export async function hasAll(
  runner: Runner,
  now: Acknowledged | undefined,
  before: Acknowledged | null,
  share: Share,
): Promise<boolean> {
  if (now === undefined || before === null) return false;
  if (isOther(now.system, before.system) || now.number < before.number) return false;
  if (!isOther(now.timeline, before.timeline)) return true;
  if ((now.timeline ?? '') < (before.timeline ?? '')) return false;
  const values = [before.system, before.timeline, share.number, before.number];
  const [row] = await runner.rows<{ has: boolean }>(HAS_ALL, values);
  return row?.has === true;
}

const UNKNOWN_OWNER = 'its market or session is lost';

/**
 * What may still be stored of a batch that was made before the database went back. It claims nothing: what its
 * claims rest on may be gone. Rows of a market or session that is gone go to quarantine, because its id will be
 * given to another one.
 */
export function withoutClaims(
  batch: Batch,
  { known: { marketIds, lastSessionId } }: Pick<WentBackError, 'known'>,
): Batch {
  const isKnown = (row: { readonly marketId: number; readonly sessionId?: number }) =>
    marketIds.has(row.marketId) && (row.sessionId ?? 0) <= lastSessionId;
  const lost: QuarantineRow[] = [];
  const rows: Record<string, unknown> = {};
  for (const series of WRITTEN_SERIES) {
    const all = rowsIn(batch, series);
    rows[SERIES[series].batch] = all.filter(isKnown);
    lost.push(
      ...all.filter((row) => !isKnown(row)).map((row) => refusedRow(series, UNKNOWN_OWNER, row)),
    );
  }
  return { ...rows, quarantine: [...(batch.quarantine ?? []), ...lost] };
}
