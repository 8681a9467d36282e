import type pg from 'pg';
import { sqlstateOf } from '../errors.js';

/** The role that statements of people run as. It reads, and only owners are members of it. */
export const QUERY_ROLE = 'tapekeep_query';
/** The function that gives them its rights; see sql/0013. */
export const QUERY_FUNCTION = 'run_query';

const NOT_ALLOWED = '42501';
const CALLERS = 'tapekeep_owner, tapekeep_writer, tapekeep_reader';

/** What an administrator runs where the migrating user may not. */
export const QUERY_GRANTS = `GRANT tapekeep_reader TO ${QUERY_ROLE}; GRANT ${QUERY_ROLE} TO tapekeep_owner;`;

const LOOK = `
  SELECT to_regrole('${QUERY_ROLE}') IS NOT NULL AS "isMade",
    to_regprocedure('${QUERY_FUNCTION}(text)') IS NOT NULL AS "hasFunction",
    coalesce(pg_has_role(to_regrole('${QUERY_ROLE}'), 'tapekeep_reader', 'USAGE'), false) AS "isReader",
    coalesce((SELECT r.rolname = '${QUERY_ROLE}' FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
              WHERE p.oid = to_regprocedure('${QUERY_FUNCTION}(text)')), false) AS "isOwner"`;

/** A new owner needs the right to create things where the thing is, for as long as it is made over. */
const MAKE_OVER = `
  DO $$ BEGIN
    IF NOT pg_has_role(current_user, '${QUERY_ROLE}', 'USAGE') THEN
      EXECUTE format('GRANT ${QUERY_ROLE} TO %I', current_user);
    END IF;
    GRANT EXECUTE ON FUNCTION ${QUERY_FUNCTION}(text) TO ${CALLERS};
    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO ${QUERY_ROLE}', current_schema());
    ALTER FUNCTION ${QUERY_FUNCTION}(text) OWNER TO ${QUERY_ROLE};
    EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM ${QUERY_ROLE}', current_schema());
  END $$`;

/**
 * Gives the function that runs statements to the role that only reads, within a transaction. Without
 * the right to do so nothing is changed, and such statements are refused.
 */
export async function settleQueryRole(
  client: pg.Client,
): Promise<{ readonly changed: boolean; readonly note: string | null }> {
  const { rows } = await client.query<{
    readonly isMade: boolean;
    readonly hasFunction: boolean;
    readonly isReader: boolean;
    readonly isOwner: boolean;
  }>(LOOK);
  const [found] = rows;
  if (found?.hasFunction !== true || (found.isReader && found.isOwner)) {
    return { changed: false, note: null };
  }
  const make = found.isMade ? '' : `CREATE ROLE ${QUERY_ROLE}; `;
  const note = `"tapekeep query" asks no tables of Postgres until an administrator has run "${make}${QUERY_GRANTS}" and the owner of the tables has migrated again`;
  if (!found.isMade) return { changed: false, note };
  await client.query('SAVEPOINT query_role');
  try {
    if (!found.isReader) await client.query(`GRANT tapekeep_reader TO ${QUERY_ROLE}`);
    await client.query(MAKE_OVER);
    return { changed: true, note: null };
  } catch (error) {
    if (sqlstateOf(error) !== NOT_ALLOWED) throw error;
    await client.query('ROLLBACK TO query_role');
    return { changed: false, note };
  }
}
