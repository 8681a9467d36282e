import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../kernel/clock.js';
import { DAY_MS } from '../../kernel/durations.js';
import { codeOf } from '../../kernel/errors.js';
import { isThere, makeFolder } from '../../kernel/folders.js';
import { type Span, spanContains } from '../../kernel/span.js';
import { isoMs } from '../../kernel/timestamp.js';
import { columnsOf } from '../../model/kinds.js';
import { type SeriesTable, seriesOf } from '../../model/series.js';
import type {
  CountedFile,
  FilePlace,
  PartitionMarket,
  SealingAdmin,
  Store,
} from '../../store/index.js';
import { archiveDay, contentOf } from '../cold/archiving.js';
import { ColdDecimals } from '../cold/decimals.js';
import { coldManifestPath } from '../cold/folder.js';
import {
  type ColdFile,
  type ColdManifest,
  checksumOfFiles,
  findColdManifest,
  readColdManifest,
  writeColdManifest,
} from '../cold/manifest.js';
import { claimColdDir, coldOwnerConflict } from '../cold/owner.js';
import type { ColdStorage } from '../cold/storage.js';
import { tidyColdDir } from '../cold/tidy.js';
import { ImportRefusedError, inColdWords } from '../errors.js';
import { type Digits, MAX_PRECISION, valueText } from '../parquet/columns.js';
import { identifier, literal } from '../parquet/session.js';
import { type LifeRules, lifeDates, unsettledNote } from '../sealing/plan.js';
import type { LifeWatcher } from '../sealing/seal.js';
import type { ImportedKind } from './columns.js';
import type { ImportSource } from './source.js';
import { readDigits, valuesSql } from './values.js';

/** A source and what is known of it. */
export interface PlacingOptions {
  readonly store: Store;
  readonly source: ImportSource;
  readonly kind: ImportedKind;
  /** Length of candles; 0 for trades. */
  readonly intervalS: number;
  /** The user states that the file has all of this span. */
  readonly claim: Span | undefined;
  /** Clock of this machine. */
  readonly nowMs: number;
  /** For rows that go into files alone; left out: all go to the database. */
  readonly files?: FilesOptions;
  readonly onProgress: (rows: number, market: string) => void;
  readonly signal: AbortSignal;
}

/** Parts for rows that come to the archive as files, without having been in the database. */
export interface FilesOptions {
  readonly cold: ColdStorage;
  readonly rules: LifeRules;
  /** The exchange's time. */
  readonly nowMs: number;
  readonly clock: Clock;
  readonly version: string;
  readonly watcher: LifeWatcher;
}

/** Counts of placed rows. Rows outside the spans are for the writer. */
export interface PlacedRows {
  readonly stored: number;
  readonly duplicate: number;
  readonly spans: readonly Span[];
}

const NOTHING_PLACED: PlacedRows = { stored: 0, duplicate: 0, spans: [] };

/** A day of a market in the source. */
interface SourceDay {
  readonly market: PartitionMarket;
  /** UTC, `2026-01-31`. */
  readonly date: string;
  readonly rows: number;
  readonly timed: number;
}

/** A partition whose rows of the source become files, beside those of an earlier manifest. */
interface Plan {
  readonly place: FilePlace;
  readonly earlier: ColdManifest | undefined;
  readonly days: readonly SourceDay[];
}

/**
 * Writes what the archive would have in files anyway as files alone: days (months of candles) that have no rows and are
 * old enough, and days of archived time that lack a market of the source. All is checked before the first is placed. Each
 * partition is placed in one transaction: an import that was stopped finds its rows there and goes on.
 *
 * @throws ImportRefusedError for rows that contradict each other, or would change a day that is in files; ColdError;
 *   StoreError `sealing_busy`; the signal's reason
 */
export async function importFiles(
  options: PlacingOptions,
  markets: ReadonlyMap<string, PartitionMarket>,
): Promise<PlacedRows> {
  const { store, files, signal } = options;
  if (files === undefined) return NOTHING_PLACED;
  const admin = await store.sealing.open(signal);
  try {
    const run = new FilesRun(options, files, admin, markets);
    return (await run.isPossible()) ? await run.run() : NOTHING_PLACED;
  } finally {
    await admin.close();
  }
}

class FilesRun {
  readonly #options: PlacingOptions & FilesOptions & { readonly receivedAtMs: number };
  readonly #admin: SealingAdmin;
  readonly #markets: ReadonlyMap<string, PartitionMarket>;
  readonly #table: SeriesTable;
  #digits: ReadonlyMap<string, Digits> = new Map();
  #values: ReadonlyMap<string, string> = new Map();
  #duplicate = 0;
  #stored = 0;

  constructor(
    options: PlacingOptions,
    files: FilesOptions,
    admin: SealingAdmin,
    markets: ReadonlyMap<string, PartitionMarket>,
  ) {
    this.#options = { ...options, ...files, receivedAtMs: options.nowMs };
    this.#admin = admin;
    this.#markets = markets;
    this.#table = options.kind === 'trades' ? 'trade' : 'kline';
  }

  /** Returns true if the folder is this database's, and the database can read what is in it. */
  async isPossible(): Promise<boolean> {
    const { cold, store, source, receivedAtMs } = this.#options;
    const mine = await store.sealing.identity();
    if ((await coldOwnerConflict(cold, mine)) !== null) return false;
    this.#digits = await readDigits(source);
    const fits = ({ integer, fraction }: Digits) => integer + fraction <= MAX_PRECISION;
    // With more it would be text, which the database makes canonical.
    if (![...this.#digits.values()].every(fits)) return false;
    this.#values = valuesSql(source, receivedAtMs, this.#digits);
    try {
      await this.#admin.makeColdServer();
      return true;
    } catch (error) {
      if (codeOf(error) === 'sealing_refused') return false;
      throw error;
    }
  }

  async run(): Promise<PlacedRows> {
    const { cold, store, source } = this.#options;
    const days = await this.#sourceDays();
    const times = [...new Set(days.map(({ date }) => Date.parse(date)))];
    const chosen: FilePlace[] = [];
    for (const place of await this.#admin.placesAt(this.#table, times)) {
      if (await this.#isForFiles(place)) chosen.push(place);
    }
    const spans = chosen.map(({ span }) => span);
    if (spans.length === 0) return NOTHING_PLACED;
    this.#duplicate = await source.dropRepeated(spans);
    const once = this.#duplicate === 0 ? days : await this.#sourceDays();
    const partitions = await store.sealing.partitions();
    await claimColdDir(cold, await store.sealing.identity(), partitions);
    const plans: Plan[] = [];
    for (const place of chosen) {
      const own = once.filter(({ date }) => spanContains(place.span, Date.parse(date)));
      plans.push(await this.#planOf(place, own));
    }
    const folder = cold.scratch;
    // Removes what a program left that was killed.
    if (await isThere(folder)) await tidyColdDir(cold, partitions);
    await inColdWords(folder, async () => {
      await makeFolder(folder);
      try {
        const decimals = new ColdDecimals(cold, this.#table, source.session);
        for (const plan of plans) if (plan.days.length > 0) await this.#place(plan, decimals);
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    });
    return { stored: this.#stored, duplicate: this.#duplicate, spans };
  }

  async #sourceDays(): Promise<SourceDay[]> {
    const { source } = this.#options;
    const rows = await source.session.rows(
      'counting days',
      `SELECT market, (at_us // ${DAY_MS * 1000})::INTEGER, count(*) FROM ${source.relation} GROUP BY ALL ORDER BY ALL`,
    );
    return rows.flatMap(([name, day, count]) => {
      const market = this.#markets.get(String(name));
      const date = isoMs(Number(day) * DAY_MS).slice(0, 10);
      const [all, timed] = [Number(count), source.isExact ? Number(count) : 0];
      return market === undefined ? [] : [{ market, date, rows: all, timed }];
    });
  }

  /** Archived, or without rows and due to be archived as soon as there are any. */
  async #isForFiles(place: FilePlace): Promise<boolean> {
    if (place.state === 'archived') return true;
    if (place.state === 'expired' || place.hasRows) return false;
    const { rules, nowMs } = this.#options;
    const { archivesAtMs } = lifeDates({ ...place, state: 'hot' }, rules);
    return archivesAtMs !== null && archivesAtMs <= nowMs && (await this.#isSettled(place));
  }

  /** Returns true if nothing else is to come there; what the user claims is no gap. */
  async #isSettled(place: FilePlace): Promise<boolean> {
    const { rules, claim, intervalS } = this.#options;
    const marketIds = [...this.#markets.values()].map(({ marketId }) => marketId);
    const claimed = claim && { marketIds, variantS: intervalS, span: claim };
    // It has no rows that could learn their times.
    const needs = { ...rules, needsTimes: false };
    return (await unsettledNote(this.#admin, place, needs, claimed)) === undefined;
  }

  /** @throws ImportRefusedError */
  async #planOf(place: FilePlace, days: readonly SourceDay[]): Promise<Plan> {
    if (place.state !== 'archived') return { place, earlier: undefined, days };
    const { cold } = this.#options;
    const earlier = await readColdManifest(cold, place.uri ?? '');
    const fresh: SourceDay[] = [];
    let unknown = 0;
    for (const day of days) {
      const file = earlier.files.find(
        ({ marketId, date }) => marketId === day.market.marketId && date === day.date,
      );
      if (file === undefined) fresh.push(day);
      else unknown += await this.#countUnknown(day, file);
    }
    const isOpen = fresh.length > 0 && !(await this.#isSettled(place));
    if (unknown === 0 && !isOpen) return { place, earlier, days: fresh };
    const [from, to] = [place.span.fromMs, place.span.toMs].map(isoMs);
    const kind = seriesOf(this.#table).retention;
    throw new ImportRefusedError(
      `${place.name} is archived, and ${unknown > 0 ? `${unknown} rows of the file are not in it` : 'its streams have gaps that may be filled yet'}: run "tapekeep restore --kind ${kind} --from ${from} --to ${to}", then import again. Nothing was stored`,
    );
  }

  /** Rows of a day that its file does not have with the same content; those that it has are repeated. */
  async #countUnknown(day: SourceDay, file: ColdFile): Promise<number> {
    const { source, cold, signal } = this.#options;
    const { key, columns } = seriesOf(this.#table);
    const compared = columns.filter(
      ({ name, isContent }) =>
        key.includes(name) ||
        (isContent && (name !== 'total' || source.facts.recognised.has('total'))) ||
        (name === 'executed_at' && source.isExact),
    );
    const texts = columnsOf(this.#table)
      .filter(({ name }) => compared.some((one) => one.name === name))
      .map(valueText)
      .join(', ');
    using held = cold.hold(signal);
    const path = await held.local(file.path, file);
    const [row] = await source.session.rows(
      `reading ${path}`,
      `SELECT count(*) FROM (SELECT ${texts} FROM ${this.#relationOf(day)}
       EXCEPT SELECT ${texts} FROM read_parquet(${literal(path)}))`,
    );
    const unknown = Number(row?.[0]);
    if (unknown === 0) this.#duplicate += day.rows;
    return unknown;
  }

  async #place({ place, earlier, days }: Plan, decimals: ColdDecimals): Promise<void> {
    const { cold, watcher, onProgress, signal, source, intervalS, clock } = this.#options;
    const written: ColdFile[] = [];
    const counted: CountedFile[] = [];
    for (const day of days) {
      signal.throwIfAborted();
      const { market, date, rows, timed } = day;
      const path = join(cold.scratch, `${market.marketId}-${date}`);
      const relation = this.#relationOf(day);
      const staged = { relation, digits: this.#digits, columns: columnsOf(this.#table) };
      const tools = { duck: source.session, decimals };
      written.push(
        await archiveDay(this.#options, tools, place, { ...market, date, path, rows }, staged),
      );
      const { marketId } = market;
      counted.push({ marketId, variant: intervalS, date, rows, timed });
    }
    const files = [...(earlier?.files ?? []), ...written].sort(
      (a, b) => a.marketId - b.marketId || (a.date < b.date ? -1 : 1),
    );
    const checksum = checksumOfFiles(files);
    await watcher.onStep('archive: manifest', place.name);
    const rows = files.reduce((sum, file) => sum + file.rows, 0);
    const facts = { rows, checksum };
    const content = await contentOf(
      { ...this.#options, admin: this.#admin, clock },
      place,
      facts,
      files,
    );
    // The one that is read stays until the switch.
    const name = earlier === undefined ? place.name : `${place.name}-${tail(checksum)}`;
    const uri = coldManifestPath(this.#table, name);
    const { version } = await findColdManifest(cold, uri);
    const manifest = await writeColdManifest(cold, uri, content, { version });
    await watcher.onStep('archive: switch', place.name);
    const follows = earlier?.sha256 ?? null;
    if (!(await this.#admin.importFiles(place, { uri, manifest }, follows, counted))) {
      const text = `${place.name} has changed meanwhile: run the same command again`;
      throw new ImportRefusedError(text);
    }
    this.#stored += counted.reduce((sum, one) => sum + one.rows, 0);
    onProgress(this.#stored, days.at(-1)?.market.market ?? '');
  }

  /** SQL of the rows of a day, in the order of the key. */
  #relationOf({ market, date }: SourceDay): string {
    const fromUs = Date.parse(date) * 1000;
    const columns = columnsOf(this.#table).map(
      ({ name }) => `${this.#values.get(name) ?? 'NULL'} AS ${identifier(name)}`,
    );
    return `(SELECT ${columns.join(', ')} FROM ${this.#options.source.relation}
      WHERE market = ${literal(market.market)} AND at_us >= ${fromUs} AND at_us < ${fromUs + DAY_MS * 1000})`;
  }
}

/** The first digits of a checksum. */
const tail = (checksum: string) => checksum.slice(checksum.indexOf(':') + 1).slice(0, 12);
