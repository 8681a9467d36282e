import { STREAM_KINDS, tableOfStream } from '../../model/series.js';

/** The table that holds what a kind of stream covers (SQL). */
const TABLES = STREAM_KINDS.map((kind) => `WHEN '${kind}' THEN '${tableOfStream(kind)}'`).join(' ');

/** Where what is kept of a stream begins; null where nothing was ever given up (SQL). */
export const keptFromSql = (kind: string) => `
  (SELECT max(upper(p.span)) FROM partition_state p
   WHERE p.state = 'expired' AND p.table_name = CASE ${kind} ${TABLES} END)`;
