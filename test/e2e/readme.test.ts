import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { DEFAULTS } from '../../src/config/keys.js';
import { makeDatabase, runSql } from '../support/postgres.js';
import { Program } from '../support/program.js';

/** What the README tells people to type must work. */
const README = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8');

function blocks(language: string): string[] {
  return [...README.matchAll(new RegExp(`\`\`\`${language}\n([\\s\\S]*?)\`\`\``, 'g'))].map(
    ([, text]) => text ?? '',
  );
}

test('every SQL statement of the README runs against the schema', async (t) => {
  const databaseUrl = await makeDatabase();
  await runSql(
    databaseUrl,
    `INSERT INTO market (name, stock, money, stock_prec, money_prec, fee_prec, min_amount,
                         first_seen_at, last_seen_at)
     VALUES ('BTC_USDT', 'BTC', 'USDT', 8, 2, 4, 0.001, now(), now())`,
  );
  const fromShell = [...README.matchAll(/tapekeep query "([^"]+)"/g)].map(([, sql]) => sql ?? '');
  const statements = [...blocks('sql'), ...fromShell];
  assert.ok(statements.length >= 5);
  for (const sql of statements) {
    const program = new Program(['query', '--', sql], {
      env: { TAPEKEEP_DATABASE_URL: databaseUrl },
    });
    t.after(() => program.dispose());
    assert.equal((await program.ended()).code, 0, `${sql}\n${program.dump()}`);
  }
});

test('every command of the README is one that the program has', async (t) => {
  const program = new Program(['--help']);
  t.after(() => program.dispose());
  assert.equal((await program.ended()).code, 0);
  const help = program.text('stdout');
  const commands = [...README.matchAll(/(?:^npx |`|`npx )tapekeep ([a-z]+)/gm)];
  assert.ok(commands.length >= 6);
  for (const [, name] of commands) assert.match(help, new RegExp(`^  ${name}\\b`, 'm'));
});

test('every setting that the README names exists', () => {
  const section = README.slice(README.indexOf('## Configuration'), README.indexOf('## Operation'));
  const rows = [...section.matchAll(/^\| `([a-zA-Z.]+)` \|/gm)].map(([, key]) => key ?? '');
  assert.ok(rows.length >= 8);
  const known = JSON.stringify(DEFAULTS);
  for (const key of rows) {
    let value: unknown = DEFAULTS;
    for (const name of key.split('.')) value = (value as Record<string, unknown>)[name];
    assert.notEqual(value, undefined, `${key} is no setting of ${known}`);
  }
});
