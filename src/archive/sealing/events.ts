import type { PartitionInfo } from '../../store/index.js';

/**
 * The steps of the partition lifecycle, in their order. Each is reported when it starts; what a program
 * that ends there leaves behind is the state before the step, or after it.
 */
export type LifeStep =
  | 'seal: guard'
  | 'seal: indexes'
  | 'seal: freeze'
  | 'seal: count'
  | 'seal: declare'
  | 'archive: read'
  | 'archive: write'
  | 'archive: verify'
  | 'archive: place'
  | 'archive: manifest'
  | 'archive: switch'
  | 'archive: drop'
  | 'restore: check'
  | 'restore: load'
  | 'restore: indexes'
  | 'restore: count'
  | 'restore: switch'
  | 'restore: files'
  | 'retention: expire'
  | 'retention: drop'
  | 'retention: files'
  | 'tidy';

/** What goes on, for people and for logs. */
export interface LifeWatcher {
  /** A step starts. A returned promise is awaited. */
  readonly onStep: (step: LifeStep, partition: string) => void | Promise<void>;
  /** Rows of the step under way; `total` as far as it is known. */
  readonly onRows: (rows: number, total: number | null) => void;
}

/** What became of one partition. */
export interface LifeOutcome {
  readonly partition: PartitionInfo;
  readonly became: 'sealed' | 'archived' | 'restored' | 'expired' | 'kept';
  readonly rows: number | null;
  /** Of the heap and the indexes before and after, where they changed. */
  readonly bytes?: { readonly before: Sizes; readonly after: Sizes };
  readonly coldBytes?: number;
  /** Why it was kept, or what a person should know. */
  readonly note: string | null;
}

export interface Sizes {
  readonly heap: number;
  readonly indexes: number;
}
