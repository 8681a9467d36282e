import type pg from 'pg';
import { messageOf } from '../../kernel/errors.js';
import { SERIES_TABLES, type SeriesTable, seriesOf } from '../../model/series.js';
import { sqlstateOf } from '../errors.js';
import { BEGIN_ALONE } from './analytics.js';

/** The role that statements of people run as. It reads, and only owners are members of it. */
export const QUERY_ROLE = 'tapekeep_query';
/** The function that gives them its rights; see sql/0013. */
export const QUERY_FUNCTION = 'run_query';

/** insufficient_privilege. */
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

/** Rights in Postgres' words; one on a column alone names it: `UPDATE(executed_at)`. */
interface RoleRights {
  readonly writer: readonly string[];
  readonly reader: readonly string[];
}

const READ_ROWS = ['SELECT'];
const NO_RIGHTS: readonly string[] = [];
const ADD = ['SELECT', 'INSERT'];
const ADD_REMOVE = ['SELECT', 'INSERT', 'DELETE'];
const ADD_CHANGE = ['SELECT', 'INSERT', 'UPDATE'];
const ALL_ROWS = ['SELECT', 'INSERT', 'UPDATE', 'DELETE'];

/** Series are only added to, but for what is learned later, and where a version gives way to the next. */
function rightsOf(table: SeriesTable): RoleRights {
  const { columns, versions, retention } = seriesOf(table);
  const learned = columns.filter(({ isLearned }) => isLearned).map(({ name }) => `UPDATE(${name})`);
  return {
    writer: versions === null ? [...ADD, ...learned] : ADD_CHANGE,
    reader: retention === 'account' ? NO_RIGHTS : READ_ROWS,
  };
}

const SERIES_RIGHTS = Object.fromEntries(SERIES_TABLES.map((table) => [table, rightsOf(table)]));

/**
 * What the writer and the reader may do with each table (data model, Roles). The ledger is kept. The account's own data and what was
 * refused (which may hold some of it) are not for readers.
 *
 * Every table of the archive stands here: one that does not belongs to its owner alone.
 */
export const TABLE_RIGHTS: Readonly<Record<string, RoleRights>> = {
  ...SERIES_RIGHTS,
  archive: { writer: ADD_CHANGE, reader: READ_ROWS },
  market: { writer: ADD_CHANGE, reader: READ_ROWS },
  market_history: { writer: ADD, reader: READ_ROWS },
  stream: { writer: ADD_CHANGE, reader: READ_ROWS },
  coverage: { writer: ALL_ROWS, reader: READ_ROWS },
  gap: { writer: ALL_ROWS, reader: READ_ROWS },
  trade_epoch: { writer: ADD, reader: READ_ROWS },
  wanted: { writer: ALL_ROWS, reader: READ_ROWS },
  session: { writer: ADD_CHANGE, reader: READ_ROWS },
  verdict: { writer: ALL_ROWS, reader: READ_ROWS },
  verdict_doubt: { writer: ADD_REMOVE, reader: READ_ROWS },
  quarantine: { writer: ADD_REMOVE, reader: NO_RIGHTS },
  quarantine_count: { writer: ADD_CHANGE, reader: READ_ROWS },
  partition_policy: { writer: READ_ROWS, reader: READ_ROWS },
  partition_state: { writer: READ_ROWS, reader: READ_ROWS },
  exclusive_lock: { writer: ADD_CHANGE, reader: READ_ROWS },
  reader_lock: { writer: READ_ROWS, reader: READ_ROWS },
  tapekeep_migration: { writer: READ_ROWS, reader: READ_ROWS },
};

/**
 * The three groups of the archive. They are names of the whole cluster, shared by all archives in it,
 * and log in through their members only. What they may do is granted in each database by itself.
 */
const GROUPS = ['tapekeep_owner', 'tapekeep_writer', 'tapekeep_reader'] as const;
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
async function closeDatabase(
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
async function missingRights(client: pg.Client): Promise<string | null> {
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
async function openSchema(client: pg.Client): Promise<string | null> {
  const { rows } = await client.query<{ is_open: boolean; schema: string }>(IS_SCHEMA_OPEN);
  const [found] = rows;
  if (found?.is_open !== true) return null;
  return `everybody may create objects in the schema ${found.schema}: run "REVOKE CREATE ON SCHEMA ${found.schema} FROM PUBLIC;"`;
}

/** Beside the groups the role of statements, which need those first. */
const ROLES = [...GROUPS, QUERY_ROLE] as const;

/** What became of the roles. `current` and `granted` may come with a note on what is left to do. */
export interface RolesOutcome {
  readonly state: 'current' | 'granted' | 'busy' | 'not_allowed';
  /** What a person should know or do about it; null when there is nothing. */
  readonly note: string | null;
}

const LOCK_TIMEOUT_MS = 3_000;
const LOCK_NOT_AVAILABLE = '55P03';
/** duplicate_object, unique_violation: a session in another database made the role meanwhile. */
const MADE_MEANWHILE = new Set(['42710', '23505']);

const FIND_ROLES = 'SELECT rolname AS name FROM pg_roles WHERE rolname = ANY ($1::text[])';

const COMMENTS: Readonly<Record<(typeof ROLES)[number], string>> = {
  tapekeep_owner: 'Owns the tables of tapekeep archives, migrates them and makes partitions.',
  tapekeep_writer: 'Stores market data and keeps the ledger of tapekeep archives.',
  tapekeep_reader: 'Reads series, ledger and the analytics schema of tapekeep archives.',
  [QUERY_ROLE]: 'Statements of tapekeep query run with its rights: those of tapekeep_reader.',
};

/**
 * Makes the roles where the connecting user may, gives them the tables where they are its own, and
 * grants exactly what {@link TABLE_RIGHTS} says. What is right already is not touched.
 */
export async function settleRoles(client: pg.Client, isAllowed: boolean): Promise<RolesOutcome> {
  if (!isAllowed) return { state: 'not_allowed', note: null };
  const missing = (await makeRoles(client)).filter((name) => name !== QUERY_ROLE);
  if (missing.length > 0) {
    const make = [...missing, QUERY_ROLE].map((name) => `CREATE ROLE ${name};`).join(' ');
    const note = `this user may not make roles, so that there is no access but the owner's, and no "tapekeep query" of tables of Postgres: let an administrator run "${make} ${QUERY_GRANTS}" and migrate again`;
    return { state: 'not_allowed', note };
  }
  try {
    await client.query(`${BEGIN_ALONE}; SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`);
    const hasOwner = await passOwnership(client);
    const changes = await grantRights(client);
    const query = await settleQueryRole(client);
    const closed = await closeDatabase(client);
    await client.query('COMMIT');
    const isChanged = hasOwner.changed || changes > 0 || query.changed || closed.changed;
    const lacking = await missingRights(client);
    const notes = [hasOwner.note, query.note, lacking, closed.note, await openSchema(client)];
    const note = notes.filter((one) => one !== null).join('; ');
    return { state: isChanged ? 'granted' : 'current', note: note === '' ? null : note };
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    if (sqlstateOf(error) !== LOCK_NOT_AVAILABLE) throw error;
    const note = 'the tables are in use: their rights are settled at the next migration';
    return { state: 'busy', note };
  }
}

/** Makes the roles that are missing. Returns the names of those that could not be made. */
export async function makeRoles(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(FIND_ROLES, [ROLES]);
  const missing: string[] = [];
  for (const role of ROLES) {
    if (rows.some(({ name }) => name === role)) continue;
    try {
      // In one message, so in one transaction: nothing sees the role before it has what it needs.
      const grants = role === QUERY_ROLE ? QUERY_GRANTS : '';
      const comment = `COMMENT ON ROLE ${role} IS '${COMMENTS[role]}'`;
      await client.query(`CREATE ROLE ${role} NOLOGIN; ${comment}; ${grants}`);
    } catch (error) {
      const sqlstate = sqlstateOf(error) ?? '';
      if (MADE_MEANWHILE.has(sqlstate)) continue;
      if (sqlstate !== NOT_ALLOWED) throw error;
      missing.push(role);
    }
  }
  return missing;
}

/** Everything of the archive that does not belong to the owner's role yet, as statements. */
const FOREIGN_OBJECTS = `
  WITH ours AS (
    SELECT c.oid FROM pg_class c
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY ($1::text[])),
  relations AS (
    SELECT oid FROM ours
    UNION SELECT i.inhrelid FROM pg_inherits i JOIN ours ON ours.oid = i.inhparent
    UNION SELECT c.oid FROM pg_class c
          WHERE c.relnamespace = to_regnamespace('analytics') AND c.relkind IN ('r', 'v')),
  statements AS (
    SELECT 1 AS place, 'SCHEMA ' || quote_ident(nspname) AS object FROM pg_namespace
    WHERE nspname = 'analytics' AND nspowner <> $2::regrole
    UNION ALL
    SELECT 2, CASE c.relkind WHEN 'v' THEN 'VIEW ' ELSE 'TABLE ' END || c.oid::regclass
    FROM pg_class c JOIN relations USING (oid) WHERE c.relowner <> $2::regrole
    UNION ALL
    SELECT 3, 'FUNCTION ' || p.oid::regprocedure FROM pg_proc p
    WHERE p.proowner <> $2::regrole AND (p.pronamespace = to_regnamespace('analytics')
      OR p.pronamespace = current_schema()::regnamespace AND p.proname = ANY ($3::text[]))
    UNION ALL
    SELECT 4, 'TYPE ' || t.oid::regtype FROM pg_type t
    WHERE t.typnamespace = current_schema()::regnamespace AND t.typtype = 'e'
      AND t.typname = ANY ($4::text[]) AND t.typowner <> $2::regrole)
  SELECT object FROM statements ORDER BY place, object`;

/** What the writer may call of that which works with the owner's rights. */
const WRITER_FUNCTIONS = [
  ...['make_partition', 'partition_at', 'begin_seal', 'finish_seal', 'reopen_partition'],
  ...['drop_broken_indexes', 'rebuild_indexes', 'archive_partition', 'drop_emptied'],
  ...['begin_restore', 'finish_restore', 'expire_partition', 'expose_trade'],
  ...['lock_rows', 'hold_lock'],
];
/** Functions and types of the archive beside its tables. */
export const OWNED_FUNCTIONS = [
  ...WRITER_FUNCTIONS,
  ...['build_partition', 'guard_partition', 'empty_partition', 'partition_is_final'],
  ...['balances_at', 'orders_open_at', 'lock_holder', 'streams_of', 'stream_rows'],
  ...['add_market_locks'],
  ...['revoke_ledger', 'forget_plans', 'rows_by_market'],
];
export const OWNED_TYPES = ['taker_side', 'state_origin'];

const GIVE_GROUND = `
  DO $$ BEGIN
    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO ${OWNER}', current_schema());
    EXECUTE format('GRANT CREATE, TEMPORARY ON DATABASE %I TO ${OWNER}', current_database());
  END $$`;
const JOIN_OWNERS = `
  DO $$ BEGIN
    IF NOT pg_has_role(current_user, '${OWNER}', 'USAGE') THEN
      EXECUTE format('GRANT ${OWNER} TO %I', current_user);
    END IF;
  END $$`;

interface Ownership {
  readonly changed: boolean;
  readonly note: string | null;
}

/** Where the user may not pass its tables on, it stays their owner, and all rights are granted alike. */
export async function passOwnership(client: pg.Client): Promise<Ownership> {
  const values = [Object.keys(TABLE_RIGHTS), OWNER, OWNED_FUNCTIONS, OWNED_TYPES];
  const { rows } = await client.query<{ object: string }>(FOREIGN_OBJECTS, values);
  if (rows.length === 0) return { changed: false, note: null };
  await client.query('SAVEPOINT ownership');
  try {
    await client.query(JOIN_OWNERS);
    await client.query(GIVE_GROUND);
    for (const { object } of rows) await client.query(`ALTER ${object} OWNER TO ${OWNER}`);
    return { changed: true, note: null };
  } catch (error) {
    if (sqlstateOf(error) !== NOT_ALLOWED) throw error;
    await client.query('ROLLBACK TO ownership');
    const note = `the tables stay with the user who made them, because it may not pass them on to ${OWNER} (${messageOf(error)})`;
    return { changed: false, note };
  }
}

/** Rights as they are, one text a right: `trade tapekeep_writer UPDATE(executed_at)`. */
const RIGHTS_HELD = `
  WITH ours AS (
    SELECT c.oid, c.relname, c.relacl FROM pg_class c
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY ($1::text[]))
  SELECT concat_ws(' ', o.relname, a.grantee::regrole, a.privilege_type) AS held
  FROM ours o, aclexplode(o.relacl) a WHERE a.grantee::regrole::text = ANY ($2::text[])
  UNION ALL
  SELECT concat_ws(' ', o.relname, a.grantee::regrole, a.privilege_type || '(' || t.attname || ')')
  FROM ours o JOIN pg_attribute t ON t.attrelid = o.oid, aclexplode(t.attacl) a
  WHERE a.grantee::regrole::text = ANY ($2::text[])`;

const PARTITIONS = `
  SELECT i.inhparent::regclass::text AS parent, i.inhrelid::regclass::text AS partition
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent
  WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY ($1::text[])`;

const GRANT_AROUND = `
  DO $$ BEGIN
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO ${WRITER}, ${READER}', current_database());
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO ${WRITER}', current_database());
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO ${WRITER}, ${READER}', current_schema());
    GRANT EXECUTE ON FUNCTION ${WRITER_FUNCTIONS.join(', ')} TO ${WRITER};
  END $$`;
const LACKS_FUNCTIONS = `
  SELECT EXISTS (
    SELECT FROM pg_proc p
    WHERE p.pronamespace = current_schema()::regnamespace AND p.proname = ANY ($1::text[])
      AND NOT has_function_privilege('${WRITER}', p.oid, 'EXECUTE')) AS lacks`;
const GRANT_ANALYTICS = `
  GRANT USAGE ON SCHEMA analytics TO ${WRITER}, ${READER};
  GRANT SELECT ON ALL TABLES IN SCHEMA analytics TO ${WRITER}, ${READER};
  ALTER DEFAULT PRIVILEGES IN SCHEMA analytics GRANT SELECT ON TABLES TO ${WRITER}, ${READER}`;
const LACKS_ANALYTICS = `
  SELECT NOT has_schema_privilege('${READER}', n.oid, 'USAGE') OR EXISTS (
    SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'v')
      AND NOT has_table_privilege('${READER}', c.oid, 'SELECT')) AS lacks
  FROM pg_namespace n WHERE n.nspname = 'analytics'`;

/** Returns how many tables had other rights than they should. */
async function grantRights(client: pg.Client): Promise<number> {
  const tables = Object.keys(TABLE_RIGHTS);
  const { rows } = await client.query<{ held: string }>(RIGHTS_HELD, [tables, [WRITER, READER]]);
  const held = rows.map((row) => row.held);
  const { rows: partitions } = await client.query<{ parent: string; partition: string }>(
    PARTITIONS,
    [tables],
  );
  let changes = 0;
  for (const [table, rights] of Object.entries(TABLE_RIGHTS)) {
    const wanted = [
      ...textsOf(table, WRITER, rights.writer),
      ...textsOf(table, READER, rights.reader),
    ];
    if (
      sameTexts(
        wanted,
        held.filter((text) => text.startsWith(`${table} `)),
      )
    )
      continue;
    changes += 1;
    const own = partitions.filter(({ parent }) => parent === table);
    for (const name of [table, ...own.map(({ partition }) => partition)]) {
      await client.query(grantSql(name, rights));
    }
  }
  const { rows: functions } = await client.query<{ lacks: boolean }>(LACKS_FUNCTIONS, [
    WRITER_FUNCTIONS,
  ]);
  if (functions[0]?.lacks === true) changes += 1;
  if (changes > 0) await client.query(GRANT_AROUND);
  const { rows: analytics } = await client.query<{ lacks: boolean }>(LACKS_ANALYTICS);
  if (analytics[0]?.lacks === true) {
    await client.query(GRANT_ANALYTICS);
    changes += 1;
  }
  return changes;
}

function textsOf(table: string, role: string, rights: readonly string[]): string[] {
  return rights.map((right) => `${table} ${role} ${right}`);
}

function sameTexts(a: readonly string[], b: readonly string[]): boolean {
  return [...a].sort().join('\n') === [...b].sort().join('\n');
}

/** `name` is ours or quoted by Postgres; a right may name a column, as in `UPDATE(executed_at)`. */
function grantSql(name: string, { writer, reader }: RoleRights): string {
  const grant = (role: string, rights: readonly string[]) =>
    rights.length === 0 ? [] : [`GRANT ${rights.join(', ')} ON TABLE ${name} TO ${role}`];
  return [
    `REVOKE ALL ON TABLE ${name} FROM ${WRITER}, ${READER}`,
    ...grant(WRITER, writer),
    ...grant(READER, reader),
  ].join('; ');
}
