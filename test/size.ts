import { join } from 'node:path';
import ts from 'typescript';
import { importsOf, parse, readSources, targetOf } from './support/repository/imports.js';
import { repositoryPath } from './support/repository/repository.js';

/** Prints the sizes of the rooms of `src`: `npm run size`. */

const SHORT_LINES = 60;

interface Size {
  readonly path: string;
  readonly lines: number;
  readonly commentShare: number;
  /** Below {@link SHORT_LINES} lines, and with a single importer: a part of that file. */
  readonly isSplinter: boolean;
}

/** Share of a text's characters that are comments. */
function commentShareOf(text: string): number {
  const scanner = ts.createScanner(ts.ScriptTarget.Latest, false);
  scanner.setText(text);
  let length = 0;
  for (let kind = scanner.scan(); kind !== ts.SyntaxKind.EndOfFileToken; kind = scanner.scan()) {
    const isComment =
      kind === ts.SyntaxKind.SingleLineCommentTrivia ||
      kind === ts.SyntaxKind.MultiLineCommentTrivia;
    if (isComment) length += scanner.getTokenEnd() - scanner.getTokenStart();
  }
  return length / Math.max(1, text.length);
}

function sizesOf(sources: ReadonlyMap<string, string>): Size[] {
  const importers = new Map<string, Set<string>>();
  for (const [path, text] of sources) {
    for (const { specifier } of importsOf(parse(path, text))) {
      const target = targetOf(path, specifier);
      importers.set(target, (importers.get(target) ?? new Set()).add(path));
    }
  }
  return [...sources].map(([path, text]) => {
    const lines = text.trimEnd().split('\n').length;
    const isSplinter = lines < SHORT_LINES && importers.get(path)?.size === 1;
    return { path, lines, commentShare: commentShareOf(text), isSplinter };
  });
}

function row(name: string, sizes: readonly Size[]): string {
  const lines = sizes.map((one) => one.lines).sort((a, b) => a - b);
  const total = lines.reduce((sum, one) => sum + one, 0);
  const comments = sizes.reduce((sum, one) => sum + one.lines * one.commentShare, 0);
  const share = `${Math.round((100 * comments) / total)} %`;
  const splinters = sizes.filter(({ isSplinter }) => isSplinter).length;
  const median = lines[Math.floor(lines.length / 2)];
  const cells = [name, sizes.length, total, median, lines.at(-1), share, splinters];
  return `| ${cells.join(' | ')} |`;
}

const sizes = sizesOf(readSources(join(repositoryPath, 'src')));
const rooms = new Set(sizes.map(({ path }) => path.split('/')[0] ?? path));
const ownOf = (room: string) =>
  sizes.filter(({ path }) => path === room || path.startsWith(`${room}/`));
process.stdout.write(
  [
    `| room | files | lines | median | largest | comments | below ${SHORT_LINES} lines with one importer |`,
    '|---|---:|---:|---:|---:|---:|---:|',
    ...[...rooms].map((room) => row(room, ownOf(room))),
    row('all', sizes),
    '',
  ].join('\n'),
);
