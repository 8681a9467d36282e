import { readdir, readFile } from 'node:fs/promises';
import type { Clock } from '../../../kernel/clock.js';
import type { ReaderStatements, StatementLimits } from '../../../store/index.js';
import type { Answer, Handlers } from '../endpoints.js';

/** SQL of people, and statements to begin with. */

/** Limits of the SQL of people, of all of them together. */
export const QUERY_LIMITS: StatementLimits = {
  ...{ atOnce: 2, waiting: 8, timeoutMs: 10_000, bytes: 16 * 1_048_576 },
};

/** Needs of the answers to SQL. */
export interface QueryDeps {
  /** Made with {@link QUERY_LIMITS}. @throws TapekeepError while there is no database */
  readonly reader: () => ReaderStatements;
  readonly clock: Pick<Clock, 'monotonicMs'>;
}

/** Answers to SQL. */
export function queryHandlers({ reader, clock }: QueryDeps): Pick<Handlers, 'query' | 'cookbook'> {
  let cookbook: Promise<Answer<'cookbook'>> | undefined;
  return {
    async query({ sql, limit }, signal) {
      const startedMs = clock.monotonicMs();
      const { columns, rows, isCut } = await reader().query(sql, limit, signal);
      return {
        columns: [...columns],
        rows: rows.map((row) => [...row]),
        ...{ isCut, durationMs: Math.round(clock.monotonicMs() - startedMs) },
      };
    },
    async cookbook() {
      cookbook ??= readCookbook();
      return await cookbook;
    },
  };
}

const COOKBOOK = new URL('../../../../sql/cookbook/', import.meta.url);

/** Statements of the package, each with the comment at its head. */
async function readCookbook(): Promise<Answer<'cookbook'>> {
  const files = (await readdir(COOKBOOK)).filter((name) => name.endsWith('.sql')).sort();
  const entries = [];
  for (const file of files) {
    const text = await readFile(new URL(file, COOKBOOK), 'utf8');
    const [, comment = '', sql = ''] = /^((?:--[^\n]*\n)*)([\s\S]*)$/.exec(text) ?? [];
    const about = comment.replaceAll(/^-- ?/gm, '').replaceAll('\n', ' ').trim();
    const name = file.replace(/^\d+_(.*)\.sql$/, '$1').replaceAll('_', ' ');
    entries.push({ name, about, sql: sql.trim() });
  }
  return { entries };
}
