import { join } from 'node:path';
import { multiplyDecimals } from '../../kernel/decimal.js';
import { seriesOrder, seriesVariant } from '../../model/kinds.js';
import type { RowForm, SeriesSlice } from '../../store/index.js';
import { Scratch } from '../parquet/scratch.js';
import { DuckSession, literal } from '../parquet/session.js';
import { countLines } from '../parquet/texts.js';
import { type FileTypes, newestSql, rowsSql, TOTAL_MARK } from './cold-sql.js';
import type { PlacedFile } from './reading.js';

/** A file of a day has few rows at the edge of a page: enough for what one group holds. */
const LIMITS = { memoryMb: 256, threads: 2 };
/** Files whose columns and groups are remembered. */
const MAX_KNOWN = 4_096;

/** So many rows are held at once to see whether they are enough. */
const MAX_TRIED = 10_000;
/** Rows come in bursts: the time that is looked at would on average hold so many times what is asked. */
const AMPLE = 4;

/** Rows that are compressed together, by the moments between which they lie. */
interface RowGroup {
  readonly rows: number;
  readonly firstMs: number;
  readonly lastMs: number;
}

interface FileFacts {
  readonly types: FileTypes;
  readonly groups: readonly RowGroup[];
}

/** Rows of cold files as lines of text, by a DuckDB that lives as long as a reading. */
export class ColdRows {
  readonly #signal: AbortSignal | undefined;
  readonly #facts = new Map<string, FileFacts>();
  #opened: Promise<{ readonly duck: DuckSession; readonly scratch: Scratch }> | undefined;

  constructor(signal: AbortSignal | undefined) {
    this.#signal = signal;
  }

  /** @throws ParquetError, or the signal's reason */
  async *rows(file: PlacedFile, slice: SeriesSlice, form: RowForm): AsyncGenerator<Buffer> {
    const { types } = await this.#factsOf(file, slice);
    yield* this.#lines(file, rowsSql(file.absolutePath, slice, form, types));
  }

  /** The newest rows, newest first. Only the groups of rows that can hold them are looked at. */
  async *newest(
    file: PlacedFile,
    slice: SeriesSlice,
    form: RowForm,
    limit: number,
  ): AsyncGenerator<Buffer> {
    const { types, groups } = await this.#factsOf(file, slice);
    const { toMs } = slice.span;
    const ask = (fromMs: number) =>
      this.#lines(
        file,
        newestSql(file.absolutePath, { ...slice, span: { fromMs, toMs } }, form, types, limit),
      );
    const surelyMs = Math.max(slice.span.fromMs, startOfNewest(groups, slice, limit));
    const likelyMs = likelyStart(groups, slice, limit);
    if (likelyMs !== null && likelyMs > surelyMs) {
      const pieces: Buffer[] = [];
      for await (const piece of ask(likelyMs)) pieces.push(piece);
      if (pieces.reduce((sum, piece) => sum + countLines(piece), 0) >= limit) {
        yield* pieces;
        return;
      }
    }
    yield* ask(surelyMs);
  }

  async close(): Promise<void> {
    const opened = await this.#opened?.catch(() => undefined);
    this.#opened = undefined;
    if (opened === undefined) return;
    opened.duck.close();
    await opened.scratch.remove();
  }

  async *#lines({ absolutePath }: PlacedFile, sql: string): AsyncGenerator<Buffer> {
    const { duck } = await this.#open();
    for await (const [lines] of duck.columns(`reading ${absolutePath}`, sql)) {
      const text = `${(lines as readonly string[]).join('\n')}\n`;
      yield Buffer.from(text.includes(TOTAL_MARK) ? withTotals(text) : text);
    }
  }

  async #factsOf({ absolutePath: path }: PlacedFile, slice: SeriesSlice): Promise<FileFacts> {
    const known = this.#facts.get(path);
    if (known !== undefined) return known;
    const { duck } = await this.#open();
    const [time = ''] = seriesOrder(slice.kind);
    const file = literal(path);
    const doing = `reading ${path}`;
    const columns = await duck.rows(
      doing,
      `DESCRIBE SELECT * FROM read_parquet(${file}, hive_partitioning = false)`,
    );
    // In a file of several variants a group may hold several of them; there it tells nothing.
    const isPlain = seriesVariant(slice.kind) === undefined;
    const groups = isPlain ? await duck.rows(doing, groupsSql(file, time)) : [];
    const facts = {
      types: new Map(columns.map(([name, type]) => [String(name), String(type)])),
      groups: groups.map(([rows, firstMs, lastMs]) => ({
        ...{ rows: Number(rows), firstMs: Number(firstMs), lastMs: Number(lastMs) },
      })),
    };
    if (this.#facts.size >= MAX_KNOWN) this.#facts.clear();
    this.#facts.set(path, facts);
    return facts;
  }

  #open() {
    this.#opened ??= (async () => {
      const scratch = await Scratch.make('reading');
      const duck = await DuckSession.open(join(scratch.path, 'spill'), LIMITS, this.#signal);
      return { duck, scratch };
    })();
    return this.#opened;
  }
}

/** Least and greatest moment of each group, from the file's own statistics; none if it has none. */
function groupsSql(file: string, time: string): string {
  const ms = (name: string) => `epoch_ms(${name}::TIMESTAMPTZ)`;
  return `SELECT row_group_num_rows, ${ms('stats_min_value')}, ${ms('stats_max_value')}
    FROM parquet_metadata(${file}) WHERE path_in_schema = ${literal(time)}
      AND stats_min_value IS NOT NULL AND stats_max_value IS NOT NULL
    ORDER BY row_group_id`;
}

/** A moment from which on there are at least `limit` rows of the slice, as far as statistics tell. */
function startOfNewest(groups: readonly RowGroup[], { span }: SeriesSlice, limit: number): number {
  let rows = 0;
  for (const group of groups.toReversed()) {
    if (group.firstMs >= span.toMs) continue;
    // Statistics are cut to milliseconds: what ends at the edge may reach over it.
    if (group.lastMs + 1 < span.toMs) rows += group.rows;
    if (rows >= limit) return group.firstMs;
  }
  return span.fromMs;
}

/**
 * A moment from which on there are as many rows if they come as evenly as in the rest of their group:
 * worth a try, because then most of the group is passed over. Null where it is not.
 */
function likelyStart(
  groups: readonly RowGroup[],
  { span }: SeriesSlice,
  limit: number,
): number | null {
  const group = groups.findLast(({ firstMs }) => firstMs < span.toMs);
  if (group === undefined || limit > MAX_TRIED || group.rows < AMPLE * limit) return null;
  const endMs = Math.min(span.toMs, group.lastMs + 1);
  return Math.floor(endMs - ((group.lastMs - group.firstMs) / group.rows) * limit * AMPLE);
}

const MARKED = new RegExp(
  `${TOTAL_MARK}([^${TOTAL_MARK}]*)${TOTAL_MARK}([^${TOTAL_MARK}]*)${TOTAL_MARK}`,
  'g',
);

/** Works out the totals that the statement could not. */
function withTotals(text: string): string {
  return text.replace(MARKED, (_, price: string, amount: string) =>
    multiplyDecimals(price, amount),
  );
}
