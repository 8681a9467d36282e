import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import type { ExportPart, LateRows } from '../../archive/export/export.js';
import type { Manifest, MarketPart } from '../../archive/export/manifest.js';
import type { ArchiveReader } from '../../archive/reading.js';
import { codeOf } from '../../kernel/errors.js';
import { type SeriesKind, tableOfKind } from '../../model/kinds.js';
import type { ArchiveIdentity, JournalEntry, Store } from '../../store/index.js';
import { UsageError } from '../failure.js';
import type { ExportSelection } from './selection.js';

/** Exports that go on where the last one to the same file ended. */

/** The last export to a file. */
export interface Earlier extends Pick<Manifest, 'kind' | 'variantS' | 'journal' | 'archive'> {
  readonly markets: readonly Pick<MarketPart, 'market' | 'from' | 'to' | 'lateFrom'>[];
  readonly name: string;
  readonly nextPath: string;
}

/** The manifest of an export to a file; undefined for anything else. */
function parseManifest(text: string): Manifest | undefined {
  try {
    const { file, journal, kind, markets } = JSON.parse(text) as Partial<Manifest>;
    const isTime = (time: unknown) => typeof time === 'string' && !Number.isNaN(Date.parse(time));
    const isOne =
      [file, kind].every((one) => typeof one === 'string') &&
      Number.isSafeInteger(journal) &&
      markets?.every(
        ({ market, from, to, lateFrom = from }) =>
          typeof market === 'string' && [from, to, lateFrom].every(isTime),
      );
    return isOne === true ? (JSON.parse(text) as Manifest) : undefined;
  } catch {
    return undefined;
  }
}

/** Files that continue one file. */
const FILES_MAX = 100_000;
/** Late time ranges of a market that one export looks up. */
const LATE_MAX = 10_000;
const AGAIN = 'export the whole range again, without --since-last';

const refused = (name: string, why: string) => new UsageError('--since-last', name, why);

/**
 * Finds the last of `FILE.csv`, `FILE.1.csv`, `FILE.2.csv` and so on.
 *
 * @throws UsageError where there is none, or options that do not go with it
 */
export async function readEarlier(options: ExportSelection): Promise<Earlier> {
  const { out, from, to, manifest } = options;
  if (out === '-') throw refused(out, 'name the file of the last export with --out');
  if (from !== undefined || to !== undefined || manifest !== undefined) {
    throw refused(
      out,
      'it starts where the last export ended: leave out --from, --to and --manifest',
    );
  }
  const ending = extname(out);
  const stem = out.slice(0, out.length - ending.length);
  let last = { path: out, text: await readManifest(out) };
  for (let number = 1; number < FILES_MAX; number += 1) {
    const path = `${stem}.${number}${ending}`;
    const text = await readManifest(path);
    if (text !== undefined) {
      last = { path, text };
      continue;
    }
    if (last.text === undefined) break;
    const earlier = parseManifest(last.text);
    if (earlier !== undefined) return { ...earlier, name: earlier.file ?? out, nextPath: path };
    throw refused(
      last.path,
      `its manifest is not one of an export that can be continued; ${AGAIN}`,
    );
  }
  throw refused(out, `there is no ${out}.manifest.json; export without --since-last first`);
}

async function readManifest(path: string): Promise<string | undefined> {
  try {
    return await readFile(`${path}.manifest.json`, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** A selection, which has to be that of the earlier export. */
interface Selection {
  readonly kind: SeriesKind;
  readonly variantS: number;
  readonly archive: ArchiveIdentity | null;
  readonly parts: readonly ExportPart[];
}

/**
 * The parts from the end of the earlier file to where coverage ends now.
 *
 * @throws UsageError for another kind, length, archive or selection of markets
 */
export function partsAfter(earlier: Earlier, now: Selection): ExportPart[] {
  const differs = (what: string) => refused(earlier.name, `it has ${what}; ${AGAIN}`);
  if (earlier.kind !== now.kind) throw differs(`${earlier.kind}, not ${now.kind}`);
  if ((earlier.variantS ?? 0) !== now.variantS) throw differs('another --interval or --period');
  if (JSON.stringify(earlier.archive) !== JSON.stringify(now.archive)) {
    throw differs('rows of another archive');
  }
  const names = (all: readonly { readonly market: string }[]) =>
    all.map(({ market }) => market).join(', ');
  if (names(earlier.markets) !== names(now.parts)) {
    throw differs(`the markets ${names(earlier.markets)}, not ${names(now.parts)}`);
  }
  return now.parts.map((part, at) => {
    const fromMs = Date.parse(earlier.markets[at]?.to ?? '');
    return { ...part, span: { fromMs, toMs: Math.max(fromMs, part.span.toMs) } };
  });
}

/**
 * Adds to each part the rows before it that were stored after the earlier file.
 *
 * @param reader what it sees is what the new file has
 * @throws UsageError when the journal does not reach back that far; StoreError
 */
export async function withLate(
  earlier: Earlier,
  { kind, variantS, parts }: Selection,
  store: Pick<Store, 'journal'>,
  reader: ArchiveReader,
): Promise<ExportPart[]> {
  const until = await reader.snapshot.journalNumber();
  const late = new Map(parts.map(({ marketId }) => [marketId, [] as JournalEntry[]]));
  let at = earlier.journal;
  // A number beyond the newest is refused by the journal: the database went back.
  while (at !== until) {
    const changes = await store.journal.changesSince(at).catch((error: unknown) => {
      if (codeOf(error) !== 'journal_behind') throw error;
      throw refused(earlier.name, `the journal no longer has all changes since it; ${AGAIN}`);
    });
    for (const entry of changes.entries) {
      const isOwn = entry.series === tableOfKind(kind) && entry.variant === variantS;
      if (isOwn && entry.number <= until) late.get(entry.marketId ?? 0)?.push(entry);
    }
    at = Math.min(changes.upTo, until);
  }
  return parts.map((part, index) => {
    const { lateFrom, from = '' } = earlier.markets[index] ?? {};
    const fromMs = Date.parse(lateFrom ?? from);
    const slices = slicesOf(late.get(part.marketId) ?? [], { fromMs, toMs: part.span.fromMs });
    if (slices.reduce((sum, { stored }) => sum + stored.length, 0) > LATE_MAX) {
      throw refused(
        earlier.name,
        `more than ${LATE_MAX} late time ranges of ${part.market} came since; ${AGAIN}`,
      );
    }
    return { ...part, late: { fromMs, slices } };
  });
}

function slicesOf(
  entries: readonly JournalEntry[],
  within: { readonly fromMs: number; readonly toMs: number },
): LateRows['slices'] {
  const slices: { span: JournalEntry['span']; stored: LateRows['slices'][number]['stored'] }[] = [];
  const sorted = entries.toSorted((a, b) => a.span.fromMs - b.span.fromMs);
  for (const { span: whole, received } of sorted) {
    const fromMs = Math.max(whole.fromMs, within.fromMs);
    const toMs = Math.min(whole.toMs, within.toMs);
    if (received === null || fromMs >= toMs) continue;
    const span = { fromMs, toMs };
    const last = slices.at(-1);
    if (last === undefined || fromMs >= last.span.toMs) {
      slices.push({ span, stored: [{ span, received }] });
      continue;
    }
    last.span = { fromMs: last.span.fromMs, toMs: Math.max(last.span.toMs, toMs) };
    last.stored = [...last.stored, { span, received }];
  }
  return slices;
}
