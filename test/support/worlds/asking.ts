import { FolderStorage } from '../../../src/archive/cold/storage.js';
import { answerQuestion } from '../../../src/archive/query/answer.js';
import type { Selection } from '../../../src/archive/query/selection.js';
import { openStatement } from '../../../src/archive/query/statement.js';
import type { ArchiveReader } from '../../../src/archive/reading.js';

/** An answer as a whole. */
export interface Asked {
  readonly names: readonly string[];
  readonly rows: readonly (readonly unknown[])[];
  readonly notes: readonly string[];
}

/** Asks DuckDB as the command does; with null for a reading, the files alone. */
export async function askRows(
  sql: string,
  reading: ArchiveReader | null,
  coldDir: string,
  selection: Selection = {},
): Promise<Asked> {
  const notes: string[] = [];
  const rows: (readonly unknown[])[] = [];
  let names: readonly string[] = [];
  const statement = await openStatement(sql, new AbortController().signal);
  await answerQuestion(
    statement,
    {
      ...{ reader: reading, cold: new FolderStorage(coldDir), selection, onPhase: () => undefined },
      onNote: (note) => notes.push(note),
    },
    async (answer) => {
      names = answer.names;
      for await (const some of answer.chunks) rows.push(...some);
    },
  );
  return { names, rows, notes };
}
