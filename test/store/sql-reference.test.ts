import assert from 'node:assert/strict';
import test from 'node:test';
import { readDocument } from '../support/documents/documents.js';
import { sqlPage } from '../support/documents/sql-reference.js';
import { makeDatabase } from '../support/postgres/postgres.js';

test('the SQL reference is current: npm run docs writes it anew', async () => {
  const page = await sqlPage(await makeDatabase());
  assert.ok(
    readDocument('docs/reference/sql.md').text === page,
    'docs/reference/sql.md is not current: run npm run docs',
  );
});
