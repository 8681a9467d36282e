import ts from 'typescript';
import { lineOf, parse, walk } from '../repository/imports.js';

/** A place where a statement names a table that is cut by market. */
interface CutReference {
  readonly table: string;
  readonly line: number;
  /** What it is called there. */
  readonly alias: string;
  /**
   * How it is bound: to a `market` (one node, or each node by itself), to a `stream` alone (a cluster
   * does not know that a stream has one market), or not at all (asked of every node).
   */
  readonly bound: 'market' | 'stream' | 'none';
}

const IS_STATEMENT = /\b(?:SELECT|INSERT|UPDATE|DELETE|COPY|MERGE)\b/;
/** Words that come after the name of a table and are no name of it. */
const NO_ALIAS = new Set(
  'where set using join left inner on order group limit values returning as cross offset union for from'.split(
    ' ',
  ),
);

/** Texts by the names of the constants that hold them. */
function constantsOf(file: ts.SourceFile): Map<string, string> {
  const constants = new Map<string, string>();
  walk(file, (node) => {
    if (!ts.isVariableDeclaration(node) || !ts.isIdentifier(node.name)) return;
    const { initializer } = node;
    if (initializer === undefined) return;
    if (ts.isStringLiteralLike(initializer) || ts.isTemplateExpression(initializer)) {
      constants.set(node.name.text, initializer.getText(file).slice(1, -1));
    }
  });
  return constants;
}

/**
 * Texts in a source that are statements or parts of one: constants of the same source are put in, for
 * anything else `${…}` stands as it is written.
 */
function statementsOf(source: string): { readonly text: string; readonly line: number }[] {
  const file = parse('source.ts', source);
  const constants = constantsOf(file);
  const found: { text: string; line: number }[] = [];
  walk(file, (node) => {
    const isText = ts.isStringLiteralLike(node) || ts.isTemplateExpression(node);
    // What is put into another statement is read with it.
    if (!isText || isInside(node)) return;
    const text = node
      .getText(file)
      .replaceAll(/\$\{(\w+)\}/g, (written, name: string) => constants.get(name) ?? written);
    if (IS_STATEMENT.test(text)) found.push({ text, line: lineOf(node) });
  });
  return found;
}

function isInside(node: ts.Node): boolean {
  for (let at = node.parent; at !== undefined; at = at.parent) {
    if (ts.isTemplateSpan(at)) return true;
    if (ts.isStatement(at)) return false;
  }
  return false;
}

/** The parentheses around a place: the part of a statement in which its names hold. */
function scopeAround(text: string, at: number): string {
  let depth = 0;
  let from = at;
  for (; from > 0; from -= 1) {
    const one = text[from - 1];
    if (one === ')') depth += 1;
    if (one === '(') {
      if (depth === 0) break;
      depth -= 1;
    }
  }
  let to = at;
  for (depth = 0; to < text.length; to += 1) {
    if (text[to] === '(') depth += 1;
    if (text[to] === ')') {
      if (depth === 0) break;
      depth -= 1;
    }
  }
  return text.slice(from, to);
}

/** What a source copies rows into, as far as it is worked out when it runs. */
export function copyTargets(source: string): string[] {
  return statementsOf(source).flatMap(({ text }) =>
    [...text.matchAll(/\bCOPY\s+\$\{([^}]*)\}[^`]*\bFROM STDIN/g)].map(([, target = '']) => target),
  );
}

/** The references to tables in the statements of a source. */
export function cutReferences(source: string, tables: readonly string[]): CutReference[] {
  const names = tables.join('|');
  return statementsOf(source).flatMap(({ text, line }) => {
    const reference = new RegExp(
      `\\b(?:FROM|JOIN|UPDATE|INTO|USING|,)\\s+(?:ONLY\\s+)?(${names})\\b(?![.(])(?:\\s+(?:AS\\s+)?([a-z]\\w*))?`,
      'g',
    );
    return [...text.matchAll(reference)].map((found) => {
      const [, table = '', given = ''] = found;
      const alias = given === '' || NO_ALIAS.has(given) ? table : given;
      return { table, alias, line, bound: boundOf(scopeAround(text, found.index), alias) };
    });
  });
}

function boundOf(scope: string, alias: string): CutReference['bound'] {
  const column = (name: string) =>
    new RegExp(`(?:\\b${alias}\\.|(?<![.\\w]))${name}\\b|USING \\([^)]*\\b${name}\\b`);
  if (column('market_id').test(scope)) return 'market';
  return column('stream_id').test(scope) ? 'stream' : 'none';
}
