import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { coldDataPath, coldManifestPath } from '../../../src/archive/cold/folder.js';
import { type ColdFile, writeColdManifest } from '../../../src/archive/cold/manifest.js';
import { FolderStorage } from '../../../src/archive/cold/storage.js';
import { writeParquet } from '../../../src/archive/parquet/file.js';
import { DuckSession } from '../../../src/archive/parquet/session.js';
import {
  type MergedKind,
  seriesColumns,
  seriesOrder,
  tableOfKind,
} from '../../../src/model/kinds.js';
import { seriesOf, streamsOf, viewOf } from '../../../src/model/series.js';
import type { Store } from '../../../src/store/index.js';
import { runSql } from '../postgres/postgres-server.js';

/** Where an archive's partitions go to. */
export interface ColdPlace {
  readonly store: Store;
  readonly url: string;
  readonly coldDir: string;
}

const DAY_MS = 86_400_000;

interface Piece {
  readonly market: string;
  readonly marketId: number;
  readonly day: string;
  readonly first: Date;
  readonly last: Date;
  readonly variants: number[];
}

/** The pieces of a partition by market and day, in the order of their files. */
async function daysOf(url: string, kind: MergedKind, partition: string) {
  const [time = ''] = seriesOrder(kind);
  return await runSql<Piece>(
    url,
    `SELECT m.name AS market, p.market_id AS "marketId",
       to_char(p.${time}, 'YYYY-MM-DD') AS day, min(p.${time}) AS first, max(p.${time}) AS last,
       array_agg(DISTINCT ${seriesOf(tableOfKind(kind)).variant ?? '0'}) AS variants
     FROM ${partition} p JOIN market m USING (market_id) GROUP BY 1, 2, 3 ORDER BY 2, 3`,
  );
}

/**
 * Takes the partition of a series that holds a day out of the database and puts its rows into cold
 * files, in the simplest way: for archives without other users. Nothing answers for it in Postgres, unless a test has
 * something stand in: whatever of the program opened it there would fail.
 *
 * @param day `2026-01-15`
 * @param rowGroupRows few by default, so that what is skipped by groups is worth a test
 * @returns the paths of the files
 */
export async function archiveDay(
  { store, url, coldDir }: ColdPlace,
  kind: MergedKind,
  day: string,
  rowGroupRows = 2048,
): Promise<string[]> {
  const table = tableOfKind(kind);
  const [found] = await runSql<{ name: string; from: Date; to: Date }>(
    url,
    `SELECT c.relname AS name, lower(s.span) AS "from", upper(s.span) AS "to"
     FROM partition_state s JOIN pg_class c ON c.relname = s.table_name || '_' || to_char(lower(s.span),
       CASE WHEN upper(s.span) - lower(s.span) > '1 day' THEN 'YYYYMM' ELSE 'YYYYMMDD' END)
     WHERE s.table_name = $1 AND s.span @> $2::timestamptz`,
    [table, `${day}T00:00:00Z`],
  );
  if (found === undefined) throw new Error(`no partition of ${table} on ${day}`);
  const scratch = await mkdtemp(join(tmpdir(), 'tapekeep-cold-test-'));
  const duck = await DuckSession.open(join(scratch, 'spill'));
  try {
    const files: ColdFile[] = [];
    for (const piece of await daysOf(url, kind, found.name)) {
      files.push(await writeFile({ store, coldDir, duck, scratch, kind, rowGroupRows }, piece));
    }
    const uri = coldManifestPath(table, found.name);
    await writeColdManifest(
      new FolderStorage(coldDir),
      uri,
      {
        ...{ tapekeep: '0', madeAt: found.to.toISOString(), table, kind: viewOf(table) },
        ...{ from: found.from.toISOString(), to: found.to.toISOString(), checksum: '' },
        rows: files.reduce((sum, { rows }) => sum + rows, 0),
        columns: seriesColumns(kind).map(({ name, type }) => ({ name, type })),
        files,
        coverage: await coverageOf(url, streamsOf(table)[0], found),
      },
      { version: null },
    );
    await runSql(
      url,
      `UPDATE partition_state SET state = 'archived', uri = $3
       WHERE table_name = $1 AND lower(span) = $2`,
      [table, found.from, uri],
    );
    await runSql(
      url,
      `SELECT make_cold_server();
       DROP TABLE ${found.name};
       CREATE FOREIGN TABLE ${found.name} PARTITION OF ${table}
         FOR VALUES FROM ('${found.from.toISOString()}') TO ('${found.to.toISOString()}')
         SERVER tapekeep_cold OPTIONS (schema_name 'cold', table_name '${found.name}', updatable 'false')`,
    );
    return files.map(({ path }) => join(coldDir, path));
  } finally {
    duck.close();
    await rm(scratch, { recursive: true, force: true });
  }
}

async function coverageOf(
  url: string,
  kind: string,
  span: { readonly from: Date; readonly to: Date },
) {
  const rows = await runSql<{ market: string; variantS: number; from: Date; to: Date }>(
    url,
    `SELECT m.name AS market, s.variant AS "variantS", greatest(lower(c.span), $2) AS "from",
            least(upper(c.span), $3) AS "to"
     FROM coverage c JOIN stream s USING (stream_id, market_id) JOIN market m USING (market_id)
     WHERE s.kind = $1 AND c.span && tstzrange($2, $3)`,
    [kind, span.from, span.to],
  );
  return rows.map(({ market, variantS, from, to }) => ({
    ...{ kind, market, variantS },
    spans: [{ from: from.toISOString(), to: to.toISOString() }],
  }));
}

interface Surroundings {
  readonly store: Store;
  readonly coldDir: string;
  readonly duck: DuckSession;
  readonly scratch: string;
  readonly kind: MergedKind;
  readonly rowGroupRows: number;
}

async function writeFile(
  { store, coldDir, duck, scratch, kind, rowGroupRows }: Surroundings,
  piece: Piece,
): Promise<ColdFile> {
  const staged = { path: join(scratch, 'rows.csv'), columns: seriesColumns(kind) };
  const fromMs = Date.parse(`${piece.day}T00:00:00Z`);
  const span = { fromMs, toMs: fromMs + DAY_MS };
  const snapshot = await store.snapshot();
  let rows = 0;
  async function* lines() {
    for (const variantS of piece.variants.toSorted((a, b) => a - b)) {
      const slice = { kind, marketId: piece.marketId, variantS, span };
      for await (const bytes of snapshot.rows(slice, 'csv')) {
        rows += bytes.filter((byte) => byte === 10).length;
        yield bytes;
      }
    }
  }
  await pipeline(Readable.from(lines()), createWriteStream(staged.path));
  await snapshot.close();
  const made = join(scratch, 'rows.parquet');
  await writeParquet(duck, staged, made, { about: {}, rowGroupRows });
  const bytes = await readFile(made);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const path = coldDataPath(viewOf(tableOfKind(kind)), piece.market, piece.day, sha256);
  await mkdir(dirname(join(coldDir, path)), { recursive: true });
  await rename(made, join(coldDir, path));
  return {
    ...{ path, market: piece.market, marketId: piece.marketId, date: piece.day, rows },
    ...{ bytes: bytes.length, sha256 },
    ...{ first: piece.first.toISOString(), last: piece.last.toISOString() },
  };
}
