import type { Span } from '../../kernel/span.js';
import type { SeriesColumn } from '../../model/kinds.js';
import type { SeriesTable } from '../../model/series.js';

/** `hot`: being written; `sealed`: final; `archived`: in files; `expired`: gone for good. */
export type PartitionLife = 'hot' | 'sealed' | 'archived' | 'expired';

/** A partition at a glance. */
export interface PartitionInfo {
  readonly table: SeriesTable;
  readonly name: string;
  readonly span: Span;
  readonly state: PartitionLife;
  /** Counted at sealing; of a hot one as the database estimates. Null: not known, or none. */
  readonly rows: number | null;
  /** What the heap and the indexes take in the database; 0 when it is not there. */
  readonly heapBytes: number;
  readonly indexBytes: number;
  /** The table is there, with rows or emptied. */
  readonly isPresent: boolean;
  readonly checksum: string | null;
  /** Manifest of its files; also of a sealed one that was restored and has not changed since. */
  readonly uri: string | null;
  readonly coldBytes: number | null;
  readonly sealedAtMs: number | null;
  readonly archivedAtMs: number | null;
  readonly restoredAtMs: number | null;
}

/** Why a partition can not be sealed yet. */
export interface Unsettled {
  readonly why: 'gap' | 'doubt' | 'verdict';
  readonly kind: string;
  readonly market: string;
  readonly variantS: number;
  readonly span: Span;
}

/** An island of trades that does not hold as many rows as the ledger says. */
export interface LedgerDoubt {
  readonly market: string;
  readonly span: Span;
  readonly claimed: number;
  readonly counted: number;
}

/** What was counted of a partition. */
export interface SealFacts {
  readonly rows: number;
  readonly checksum: string;
}

/** What the ledger says of one stream within a partition. */
export interface StreamCoverage {
  readonly kind: string;
  readonly market: string;
  readonly variantS: number;
  readonly spans: readonly Span[];
}

/** A market that has rows in a partition. */
export interface PartitionMarket {
  readonly marketId: number;
  readonly market: string;
  /** Digits after the point of the stock and of the money, as the exchange gives them; null: unknown. */
  readonly stockPrec: number | null;
  readonly moneyPrec: number | null;
}

/** Where partitions are, and a desk to work on them. */
export interface SealingStore {
  /** All that were ever made, by table and time. */
  partitions(): Promise<PartitionInfo[]>;
  /**
   * Opens a connection that alone may change the lives of partitions.
   *
   * @param signal gives up whatever runs on it
   * @throws StoreError `sealing_busy` while another one is open, `sealing_refused` on a Citus cluster
   */
  open(signal: AbortSignal): Promise<SealingDesk>;
}

type Place = Pick<PartitionInfo, 'table' | 'name' | 'span'>;

/**
 * The steps of which lives of partitions consist, each whole or not at all. A step that finds a lock
 * taken for too long throws a StoreError `retry`: nothing has happened, another time will do.
 */
export interface SealingDesk {
  /** The first thing that keeps a partition from being settled; undefined when it is. */
  unsettled(place: Place, needsVerdicts: boolean): Promise<Unsettled | undefined>;
  /** Islands of trades that touch a span and do not add up; the first few. */
  ledgerDoubts(span: Span): Promise<LedgerDoubt[]>;
  /** From here on the rows do not change, or the seal fails. False: it is not hot any more. */
  beginSeal(place: Place): Promise<boolean>;
  /** Builds the indexes anew and drops what an interrupted try left. */
  rebuildIndexes(place: Place): Promise<void>;
  /** Freezes the rows. False where the rights do not suffice. */
  freeze(place: Place): Promise<boolean>;
  /** False: it was reopened meanwhile. */
  finishSeal(place: Place, facts: SealFacts): Promise<boolean>;
  /** Markets that have rows in it, by id. @param partition the name of a table with its columns */
  markets(place: Place): Promise<PartitionMarket[]>;
  /** The columns of {@link marketRows}, in their order. */
  columns(table: SeriesTable): readonly SeriesColumn[];
  /** The rows of a market as canonical lines, day by day. Leaving early ends the desk. */
  marketRows(place: Place, marketId: number): AsyncIterable<Buffer>;
  coverage(place: Place): Promise<StreamCoverage[]>;
  /**
   * The switch to files. False: it is not sealed, or not with this checksum.
   *
   * @param cold the manifest, which the database holds against the rows that it counted
   */
  archive(
    place: Place,
    cold: { readonly uri: string; readonly manifest: { readonly checksum: string } },
  ): Promise<boolean>;
  /** Drops the table of what is archived or expired. False: it is in use, try again later. */
  dropEmptied(place: Place): Promise<boolean>;
  /** An empty table aside for rows that come back. False: it is not archived. */
  beginRestore(place: Place): Promise<boolean>;
  /** Adds lines of {@link columns} with the market's id before them. */
  copyIn(place: Place, lines: Buffer): Promise<void>;
  /** The switch back. False: it is not archived, or not with this checksum. */
  finishRestore(place: Place, checksum: string): Promise<boolean>;
  /**
   * Gives up the rows, and in the same transaction what the ledger says of them and of all before.
   * False: it was expired already, or its time has hardly ended.
   */
  expire(place: Place): Promise<boolean>;
  close(): Promise<void>;
}
