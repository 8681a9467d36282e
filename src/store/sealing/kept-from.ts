/** Where what is kept of a stream begins; null where nothing was ever given up (SQL). */
export const keptFromSql = (kind: string) => `
  (SELECT max(upper(p.span)) FROM partition_state p
   WHERE p.state = 'expired' AND p.table_name = CASE ${kind}
     WHEN 'trades' THEN 'trade' WHEN 'times' THEN 'trade' WHEN 'state' THEN 'market_state'
     WHEN 'orders' THEN 'active_order' ELSE ${kind} END)`;
