import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import type { Command } from 'commander';
import ts from 'typescript';
import { loadCommands } from '../../src/cli/command.js';
import { buildProgram } from '../../src/cli/program.js';
import { readDocuments } from '../support/documents/documents.js';
import { repositoryPath } from '../support/repository/repository.js';

/**
 * Plain words, counted: CONTRIBUTING has the rules. A count may fall and never rise. When it has fallen, the test
 * prints the new one, which belongs into the table.
 */
const COMMENTS = { cli: 120, collect: 101, config: 10, model: 0, console: 5, store: 149 };
const STATES = { cli: 7, collect: 2, model: 1, observe: 3, console: 4, store: 1, docs: 19 };
const LONG = { help: 3, logs: 0 };

const MAX_WORDS = { about: 12, option: 18, behind: 130, log: 12 };

/** Openings of a comment that hide its subject. */
const OPENING = /^(?:What|Whether|Where|Of|The same)\b/;

/** Private words for a state, which has one of its own. */
const STATE =
  /\b(?:moments?|of which|(?:give|gives|giving|given|gave) up|(?:be|was|were) had|settled|stands?(?! by)|standing(?! by)|tak(?:e|es|en) back|(?:hold|holds|held) against|doubts?|told apart|left out|set aside|anew|go(?:es)? on|in vain|brings back|thawed)\b/gi;

const countWords = (text: string) => text.split(/\s+/).filter((word) => /\w/.test(word)).length;

/** First lines of the comments of a source text: of a doc comment, and of each run of `//`. */
function openings(source: string): string[] {
  const doc = Array.from(source.matchAll(/\/\*\*[\s*]*([^\n]*)/g), ([, text = '']) => text);
  const lines = source.split('\n').map((text) => /^\s*\/\/ (.*)/.exec(text)?.[1]);
  return [
    ...doc,
    ...lines.flatMap((text, at) => (lines[at - 1] === undefined ? (text ?? []) : [])),
  ];
}

/** Texts of a source that a person may read: literals of several words. `log` has those of `text:` alone. */
function textsOf(source: string): { all: string[]; log: string[] } {
  const found = { all: [] as string[], log: [] as string[] };
  const visit = (node: ts.Node, isLog: boolean): void => {
    if (ts.isImportDeclaration(node)) return;
    const isText = ts.isStringLiteralLike(node) || ts.isTemplateExpression(node);
    const text = ts.isStringLiteralLike(node) ? node.text : node.getText();
    // SQL stands in literals too.
    if (isText && / /.test(text) && !/\b(?:SELECT|FROM|WHERE|SET|AS)\b/.test(text)) {
      found.all.push(text);
      if (isLog) found.log.push(text.replaceAll(/\$\{[^}]*\}/g, 'x'));
    }
    if (ts.isTemplateExpression(node)) return;
    const isHere = ts.isPropertyAssignment(node) && node.name.getText() === 'text';
    ts.forEachChild(node, (child) => visit(child, isLog || isHere));
  };
  visit(ts.createSourceFile('', source, ts.ScriptTarget.Latest, true), false);
  return found;
}

const countStates = (texts: readonly string[]) => texts.join('\n').match(STATE)?.length ?? 0;

interface Room {
  readonly openings: string[];
  readonly texts: string[];
  readonly logs: string[];
}

function readRooms(): Map<string, Room> {
  const found = new Map<string, Room>();
  const folder = join(repositoryPath, 'src');
  for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!path.endsWith('.ts')) continue;
    const name = /^(\w+)[\\/]/.exec(path)?.[1] ?? 'index';
    const room = found.get(name) ?? { openings: [], texts: [], logs: [] };
    const source = readFileSync(join(folder, path), 'utf8');
    const { all, log } = textsOf(source);
    room.openings.push(...openings(source));
    room.texts.push(...all);
    if (name === 'observe') room.logs.push(...log);
    found.set(name, room);
  }
  return found;
}

const ROOMS = readRooms();

/** Refuses counts that rose, and prints those that fell. */
function hold(
  t: TestContext,
  counts: ReadonlyArray<readonly [string, number]>,
  table: Readonly<Record<string, number>>,
) {
  for (const [name, count] of counts) {
    if (count < (table[name] ?? 0)) t.diagnostic(`lower ${name} to ${count} in words.test.ts`);
  }
  const risen = counts.filter(([name, count]) => count > (table[name] ?? 0));
  assert.deepEqual(risen, [], 'more than the table has; see "Words" in CONTRIBUTING');
}

test('comments begin with a verb or a noun', (t) => {
  const counts = [...ROOMS].map(
    ([name, room]) => [name, room.openings.filter((text) => OPENING.test(text)).length] as const,
  );
  hold(t, counts, COMMENTS);
});

test('texts have one word for one state', (t) => {
  const counts = [...ROOMS].map(([name, { texts }]) => [name, countStates(texts)] as const);
  const pages = readDocuments().map(({ text }) => text.replaceAll(/```[\s\S]*?```|`[^`\n]*`/g, ''));
  hold(t, [...counts, ['docs', countStates(pages)]], STATES);
});

test('help and log texts are short', async (t) => {
  const program = await loadCommands(buildProgram(() => undefined));
  const long: string[] = [];
  const check = (text: string, most: number) => {
    if (countWords(text) > most) long.push(`${countWords(text)} words: ${text}`);
  };
  const visit = (command: Command) => {
    check(command.description(), MAX_WORDS.about);
    for (const { description } of command.options) check(description, MAX_WORDS.option);
    let shown = '';
    command.configureOutput({ writeOut: (text) => (shown += text) });
    command.outputHelp();
    check(shown.slice(command.helpInformation().length), MAX_WORDS.behind);
    command.commands.forEach(visit);
  };
  visit(program);
  const logs = [...ROOMS.values()].flatMap((room) => room.logs);
  const wordy = logs.filter((text) => countWords(text) > MAX_WORDS.log);
  for (const text of [...long, ...wordy]) t.diagnostic(text);
  hold(t, Object.entries({ help: long.length, logs: wordy.length }), LONG);
});

test('planted: an opening, a state word and a long log text are counted', () => {
  const source = `/** What it is. */\n// Whether so.\n// Of it.\nconst a = 'it was given up';\nx({ text: 'a b' });`;
  assert.equal(openings(source).filter((text) => OPENING.test(text)).length, 2);
  assert.deepEqual(textsOf(source), { all: ['it was given up', 'a b'], log: ['a b'] });
  assert.equal(countStates(textsOf(source).all), 1);
});
