import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import ts from 'typescript';

/** Source texts by path from the source folder, with `/` between folders: `kernel/clock.ts`. */
export type Sources = ReadonlyMap<string, string>;

/** One mention of another module in a file. */
export interface Import {
  readonly specifier: string;
  readonly line: number;
  /** Gone after compilation: `import type`, or a type's `import('…')`. */
  readonly isTypeOnly: boolean;
  /** The name is worked out at run time; `specifier` is then the expression. */
  readonly isComputed: boolean;
}

/** Reads all TypeScript files below `folder`. */
export function readSources(folder: string): Sources {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .sort();
  return new Map(
    paths.map((path) => [path.replaceAll('\\', '/'), readFileSync(join(folder, path), 'utf8')]),
  );
}

export function parse(path: string, text: string): ts.SourceFile {
  return ts.createSourceFile(path, text, ts.ScriptTarget.ES2023, true);
}

export function lineOf(node: ts.Node): number {
  const file = node.getSourceFile();
  return file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1;
}

/** Calls `visit` for every node below `root`, outer before inner. */
export function walk(root: ts.Node, visit: (node: ts.Node) => void): void {
  ts.forEachChild(root, (node) => {
    visit(node);
    walk(node, visit);
  });
}

function isTypeOnlyImport({ importClause }: ts.ImportDeclaration): boolean {
  if (importClause === undefined) return false;
  if (importClause.phaseModifier === ts.SyntaxKind.TypeKeyword) return true;
  const { namedBindings, name } = importClause;
  if (name !== undefined || namedBindings === undefined) return false;
  return (
    ts.isNamedImports(namedBindings) &&
    namedBindings.elements.length > 0 &&
    namedBindings.elements.every((element) => element.isTypeOnly)
  );
}

function mentionOf(node: ts.Node): { specifier: ts.Node; isTypeOnly: boolean } | undefined {
  if (ts.isImportDeclaration(node)) {
    return { specifier: node.moduleSpecifier, isTypeOnly: isTypeOnlyImport(node) };
  }
  if (ts.isExportDeclaration(node) && node.moduleSpecifier !== undefined) {
    return { specifier: node.moduleSpecifier, isTypeOnly: node.isTypeOnly };
  }
  if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
    return { specifier: node.argument.literal, isTypeOnly: true };
  }
  if (ts.isExternalModuleReference(node)) {
    return { specifier: node.expression, isTypeOnly: false };
  }
  if (!ts.isCallExpression(node)) return undefined;
  const [argument] = node.arguments;
  const { expression } = node;
  const isLoading =
    expression.kind === ts.SyntaxKind.ImportKeyword ||
    (ts.isIdentifier(expression) && expression.text === 'require');
  return isLoading && argument !== undefined
    ? { specifier: argument, isTypeOnly: false }
    : undefined;
}

/** Every module that a file mentions: static, dynamic, re-exported, required, or for its types. */
export function importsOf(file: ts.SourceFile): Import[] {
  const found: Import[] = [];
  walk(file, (node) => {
    const mention = mentionOf(node);
    if (mention === undefined) return;
    const { specifier, isTypeOnly } = mention;
    const isComputed = !ts.isStringLiteralLike(specifier);
    const text = isComputed ? specifier.getText(file) : specifier.text;
    found.push({ specifier: text, line: lineOf(node), isTypeOnly, isComputed });
  });
  return found;
}

/** The source path that a relative import means: `./span.js` in `kernel/clock.ts` is `kernel/span.ts`. */
export function targetOf(path: string, specifier: string): string {
  return posix.join(posix.dirname(path), specifier).replace(/\.js$/, '.ts');
}

/** The name of the package of an import: `@duckdb/node-api/lib` is `@duckdb/node-api`. */
export function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

/** Finds circles of files that import each other, each listed once, as a path back to its start. */
export function findCycles(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const cycles: string[][] = [];
  const done = new Set<string>();
  const trail: string[] = [];
  const follow = (path: string) => {
    const start = trail.indexOf(path);
    if (start >= 0) {
      cycles.push([...trail.slice(start), path]);
      return;
    }
    if (done.has(path)) return;
    trail.push(path);
    for (const next of graph.get(path) ?? []) follow(next);
    trail.pop();
    done.add(path);
  };
  for (const path of graph.keys()) follow(path);
  return cycles;
}
