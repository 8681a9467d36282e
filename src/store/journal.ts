import type { Span } from '../kernel/span.js';
import { isoMs } from '../kernel/timestamp.js';
import type { StreamRef } from '../model/batch.js';
import { type SeriesTable, tableOfStream } from '../model/series.js';
import type { Runner } from './connection.js';
import { StoreError } from './errors.js';
import { type NamedCall, type NamedStatement, unnested } from './sql.js';

/**
 * The journal: which time ranges each transaction changed (sql/0001, table journal). Numbers of entries grow without
 * gaps in the order of commits, because a transaction that adds entries holds one row until COMMIT. It adds them last.
 */

/** Kinds of changes; sql/0001 explains each. */
export type JournalChange =
  | 'rows'
  | 'exposed'
  | 'revoked'
  | 'replaced'
  | 'archived'
  | 'restored'
  | 'expired'
  | 'restarted';

/** A changed time range. */
export interface JournalEntry {
  readonly number: number;
  readonly change: JournalChange;
  /** Null: all series. */
  readonly series: SeriesTable | null;
  /** Null: all markets. */
  readonly marketId: number | null;
  /** Interval or period in seconds, 0 for the other series; null: all. */
  readonly variant: number | null;
  /** Exchange time; infinite where all time may have changed. */
  readonly span: Span;
  /** Receipt of the rows that were stored; null where none was. */
  readonly received: Span | null;
}

/** Changes after a number. */
export interface JournalChanges {
  /** In the order of commits. */
  readonly entries: readonly JournalEntry[];
  /** Number to go on with. */
  readonly upTo: number;
  /** False: there are more entries than were asked for. */
  readonly isWhole: boolean;
}

/** Adds entries: kind of change, then series, markets, variants, spans and receipts, one of each for an entry. */
export const ADD_ENTRIES: NamedStatement = {
  name: 'add_entries',
  types: ['text', 'text[]', 'int[]', 'int[]', 'tstzrange[]', 'tstzrange[]'],
  sql: 'INSERT INTO journal SELECT * FROM new_entries($1, $2, $3, $4, $5, $6)',
};

/** Changed time range of the rows of a stream. */
export type StreamChange = Pick<StreamRef, 'kind' | 'marketId' | 'variant'> & {
  readonly change: 'revoked' | 'exposed';
  readonly span: Span;
};

/** Calls that add entries of changes, in their order of kinds. */
export function entriesOfChanges(changes: readonly StreamChange[]): NamedCall[] {
  return (['revoked', 'exposed'] as const).flatMap((change): NamedCall[] => {
    const rows = changes
      .filter((one) => one.change === change)
      .map(({ kind, span, ...one }) => ({
        ...{ ...one, series: tableOfStream(kind), span: entrySpan(span) },
      }));
    if (rows.length === 0) return [];
    return [
      [ADD_ENTRIES, [change, ...unnested(rows, 'series', 'marketId', 'variant', 'span'), []]],
    ];
  });
}

/** A time range as an entry has it. */
export function entrySpan({ fromMs, toMs }: Span): string {
  return `[${isoMs(fromMs)},${isoMs(toMs)})`;
}

/** Followers must reload after the database went back: its numbers may name other entries now. */
export const RESTART_JOURNAL = 'SELECT restart_journal()';

/** $1 number, $2 limit. The newest and oldest number come with each row, and alone where there is no entry. */
const CHANGES_SINCE = `
  SELECT w.entry_no AS newest, (SELECT min(entry_no) FROM journal) AS oldest, j.entry_no AS number, j.change,
         j.series, j.market_id, j.variant,
         coalesce((extract(epoch FROM lower(j.span)) * 1000)::float8, '-infinity') AS from_ms,
         coalesce((extract(epoch FROM upper(j.span)) * 1000)::float8, 'infinity') AS to_ms,
         j.received
  FROM journal_end w
  LEFT JOIN LATERAL (
    SELECT * FROM journal WHERE entry_no > $1 ORDER BY entry_no LIMIT $2) j ON true
  ORDER BY j.entry_no`;

type FoundEntry = Omit<JournalEntry, 'span' | 'number'> &
  Span & {
    readonly number: number | null;
    readonly newest: number;
    readonly oldest: number | null;
  };

/** Number of the newest entry: where a follower begins that has just read everything. */
export async function journalNumber(runner: Runner): Promise<number> {
  const [row] = await runner.rows<{ newest: number }>('SELECT entry_no AS newest FROM journal_end');
  return row?.newest ?? 0;
}

/**
 * Returns what was committed after an entry, in the order of commits; at most `limit` entries.
 *
 * @throws StoreError `journal_behind` when entries after that number are no longer kept
 */
export async function changesSince(
  runner: Runner,
  number: number,
  limit = 10_000,
): Promise<JournalChanges> {
  const rows = await runner.rows<FoundEntry>(CHANGES_SINCE, [number, limit]);
  const { newest = 0, oldest = null } = rows[0] ?? {};
  if (number > newest || number < (oldest ?? newest + 1) - 1) {
    throw new StoreError(
      'journal_behind',
      `the journal has entries ${oldest ?? newest + 1} to ${newest}, and changes after ${number} were asked for; read everything again and continue from ${newest}`,
    );
  }
  const entries = rows.flatMap(
    ({ newest: _newest, oldest: _oldest, number: found, fromMs, toMs, ...entry }) =>
      found === null ? [] : [{ ...entry, number: found, span: { fromMs, toMs } }],
  );
  const upTo = entries.at(-1)?.number ?? number;
  return { entries, upTo, isWhole: upTo === newest };
}
