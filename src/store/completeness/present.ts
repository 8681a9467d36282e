import { isEmptySpan, type Span } from '../../kernel/span.js';
import type { StreamKind } from '../../model/series.js';
import type { Runner } from '../connection.js';
import { fromMs, toMs } from '../sql.js';

/** The exchange's present, as far as the archive knows it, and coverage that lies beyond it. */

/** A piece of coverage that ends in the future, or the part of it that does. */
export interface BeyondPresent {
  readonly streamId: number;
  readonly kind: StreamKind;
  readonly marketId: number;
  readonly market: string;
  readonly variant: number;
  readonly span: Span;
}

/** Notes come every few seconds, and claims are made between them. */
const LEEWAY = `interval '10 seconds'`;

const NOTE_PRESENT = `
  UPDATE archive SET present = ${fromMs('$1')}, present_noted_at = now(), present_pace = $2`;

/** Notes the exchange's time, and exchange seconds per second; for {@link readBeyondPresent}. */
export async function notePresent(runner: Runner, presentMs: number, pace: number): Promise<void> {
  await runner.rows(NOTE_PRESENT, [presentMs, pace]);
}

/** The latest that the present can be; null where it was never noted. */
const LATEST = `(
  SELECT present + present_pace * (now() - present_noted_at + ${LEEWAY}) FROM archive)`;

const EXCHANGE_NOW = `
  SELECT ${toMs(`least(max(upper(span) + (now() - updated_at)), ${LATEST})`)} AS now_ms
  FROM coverage`;

/**
 * The newest covered instant of all streams, moved on by the time since it was written, but never
 * beyond what can be the present.
 */
export async function readExchangeNow(runner: Runner): Promise<number | null> {
  const [row] = await runner.rows<{ now_ms: number | null }>(EXCHANGE_NOW);
  return row?.now_ms ?? null;
}

const beyondSql = (present: string) => `
  SELECT c.stream_id AS "streamId", s.kind, c.market_id AS "marketId", m.name AS market, s.variant,
         ${toMs('lower(c.span)')} AS "lowerMs", ${toMs('upper(c.span)')} AS "upperMs",
         ${toMs('p.at')} AS "presentMs"
  FROM (SELECT ${present} AS at) p
  JOIN coverage c ON upper(c.span) > p.at
  JOIN stream s USING (stream_id) JOIN market m ON m.market_id = c.market_id
  ORDER BY m.name, s.kind, s.variant, lower(c.span) LIMIT 10000`;

interface BeyondRow extends Omit<BeyondPresent, 'span'> {
  readonly lowerMs: number;
  readonly upperMs: number;
  readonly presentMs: number;
}

/** Coverage of time that has not come yet, as far as the archive knows: it cannot be true. */
export async function readBeyondPresent(runner: Runner): Promise<BeyondPresent[]> {
  return (await runner.rows<BeyondRow>(beyondSql(LATEST))).map(toBeyond);
}

/** Time since the last note. A longer one is a jump of this server's clock rather than a pause. */
const PAUSE = 'now() - present_noted_at';
const PAUSE_MAX = `interval '1 hour'`;

/**
 * Coverage after an instant. Of a played exchange, which may begin anew, only what never was past. Where
 * the last run noted a present that has not come yet, its coverage ended too late from then on: the time
 * since that note, in which nothing ran, goes as well.
 */
const AFTER = `
  SELECT CASE WHEN $2 AND is_sandbox THEN greatest(${fromMs('$1')}, ${LATEST})
              WHEN $2 AND present > ${fromMs('$1')} + ${LEEWAY}
                AND ${PAUSE} BETWEEN interval '0' AND ${PAUSE_MAX}
              THEN ${fromMs('$1')} - present_pace * (${PAUSE})
              ELSE ${fromMs('$1')} END
  FROM archive`;

export async function readBeyond(
  runner: Runner,
  presentMs: number,
  isStart: boolean,
): Promise<BeyondPresent[]> {
  const rows = await runner.rows<BeyondRow>(beyondSql(`(${AFTER})`), [presentMs, isStart]);
  return rows.map(toBeyond).filter(({ span }) => !isEmptySpan(span));
}

/** From the second, or the candle, in which the present lies. */
function toBeyond({ lowerMs, upperMs, presentMs, ...stream }: BeyondRow): BeyondPresent {
  const { kind, variant } = stream;
  const isWhole = kind === 'trades' || kind === 'times';
  const stepMs = kind === 'kline' ? variant * 1000 : isWhole ? 1000 : 1;
  const passed = Math.max(0, Math.floor((presentMs - lowerMs) / stepMs));
  return { ...stream, span: { fromMs: lowerMs + passed * stepMs, toMs: upperMs } };
}
