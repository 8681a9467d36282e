import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { coldSchemaPage } from './support/documents/cold-schema.js';
import { consoleApiPage } from './support/documents/console-api.js';
import { referencePages } from './support/documents/reference.js';
import { sqlPage } from './support/documents/sql-reference.js';
import { startTestPostgres, TEMPLATE, withDatabase } from './support/postgres/postgres-server.js';
import { repositoryPath } from './support/repository/repository.js';

/** Writes the generated pages of `docs/reference`: `npm run docs`. Tests hold them current. */
const pages = await referencePages();
pages.set('docs/reference/cold-files.md', coldSchemaPage());
pages.set('docs/reference/console-api.md', consoleApiPage());
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
