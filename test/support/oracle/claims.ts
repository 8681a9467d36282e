import type { OpenSql } from '../postgres/postgres-server.js';

/** A trade as the sandbox's own list of what it issued has it. */
interface IssuedTrade {
  readonly id: number;
  readonly timeUs: number;
  readonly price: string;
  readonly amount: string;
  readonly side: string;
}

/** What an archive claims, held against what the exchange issued. */
export interface Claims {
  readonly issued: number;
  /** Covered, and stored in every field. */
  readonly proven: number;
  /** Neither stored nor covered: in what the archive itself calls missing. */
  readonly missing: number;
  /** How often each thing was found that must not be. */
  readonly lies: Readonly<Record<string, number>>;
}

const MAKE = `
  CREATE TEMP TABLE IF NOT EXISTS issued (market_id int, tid bigint, at_us bigint, price numeric, amount numeric,
                            side text, PRIMARY KEY (market_id, tid))`;
const ADD = `
  INSERT INTO issued
  SELECT m.market_id, t.* FROM market m,
    unnest($2::bigint[], $3::bigint[], $4::numeric[], $5::numeric[], $6::text[]) AS t
  WHERE m.name = $1 ON CONFLICT DO NOTHING`;

const COVERED = (kind: string, alias: string) => `EXISTS (
  SELECT FROM coverage c JOIN stream s USING (stream_id)
  WHERE s.kind = '${kind}' AND s.market_id = ${alias}.market_id
    AND c.span @> to_timestamp(${alias}.at_us / 1000000))`;

const COUNTS: Readonly<Record<string, string>> = {
  issued: 'SELECT count(*) FROM issued',
  proven: `SELECT count(*) FROM issued i JOIN trade t USING (market_id, tid) WHERE ${COVERED('trades', 'i')}`,
  missing: `
    SELECT count(*) FROM issued i LEFT JOIN trade t USING (market_id, tid)
    WHERE t.tid IS NULL AND NOT ${COVERED('trades', 'i')}`,
};

/** Each counts what must not be. */
const LIES: Readonly<Record<string, string>> = {
  'claimed and not stored': `
    SELECT count(*) FROM issued i LEFT JOIN trade t USING (market_id, tid)
    WHERE t.tid IS NULL AND ${COVERED('trades', 'i')}`,
  'stored and never issued': `
    SELECT count(*) FROM trade t LEFT JOIN issued i USING (market_id, tid) WHERE i.tid IS NULL`,
  'stored with other fields': `
    SELECT count(*) FROM trade t JOIN issued i USING (market_id, tid)
    WHERE (t.price, t.amount, t.total, t.side::text)
            IS DISTINCT FROM (i.price, i.amount, i.price * i.amount, i.side)
       OR t.traded_at <> to_timestamp(i.at_us / 1000000)
       OR (extract(epoch FROM t.executed_at) * 1000000)::bigint <> i.at_us`,
  'stored twice': `
    SELECT coalesce(sum(n - 1), 0) FROM (
      SELECT count(*) AS n FROM trade GROUP BY market_id, tid HAVING count(*) > 1) twice`,
  'ledger counts other than what is stored': `
    SELECT count(*) FROM rows_by_day r WHERE r.series = 'trade'
      AND r.rows <> (SELECT count(*) FROM trade t WHERE t.market_id = r.market_id
        AND (t.traded_at AT TIME ZONE 'UTC')::date = r.day)`,
  'claims of the future': `
    SELECT count(*) FROM coverage WHERE upper(span) > to_timestamp($1 / 1000.0)`,
};

/** The sandbox's list of everything that it issued of a market, in pages. */
async function* issuedTrades(url: string, market: string): AsyncGenerator<IssuedTrade[]> {
  let next: string | undefined = `/sandbox/truth?market=${encodeURIComponent(market)}`;
  while (next !== undefined) {
    const reply: Response = await fetch(new URL(next, url));
    const text = await reply.text();
    if (!reply.ok) throw new Error(`the truth of ${market}: ${text}`);
    yield text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as IssuedTrade);
    next = /<([^>]+)>; rel="next"/.exec(reply.headers.get('link') ?? '')?.[1];
  }
}

/**
 * Holds every claim of an archive at rest against the list of what its exchange issued.
 *
 * @param stoppedAtMs when the collector had ended; nothing later may be claimed
 */
export async function judgeClaims(
  archive: OpenSql,
  sandboxUrl: string,
  stoppedAtMs: number,
): Promise<Claims> {
  await archive.run(MAKE);
  const markets = await archive.run<{ name: string }>('SELECT name FROM market ORDER BY 1');
  for (const { name } of markets) {
    for await (const trades of issuedTrades(sandboxUrl, name)) {
      await archive.run(ADD, [
        name,
        trades.map(({ id }) => id),
        trades.map(({ timeUs }) => timeUs),
        trades.map(({ price }) => price),
        trades.map(({ amount }) => amount),
        trades.map(({ side }) => side),
      ]);
    }
  }
  await archive.run('ANALYZE issued');
  const count = async (sql: string) => {
    const parameters = sql.includes('$1') ? [stoppedAtMs] : [];
    const [row] = await archive.run<Record<string, string>>(sql, parameters);
    return Number(Object.values(row ?? {})[0]);
  };
  const lies: Record<string, number> = {};
  for (const [name, sql] of Object.entries(LIES)) lies[name] = await count(sql);
  return {
    issued: await count(COUNTS.issued ?? ''),
    proven: await count(COUNTS.proven ?? ''),
    missing: await count(COUNTS.missing ?? ''),
    lies,
  };
}
