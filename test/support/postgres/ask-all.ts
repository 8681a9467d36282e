import type { Answer, Store } from '../../../src/store/index.js';

/** Asks a statement as `tapekeep query` does, for all rows of a small answer. */
export async function askAll(store: Store, sql: string, timeoutMs: number) {
  const rows: (readonly unknown[])[] = [];
  let taken: Pick<Answer, 'names' | 'cold'> = { names: [], cold: [] };
  await store.inspection.ask(sql, timeoutMs, async ({ chunks, ...answer }) => {
    taken = answer;
    for await (const chunk of chunks) rows.push(...chunk);
  });
  return { ...taken, rows };
}
