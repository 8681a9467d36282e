import assert from 'node:assert/strict';
import test from 'node:test';
import type { Command } from 'commander';
import { loadCommands } from '../../../src/cli/command.js';
import { buildProgram } from '../../../src/cli/program.js';
import { withStatements } from '../../../src/cli/run.js';
import { blocksOf, readDocument, readDocuments } from '../../support/documents/documents.js';
import { makeDatabase, runSql } from '../../support/postgres/postgres.js';
import { Program } from '../../support/programs/program.js';

/**
 * What documents give people to type must work. The examples of the SQL reference are run with the comments
 * that they come from, the command line's own page has no commands to type, and the page about adding a
 * series is followed by a test of its own.
 */
const TEXTS = readDocuments()
  .filter(
    ({ path }) =>
      !/^CHANGELOG|^docs\/(?:adding-a-series|reference\/(?:sql|command-line))\.md$/.test(path),
  )
  .map(({ text }) => text);

function blocks(language: string): string[] {
  return TEXTS.flatMap((text) => blocksOf(text, language));
}

function matches(pattern: RegExp): string[] {
  return TEXTS.flatMap((text) => Array.from(text.matchAll(pattern), ([, found]) => found ?? ''));
}

test('every SQL statement of the documents runs against the schema', async (t) => {
  const databaseUrl = await makeDatabase();
  await runSql(
    databaseUrl,
    `INSERT INTO market (name, base, quote, base_prec, quote_prec, fee_prec, min_amount,
                         first_seen_at, last_seen_at)
     VALUES ('BTC_USDT', 'BTC', 'USDT', 8, 2, 4, 0.001, now(), now())`,
  );
  const statements = [...blocks('sql query'), ...matches(/tapekeep query "([^"]+)"/g)];
  assert.ok(statements.length >= 9);
  for (const sql of statements) {
    const program = new Program(['query', '--', sql], {
      env: { TAPEKEEP_DATABASE_URL: databaseUrl },
    });
    t.after(() => program.dispose());
    assert.equal((await program.ended()).code, 0, `${sql}\n${program.dump()}`);
  }
  // As the login of `tapekeep psql` and `tapekeep url` finds them.
  const asAnalyst = new URL(databaseUrl);
  asAnalyst.searchParams.set('options', '-csearch_path=analytics,public');
  const ofAnalysts = blocks('sql');
  assert.ok(ofAnalysts.length >= 4);
  for (const sql of ofAnalysts) await assert.doesNotReject(runSql(asAnalyst.href, sql), sql);
});

test('every command of the documents is one that the program has', async (t) => {
  const program = new Program(['--help']);
  t.after(() => program.dispose());
  assert.equal((await program.ended()).code, 0);
  const help = program.text('stdout');
  const commands = matches(/(?:^npx |`|`npx )tapekeep ([a-z]+)/gm);
  assert.ok(commands.length >= 60);
  for (const name of commands) assert.match(help, new RegExp(`^  ${name}\\b`, 'm'));
});

/** Words of a line as a shell would read them, without comment, redirection and what a pipe leads to. */
function wordsOf(line: string): string[] {
  const typed = line.replace(/\$\(date [^)]*\)/g, '2026-01-31');
  const words: string[] = [];
  for (const [word] of typed.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g)) {
    if (/^(?:#|\d?[<>|]|&)/.test(word)) break;
    words.push(word.replaceAll(/["']/g, ''));
  }
  return words;
}

/** The arguments of each command that people are told to type. */
function typedCommands(): string[][] {
  const lines = blocks('sh').flatMap((block) => {
    const texts = block.replaceAll(/\\\n\s*/g, '').split('\n');
    const set = texts.flatMap((text) => /^(\w+)=["']?([^"'#]*)["']?/.exec(text) ?? []);
    const [, name, value = ''] = set;
    return name === undefined ? texts : texts.map((text) => text.replaceAll(`$${name}`, value));
  });
  return lines.map(wordsOf).flatMap((words) => {
    const at = words.findIndex((word, index) => word === 'npx' && words[index + 1] === 'tapekeep');
    return at < 0 || words.slice(0, at).some((word) => !/^[A-Z_]+=/.test(word))
      ? []
      : [withStatements(words.slice(at + 2))];
  });
}

/** The examples in the help of commands, which the command line's page shows. */
function examplesOfHelp(): string[][] {
  const { text } = readDocument('docs/reference/command-line.md');
  const lines = blocksOf(text, 'text').flatMap((block) =>
    block.replaceAll(/\\\n\s*/g, '').split('\n'),
  );
  return lines
    .filter((line) => /^ {2}(?:[A-Z_]+=\S+ )*tapekeep /.test(line))
    .map(wordsOf)
    .map((words) => withStatements(words.slice(words.indexOf('tapekeep') + 1)));
}

/** Reads arguments as the program would, and stops short of doing anything. */
function readAs(program: Command, args: readonly string[]): string[] {
  program.exitOverride().configureOutput({ writeErr: () => undefined });
  const { operands, unknown } = program.parseOptions([...args]);
  const next = program.commands.find((one) => one.name() === operands[0]);
  if (next !== undefined) return readAs(next, [...operands.slice(1), ...unknown]);
  const list = program.commands.find((one) => one.name() === 'list');
  if (list !== undefined) return readAs(list, [...operands, ...unknown]);
  // The endpoints of `api` are a program of their own, and run against a sandbox elsewhere.
  if (program.name() === 'api') return [];
  const needed = program.registeredArguments.filter(({ required }) => required).length;
  const isList = program.registeredArguments.some(({ variadic }) => variadic);
  const most = isList ? Number.POSITIVE_INFINITY : program.registeredArguments.length;
  const isWrongCount = operands.length < needed || operands.length > most;
  const wrong = unknown.filter((word) => word !== '--' && word !== '--help');
  const missing = program.options.filter(
    (option) => option.mandatory && program.getOptionValue(option.attributeName()) === undefined,
  );
  return [
    ...wrong.map((word) => `no ${word}`),
    ...missing.map(({ flags }) => `${flags} is missing`),
    ...(isWrongCount ? [`${operands.length} arguments`] : []),
  ];
}

test('every command of the documents is one that can be typed so: options, values and their number', async () => {
  const [given, shown] = [typedCommands(), examplesOfHelp()];
  assert.ok(given.length >= 60, `${given.length} commands`);
  assert.ok(shown.length >= 30, `${shown.length} examples of the help`);
  // What follows is for psql itself.
  const typed = [...given, ...shown].map((args) =>
    args[0] === 'psql' ? args.slice(0, (args.indexOf('--') + 1 || args.length + 1) - 1) : args,
  );
  const wrong: string[] = [];
  for (const args of typed) {
    const program = await loadCommands(buildProgram(() => undefined));
    wrong.push(...readAs(program, args).map((mistake) => `${args.join(' ')}: ${mistake}`));
  }
  assert.deepEqual(wrong, []);
});
