import type pg from 'pg';

/**
 * The three groups of the archive. They are names of the whole cluster, shared by all archives in it,
 * and log in through their members only. What they may do is granted in each database by itself.
 */
export const GROUPS = ['tapekeep_owner', 'tapekeep_writer', 'tapekeep_reader'] as const;
const [OWNER, WRITER, READER] = GROUPS;

/** Rights on the database that everybody has by default, and whether this user may take them away. */
const OPEN_TO_ALL = `
  SELECT coalesce(string_agg(a.privilege_type, ', ' ORDER BY a.privilege_type), '') AS rights,
         pg_has_role(d.datdba, 'USAGE') AS "isOurs", quote_ident(d.datname) AS database
  FROM pg_database d LEFT JOIN LATERAL aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
    ON a.grantee = 0
  WHERE d.datname = current_database() GROUP BY d.datdba, d.datname`;

/**
 * Closes the database to logins of no group: any that may connect can fill disks with temporary tables
 * and hold advisory locks. Returns what the owner of the database has to do where this user may not.
 */
export async function closeDatabase(
  client: pg.Client,
): Promise<{ changed: boolean; note: string | null }> {
  const { rows } = await client.query<{ rights: string; isOurs: boolean; database: string }>(
    OPEN_TO_ALL,
  );
  const [found] = rows;
  if (found === undefined || found.rights === '') return { changed: false, note: null };
  const revoke = `REVOKE ${found.rights} ON DATABASE ${found.database} FROM PUBLIC`;
  if (!found.isOurs) {
    const note = `every login of the server may use this database: let its owner run "${revoke};"`;
    return { changed: false, note };
  }
  await client.query(`
    GRANT CONNECT ON DATABASE ${found.database} TO ${OWNER}, ${WRITER}, ${READER};
    GRANT TEMPORARY ON DATABASE ${found.database} TO ${OWNER}, ${WRITER};
    ${revoke}`);
  return { changed: true, note: null };
}

const DATABASE_RIGHTS = `
  SELECT has_database_privilege('${WRITER}', current_database(), 'CONNECT') AS writes,
         has_database_privilege('${WRITER}', current_database(), 'TEMPORARY') AS stages,
         has_database_privilege('${READER}', current_database(), 'CONNECT') AS reads,
         quote_ident(current_database()) AS database`;

/** A GRANT of what one may not grant is a warning only: look at what came of it. */
export async function missingRights(client: pg.Client): Promise<string | null> {
  const { rows } = await client.query<{
    writes: boolean;
    stages: boolean;
    reads: boolean;
    database: string;
  }>(DATABASE_RIGHTS);
  const [found] = rows;
  if (found === undefined || (found.writes && found.stages && found.reads)) return null;
  return `let the owner of the database run "GRANT CONNECT, TEMPORARY ON DATABASE ${found.database} TO ${WRITER}; GRANT CONNECT ON DATABASE ${found.database} TO ${READER};"`;
}

const IS_SCHEMA_OPEN = `
  SELECT EXISTS (
    SELECT FROM pg_namespace n, aclexplode(n.nspacl) a
    WHERE n.nspname = current_schema() AND a.grantee = 0 AND a.privilege_type = 'CREATE') AS is_open,
    quote_ident(current_schema()) AS schema`;

/** Databases of Postgres 14 and older let everybody create things beside the tables. */
export async function openSchema(client: pg.Client): Promise<string | null> {
  const { rows } = await client.query<{ is_open: boolean; schema: string }>(IS_SCHEMA_OPEN);
  const [found] = rows;
  if (found?.is_open !== true) return null;
  return `everybody may create objects in the schema ${found.schema}: run "REVOKE CREATE ON SCHEMA ${found.schema} FROM PUBLIC;"`;
}
