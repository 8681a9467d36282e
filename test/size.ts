import { join } from 'node:path';
import ts from 'typescript';
import { KEY_PATHS } from '../src/config/keys.js';
import { GAP_REASONS } from '../src/model/gap-reasons.js';
import { readDocuments } from './support/documents/documents.js';
import { readSources } from './support/repository/imports.js';
import { repositoryPath } from './support/repository/repository.js';
import { findSplinters } from './support/repository/rooms.js';

/** Prints the sizes of the rooms of `src`, and what else shall not grow: `npm run size`. */

interface Size {
  readonly path: string;
  readonly lines: number;
  readonly commentShare: number;
  /** But a part of its only importer. */
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
  const splinters = new Set(findSplinters(sources));
  return [...sources].map(([path, text]) => {
    const lines = text.trimEnd().split('\n').length;
    const isSplinter = splinters.has(path);
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

const linesOf = (texts: Iterable<string>) =>
  [...texts].reduce((sum, text) => sum + text.trimEnd().split('\n').length, 0);
/** A field of a class that is assigned again. */
const MUTABLE_FIELD = /^ {2}#\w+[!?]?(?::| =|;)/gm;

const sources = readSources(join(repositoryPath, 'src'));
const sizes = sizesOf(sources);
const tests = readSources(join(repositoryPath, 'test'));
const collect = [...sources].filter(([path]) => path.startsWith('collect/'));
const fields = collect.flatMap(([, text]) => text.match(MUTABLE_FIELD) ?? []);
const words = readDocuments().flatMap(({ text }) => text.match(/\S+/g) ?? []);
const figures = [
  ['lines of src', linesOf(sources.values())],
  ['files of src', sources.size],
  ['lines of tests', linesOf(tests.values())],
  ['settings', KEY_PATHS.size],
  ['mutable private fields in collect', fields.length],
  ['reasons of gaps', Object.keys(GAP_REASONS).length],
  ['words of documents', words.length],
] as const;
const rooms = new Set(sizes.map(({ path }) => path.split('/')[0] ?? path));
const ownOf = (room: string) =>
  sizes.filter(({ path }) => path === room || path.startsWith(`${room}/`));
process.stdout.write(
  [
    `| room | files | lines | median | largest | comments | parts of their only importer |`,
    '|---|---:|---:|---:|---:|---:|---:|',
    ...[...rooms].map((room) => row(room, ownOf(room))),
    row('all', sizes),
    '',
    ...figures.map(([name, count]) => `${name}: ${count}`),
    '',
  ].join('\n'),
);
