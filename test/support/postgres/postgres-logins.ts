import { randomBytes } from 'node:crypto';
import { runSql } from './postgres.js';

/**
 * Makes a user that can log in, a member of `role` (null: of none). It is a name of the whole server
 * and stays until that ends; of the databases of a test file nothing is left for it to enter.
 *
 * @param attributes more of CREATE ROLE, such as `CREATEROLE`
 * @returns the URL that connects to the same database as this user
 */
export async function loginAs(url: string, role: string | null, attributes = ''): Promise<string> {
  const name = `test_login_${randomBytes(6).toString('hex')}`;
  await runSql(url, `CREATE ROLE ${name} LOGIN PASSWORD 'test' ${attributes}`);
  if (role !== null) await runSql(url, `GRANT ${role} TO ${name}`);
  const login = new URL(url);
  login.username = name;
  login.password = 'test';
  return login.href;
}
