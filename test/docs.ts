import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { referencePages } from './support/documents/reference.js';
import { sqlPage } from './support/documents/sql-reference.js';
import { startTestPostgres, TEMPLATE, withDatabase } from './support/postgres/postgres-server.js';
import { repositoryPath } from './support/repository/repository.js';

/** Writes the generated pages of `docs/reference`: `npm run docs`. Tests hold them current. */
const pages = await referencePages();
const server = await startTestPostgres();
try {
  pages.set('docs/reference/sql.md', await sqlPage(withDatabase(server.url, TEMPLATE)));
} finally {
  await server.stop();
}
for (const [path, text] of pages) {
  await writeFile(join(repositoryPath, path), text);
  process.stdout.write(`${path}\n`);
}
