/** Where node-pg-migrate remembers what was applied. */
export const MIGRATIONS_TABLE = 'tapekeep_migration';

/**
 * Begins a transaction in which migrations, definitions or rights change: programs that try at once
 * take turns. A lock that needs the owner's rights, and that nothing waits for which only reads.
 */
export const BEGIN_ALONE = `
  BEGIN ISOLATION LEVEL READ COMMITTED;
  LOCK TABLE public.${MIGRATIONS_TABLE} IN SHARE ROW EXCLUSIVE MODE`;
