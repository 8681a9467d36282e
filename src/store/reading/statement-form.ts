import { StoreError } from '../errors.js';

/** Statements that return rows and change nothing. */
const TAKEN = ['SELECT', 'VALUES', 'WITH', 'TABLE', 'SHOW', 'EXPLAIN'] as const;
/** Those of them that EXPLAIN may be asked of. */
const EXPLAINED: ReadonlySet<string> = new Set(['SELECT', 'VALUES', 'WITH', 'TABLE']);
const EXPLAIN_WORDS: ReadonlySet<string> = new Set(['ANALYZE', 'ANALYSE', 'VERBOSE']);

/**
 * Checks how a statement begins. A data-modifying WITH passes; the transaction and the role refuse it.
 *
 * @returns the first word, in capitals
 * @throws StoreError `query_refused` naming what is taken
 */
export function assertReads(sql: string): string {
  const words = wordsOf(sql);
  const first = words.next().value;
  if (first === undefined) throw refused('there is no statement');
  if (!TAKEN.some((word) => word === first)) throw notTaken(first);
  if (first !== 'EXPLAIN') return first;
  for (const word of words) {
    if (EXPLAIN_WORDS.has(word)) continue;
    if (!EXPLAINED.has(word)) throw notTaken(`EXPLAIN ${word}`);
    return first;
  }
  throw refused('there is no statement to explain');
}

function notTaken(begin: string): StoreError {
  const taken = `${TAKEN.slice(0, -1).join(', ')} and ${TAKEN.at(-1)}`;
  return refused(`query takes ${taken} only; this statement begins with ${begin.slice(0, 40)}`);
}

function refused(message: string): StoreError {
  return new StoreError('query_refused', 'fatal', message);
}

/**
 * The words at the head of a statement, without comments, opening parentheses and empty statements.
 * Options of EXPLAIN in parentheses are left out.
 */
function* wordsOf(sql: string): Generator<string, undefined> {
  let at = 0;
  let isExplain = false;
  for (;;) {
    at = afterBlank(sql, at);
    const [word] = /^[\p{L}_][\p{L}\p{N}_$]*/u.exec(sql.slice(at, at + 100)) ?? [];
    if (word !== undefined) {
      at += word.length;
      isExplain = word.toUpperCase() === 'EXPLAIN';
      yield word.toUpperCase();
      continue;
    }
    const sign = sql[at];
    if (sign === undefined) return;
    const [options] = isExplain ? (/^\([^()]*\)/.exec(sql.slice(at)) ?? []) : [];
    if (options !== undefined && !/^\(\s*(select|values|with|table)\b/i.test(options)) {
      at += options.length;
    } else if (sign === '(' || sign === ';') {
      at += 1;
    } else {
      yield sign;
      at += 1;
    }
    isExplain = false;
  }
}

/** The place after white space and comments; comments in stars nest. */
function afterBlank(sql: string, from: number): number {
  let at = from;
  for (;;) {
    at += /^\s*/.exec(sql.slice(at))?.[0].length ?? 0;
    if (sql.startsWith('--', at)) {
      const end = sql.indexOf('\n', at);
      at = end === -1 ? sql.length : end + 1;
    } else if (sql.startsWith('/*', at)) {
      let depth = 0;
      do {
        if (sql.startsWith('/*', at)) depth += 1;
        else if (sql.startsWith('*/', at)) depth -= 1;
        else {
          at += 1;
          continue;
        }
        at += 2;
      } while (depth > 0 && at < sql.length);
    } else {
      return at;
    }
  }
}
