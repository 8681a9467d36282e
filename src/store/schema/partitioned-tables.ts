import { SERIES } from '../../ledger/batch.js';

/** The tables that are range-partitioned by time: the series, and the earlier versions of candles. */
export const PARTITIONED_TABLES = [...SERIES, 'kline_revision'] as const;
export type PartitionedTable = (typeof PARTITIONED_TABLES)[number];
