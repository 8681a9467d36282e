import type { Connection } from '../connection.js';
import { fromMs, unnested } from '../sql.js';
import { CONFLICT, type Refused } from './groups.js';

const MAX_PAYLOAD = 8_000;
/** Distinct pairs of endpoint and reason that are counted apart; a hostile server could make more. */
const MAX_REASONS = 1_000;
/** The oldest rows are removed each time so many have been added. */
const TRIM_EVERY = 500;

const INSERT_QUARANTINE = `
  INSERT INTO quarantine (received_at, endpoint, market, reason, payload, count)
  SELECT ${fromMs('q.received_ms')}, q.endpoint, coalesce(q.market, m.name), q.reason, q.payload, q.count
  FROM unnest($1::float8[], $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::bigint[])
    WITH ORDINALITY AS q(received_ms, endpoint, market, market_id, reason, payload, count, ord)
  LEFT JOIN market m ON m.market_id = q.market_id
  ORDER BY q.ord`;

const COUNT_QUARANTINE = `
  WITH counted AS (
    SELECT endpoint, CASE WHEN EXISTS (
             SELECT FROM quarantine_count c WHERE c.endpoint = q.endpoint AND c.reason = q.reason)
           OR (SELECT count(*) FROM quarantine_count) < ${MAX_REASONS} THEN reason ELSE 'other' END
           AS reason, n, received_ms
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::float8[])
      AS q(endpoint, reason, n, received_ms))
  INSERT INTO quarantine_count AS c (endpoint, reason, count, last_at)
  SELECT endpoint, reason, sum(n), ${fromMs('max(received_ms)')} FROM counted
  GROUP BY endpoint, reason ORDER BY endpoint, reason
  ON CONFLICT (endpoint, reason) DO UPDATE
    SET count = c.count + excluded.count, last_at = greatest(c.last_at, excluded.last_at)`;

const TRIM_QUARANTINE = `
  DELETE FROM quarantine WHERE quarantine_id <= (
    SELECT quarantine_id FROM quarantine ORDER BY quarantine_id DESC OFFSET $1 LIMIT 1)`;

export interface RefusedCount {
  readonly endpoint: string;
  readonly reason: string;
  readonly count: number;
}

/** Postgres' text holds every character but NUL. */
const storable = (text: string, limit: number) => text.replaceAll('\0', '\ufffd').slice(0, limit);

/**
 * Keeps refused rows: all are counted, the newest samples are kept.
 *
 * States: it counts the samples added since the last trim, which may be forgotten with the process:
 * the next one trims again.
 */
export class Quarantine {
  readonly #keepRows: number;
  #untrimmed = TRIM_EVERY;

  constructor(keepRows: number) {
    this.#keepRows = keepRows;
  }

  /** @returns the counts by endpoint and reason. */
  async keep(connection: Connection, refused: readonly Refused[]): Promise<RefusedCount[]> {
    if (refused.length === 0) return [];
    const rows = refused.map((row) => ({
      ...row,
      // What is refused may be refused for these very fields.
      receivedAtMs: Number.isSafeInteger(row.receivedAtMs) ? row.receivedAtMs : 0,
      marketId: row.marketId !== null && row.marketId === (row.marketId | 0) ? row.marketId : null,
      endpoint: storable(row.endpoint, 100),
      reason: storable(row.reason, 200),
    }));
    const samples = samplesOf(rows);
    // More than is kept at all would be inserted only to be trimmed at once.
    const kept = samples.slice(-this.#keepRows).map(({ market, payload, ...sample }) => ({
      ...sample,
      market: market === null ? null : storable(market, 100),
      payload: storable(payload, MAX_PAYLOAD),
    }));
    await connection.rows(
      INSERT_QUARANTINE,
      unnested(
        kept,
        'receivedAtMs',
        'endpoint',
        'market',
        'marketId',
        'reason',
        'payload',
        'count',
      ),
    );
    const counts = countByReason(rows);
    await connection.rows(
      COUNT_QUARANTINE,
      unnested(counts, 'endpoint', 'reason', 'count', 'lastAtMs'),
    );
    this.#untrimmed += samples.length;
    if (this.#untrimmed >= TRIM_EVERY) {
      this.#untrimmed = 0;
      await connection.rows(TRIM_QUARANTINE, [this.#keepRows]);
    }
    return counts;
  }
}

/**
 * One row for all that were refused for the same reason in one answer: the first, with their count.
 * Rows in conflict stay apart, because each is the only copy of another version of a stored row.
 */
function samplesOf(rows: readonly Refused[]): (Refused & { count: number })[] {
  const samples: (Refused & { count: number })[] = [];
  const byKey = new Map<string, { count: number }>();
  for (const row of rows) {
    const { receivedAtMs, endpoint, market, marketId, reason } = row;
    const key = JSON.stringify([receivedAtMs, endpoint, market, marketId, reason]);
    const before = reason === CONFLICT ? undefined : byKey.get(key);
    if (before !== undefined) {
      before.count += 1;
      continue;
    }
    const sample = { ...row, count: 1 };
    samples.push(sample);
    byKey.set(key, sample);
  }
  return samples;
}

function countByReason(rows: readonly Refused[]): (RefusedCount & { lastAtMs: number })[] {
  const counts = new Map<string, RefusedCount & { lastAtMs: number }>();
  for (const { endpoint, reason, receivedAtMs } of rows) {
    const key = JSON.stringify([endpoint, reason]);
    const before = counts.get(key);
    const lastAtMs = Math.max(before?.lastAtMs ?? 0, receivedAtMs);
    counts.set(key, { endpoint, reason, count: (before?.count ?? 0) + 1, lastAtMs });
  }
  return [...counts.values()];
}
