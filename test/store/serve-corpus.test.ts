import { deepEqual, doesNotMatch, equal, match, ok } from 'node:assert/strict';
import { test } from 'node:test';
import { REFUSED, SENT_IN_PART, SENT_WHOLE } from '../support/postgres/serve-corpus.js';
import { Grammar } from '../support/postgres/serve-grammar.js';
import { inEachWorld, seedsOf } from '../support/seeds.js';
import { openServedWorld, TextClient } from '../support/worlds/served-world.js';

const foreign = (sql: string) => sql.replaceAll('@', 'f_');
const local = (sql: string) => sql.replaceAll('@', 'l_');

/** Parts of a plan that Postgres does itself: all but the order of the rows that it was sent. */
const KEPT = /^ *Filter:|^(?: *-> +)?\w*Aggregate/m;

/** SQLSTATE of an answer that is an error. */
const codeOf = (answer: unknown) => (answer as { readonly code?: string }).code;

async function planOf(client: TextClient, sql: string): Promise<string> {
  const plan = await client.ask(`EXPLAIN (VERBOSE, COSTS off) ${foreign(sql)}`);
  ok(Array.isArray(plan), JSON.stringify(plan));
  return plan.flat().join('\n');
}

test('foreign tables answer as tables with the same rows do', async (t) => {
  const { url } = await openServedWorld(t);
  const client = await TextClient.open(t, url);

  await t.test('statements that are sent whole', async () => {
    for (const sql of SENT_WHOLE) {
      doesNotMatch(await planOf(client, sql), KEPT, sql);
      const [found, wanted] = [await client.ask(foreign(sql)), await client.ask(local(sql))];
      deepEqual(codeOf(found) ?? found, codeOf(wanted) ?? wanted, sql);
    }
  });
  await t.test('statements that are sent in part', async () => {
    for (const sql of SENT_IN_PART) {
      deepEqual(await client.ask(foreign(sql)), await client.ask(local(sql)), sql);
    }
  });
  await t.test('what is not known is refused by name, with a way out', async () => {
    for (const sql of REFUSED) {
      const answer = (await client.ask(foreign(sql))) as { code: string; hint: string };
      equal(answer.code, '0A000', `${sql}: ${JSON.stringify(answer)}`);
      match(answer.hint, /OFFSET 0/, sql);
    }
  });
});

/** Statements of a world. */
const STATEMENTS = 60;

test('random statements are answered alike, or refused', async (t) => {
  const { url } = await openServedWorld(t, { rows: 400 });
  const client = await TextClient.open(t, url);
  let answered = 0;
  const seeds = seedsOf(8);
  await inEachWorld(seeds, async (seed) => {
    const grammar = new Grammar(seed);
    for (let at = 0; at < STATEMENTS; at += 1) {
      const sql = grammar.statement();
      const [found, wanted] = [await client.ask(foreign(sql)), await client.ask(local(sql))];
      if (codeOf(found) === '0A000') continue;
      answered += 1;
      deepEqual(codeOf(found) ?? found, codeOf(wanted) ?? wanted, sql);
    }
  });
  t.diagnostic(`${answered} of ${seeds.length * STATEMENTS} were answered`);
  ok(answered > (seeds.length * STATEMENTS) / 2, 'most of them are answered');
});
