import { messageOf } from '../../kernel/errors.js';
import { SERIES_TABLES, type SeriesTable, seriesOf } from '../../model/series.js';
import { isTrue, type Runner } from '../connection.js';
import { isState } from '../errors.js';
import { unlessInUse } from './analytics.js';

/** What became of one sort of rights. */
interface Settled {
  readonly changed: boolean;
  /** What is left for a person to do; null when there is nothing. */
  readonly note: string | null;
}

const UNCHANGED: Settled = { changed: false, note: null };

/** Makes a change within a transaction, or leaves all as it was where the right to make it is missing. */
async function whereAllowed(
  connection: Runner,
  change: () => Promise<void>,
  noteOf: (error: unknown) => string,
): Promise<Settled> {
  await connection.rows('SAVEPOINT rights');
  try {
    await change();
    return { changed: true, note: null };
  } catch (error) {
    if (!isState(error, 'not allowed')) throw error;
    await connection.rows('ROLLBACK TO rights');
    return { changed: false, note: noteOf(error) };
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
  const { columns, versions } = seriesOf(table);
  const learned = columns.filter(({ isLearned }) => isLearned).map(({ name }) => `UPDATE(${name})`);
  return {
    writer: versions === null ? [...ADD, ...learned] : ADD_CHANGE,
    reader: READ_ROWS,
  };
}

const SERIES_RIGHTS = Object.fromEntries(SERIES_TABLES.map((table) => [table, rightsOf(table)]));

/**
 * What the writer and the reader may do with each table (data model, Roles). The ledger is kept. What was refused is
 * not for readers.
 *
 * Every table of the archive stands here: one that does not belongs to its owner alone.
 */
export const TABLE_RIGHTS: Readonly<Record<string, RoleRights>> = {
  ...SERIES_RIGHTS,
  archive: { writer: ADD_CHANGE, reader: READ_ROWS },
  market: { writer: ADD_CHANGE, reader: READ_ROWS },
  market_history: { writer: ADD, reader: READ_ROWS },
  market_absence: { writer: ADD, reader: READ_ROWS },
  stream: { writer: ADD_CHANGE, reader: READ_ROWS },
  coverage: { writer: ALL_ROWS, reader: READ_ROWS },
  rows_by_day: { writer: ADD_CHANGE, reader: READ_ROWS },
  gap: { writer: ALL_ROWS, reader: READ_ROWS },
  trade_epoch: { writer: ADD, reader: READ_ROWS },
  wanted: { writer: ALL_ROWS, reader: READ_ROWS },
  session: { writer: ADD_CHANGE, reader: READ_ROWS },
  candle_check: { writer: ALL_ROWS, reader: READ_ROWS },
  candle_recheck: { writer: ADD_REMOVE, reader: READ_ROWS },
  quarantine: { writer: ADD_REMOVE, reader: NO_RIGHTS },
  quarantine_count: { writer: ADD_CHANGE, reader: READ_ROWS },
  partition_policy: { writer: READ_ROWS, reader: READ_ROWS },
  partition_state: { writer: READ_ROWS, reader: READ_ROWS },
  exclusive_lock: { writer: ADD_CHANGE, reader: READ_ROWS },
  reader_lock: { writer: READ_ROWS, reader: READ_ROWS },
  writer_commit: { writer: ADD_CHANGE, reader: READ_ROWS },
  journal_end: { writer: READ_ROWS, reader: READ_ROWS },
  server_timeline: { writer: READ_ROWS, reader: READ_ROWS },
  writer_beat: { writer: ADD_CHANGE, reader: READ_ROWS },
  writer_standby: { writer: ALL_ROWS, reader: READ_ROWS },
  journal: { writer: ADD, reader: READ_ROWS },
  incident: { writer: ADD, reader: READ_ROWS },
  run: { writer: ADD_CHANGE, reader: READ_ROWS },
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
         pg_has_role(d.datdba, 'USAGE') AS is_ours, quote_ident(d.datname) AS database
  FROM pg_database d LEFT JOIN LATERAL aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
    ON a.grantee = 0
  WHERE d.datname = current_database() GROUP BY d.datdba, d.datname`;

/**
 * Closes the database to logins of no group: any that may connect can fill disks with temporary tables
 * and hold advisory locks. Returns what the owner of the database has to do where this user may not.
 */
async function closeDatabase(connection: Runner): Promise<Settled> {
  const [found] = await connection.rows<{ rights: string; isOurs: boolean; database: string }>(
    OPEN_TO_ALL,
  );
  if (found === undefined || found.rights === '') return UNCHANGED;
  const revoke = `REVOKE ${found.rights} ON DATABASE ${found.database} FROM PUBLIC`;
  if (!found.isOurs) {
    const note = `every login of the server may use this database; ask its owner to run "${revoke};"`;
    return { changed: false, note };
  }
  await connection.rows(`
    GRANT CONNECT ON DATABASE ${found.database} TO ${OWNER}, ${WRITER}, ${READER};
    GRANT TEMPORARY ON DATABASE ${found.database} TO ${OWNER}, ${WRITER};
    ${revoke}`);
  return { changed: true, note: null };
}

const DATABASE_RIGHTS = `
  SELECT has_database_privilege('${WRITER}', current_database(), 'CONNECT')
           AND has_database_privilege('${WRITER}', current_database(), 'TEMPORARY')
           AND has_database_privilege('${READER}', current_database(), 'CONNECT') AS is_whole,
         quote_ident(current_database()) AS database`;

/** A GRANT of what one may not grant is a warning only: look at what came of it. */
async function missingRights(connection: Runner): Promise<string | null> {
  const [found] = await connection.rows<{ isWhole: boolean; database: string }>(DATABASE_RIGHTS);
  if (found === undefined || found.isWhole) return null;
  return `let the owner of the database run "GRANT CONNECT, TEMPORARY ON DATABASE ${found.database} TO ${WRITER}; GRANT CONNECT ON DATABASE ${found.database} TO ${READER};"`;
}

const IS_SCHEMA_OPEN = `
  SELECT EXISTS (
    SELECT FROM pg_namespace n, aclexplode(n.nspacl) a
    WHERE n.nspname = current_schema() AND a.grantee = 0 AND a.privilege_type = 'CREATE') AS is_open,
    quote_ident(current_schema()) AS schema`;

/** Databases of Postgres 14 and older let everybody create things beside the tables. */
async function openSchema(connection: Runner): Promise<string | null> {
  const [found] = await connection.rows<{ isOpen: boolean; schema: string }>(IS_SCHEMA_OPEN);
  if (found?.isOpen !== true) return null;
  return `everybody may create objects in the schema ${found.schema}: run "REVOKE CREATE ON SCHEMA ${found.schema} FROM PUBLIC;"`;
}

/** What became of the roles. `current` and `granted` may come with a note on what is left to do. */
export interface RolesOutcome {
  readonly state: 'current' | 'granted' | 'busy' | 'not_allowed';
  /** What a person should know or do about it; null when there is nothing. */
  readonly note: string | null;
}

const FIND_ROLES = 'SELECT rolname AS name FROM pg_roles WHERE rolname = ANY ($1::text[])';

const COMMENTS: Readonly<Record<(typeof GROUPS)[number], string>> = {
  tapekeep_owner: 'Owns the tables of tapekeep archives, migrates them and makes partitions.',
  tapekeep_writer: 'Stores market data and keeps the ledger of tapekeep archives.',
  tapekeep_reader: 'Reads series, ledger and the analytics schema of tapekeep archives.',
};

/**
 * Makes the roles where the connecting user may, gives them the tables where they are its own, and
 * grants exactly what {@link TABLE_RIGHTS} says. What is right already is not touched.
 */
export async function settleRoles(connection: Runner, isAllowed: boolean): Promise<RolesOutcome> {
  if (!isAllowed) return { state: 'not_allowed', note: null };
  const missing = await makeRoles(connection);
  if (missing.length > 0) {
    const make = missing.map((name) => `CREATE ROLE ${name};`).join(' ');
    const note = `this database user cannot create roles; ask an administrator to run "${make} ${await joinAdvice(connection)}" and migrate again`;
    return { state: 'not_allowed', note };
  }
  const settled = await unlessInUse(connection, async () => [
    await passOwnership(connection),
    { changed: await grantRights(connection), note: null },
    await closeDatabase(connection),
  ]);
  if (settled === undefined) {
    const note = 'tables in use: their rights will be granted at the next migration';
    return { state: 'busy', note };
  }
  const left = [await missingRights(connection), await openSchema(connection)];
  const notes = [...settled.map((one) => one.note), ...left].filter((one) => one !== null);
  return {
    state: settled.some(({ changed }) => changed) ? 'granted' : 'current',
    note: notes.length === 0 ? null : notes.join('; '),
  };
}

/** What an administrator runs where the migrating user may not. Who is no owner can make nothing over. */
async function joinAdvice(connection: Runner): Promise<string> {
  const [row] = await connection.rows<{ name: string }>('SELECT quote_ident(current_user) AS name');
  return `GRANT ${OWNER} TO ${row?.name};`;
}

/** Makes the roles that are missing. Returns the names of those that could not be made. */
export async function makeRoles(connection: Runner): Promise<string[]> {
  const rows = await connection.rows<{ name: string }>(FIND_ROLES, [GROUPS]);
  const missing: string[] = [];
  for (const role of GROUPS) {
    if (rows.some(({ name }) => name === role)) continue;
    try {
      const comment = `COMMENT ON ROLE ${role} IS '${COMMENTS[role]}'`;
      await connection.rows(`CREATE ROLE ${role} NOLOGIN; ${comment}`);
    } catch (error) {
      if (isState(error, 'made meanwhile')) continue;
      if (!isState(error, 'not allowed')) throw error;
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
    SELECT 4, 'SERVER ' || quote_ident(srvname) FROM pg_foreign_server
    WHERE srvname = 'tapekeep_cold' AND srvowner <> $2::regrole
    UNION ALL
    SELECT 5, 'TYPE ' || t.oid::regtype FROM pg_type t
    WHERE t.typnamespace = current_schema()::regnamespace AND t.typtype = 'e'
      AND t.typname = ANY ($4::text[]) AND t.typowner <> $2::regrole)
  SELECT object FROM statements ORDER BY place, object`;

/** What the writer may call of that which works with the owner's rights. */
const WRITER_FUNCTIONS = [
  ...['make_partition', 'partition_at', 'begin_seal', 'finish_seal', 'reopen_partition'],
  ...[
    'drop_broken_indexes',
    'rebuild_indexes',
    'make_cold_server',
    'point_cold_server',
    'cold_server_trouble',
  ],
  ...['note_files', 'archive_partition', 'import_partition', 'analyze_archived'],
  ...['begin_restore', 'index_restored', 'drop_restored', 'finish_restore', 'forget_files'],
  ...[
    'expire_partition',
    'expose_trade',
    'lock_rows',
    'hold_lock',
    'replace_partition',
    'miscounted',
  ],
  ...['lock_writers', 'new_entries', 'restart_journal', 'note_timeline'],
];
/** Functions and types of the archive beside its tables. */
export const OWNED_FUNCTIONS = [
  ...WRITER_FUNCTIONS,
  ...['key_of', 'add_key', 'build_partition', 'guard_partition', 'partition_is_final', 'rows_stay'],
  ...[
    'lock_holders',
    'lock_holder',
    'lock_rival',
    'streams_of',
    'add_market_locks',
    'restored_name',
    'revoke_ledger',
  ],
  ...['drop_partition', 'add_partition_to_journal', 'manifest_fault', 'bytes_of', 'place_files'],
];
export const OWNED_TYPES = ['taker_side', 'state_origin'];

/** Prepares a change of owner: the new one needs the right to create things there. */
const JOIN_OWNERS = `
  DO $$ BEGIN
    IF NOT pg_has_role(current_user, '${OWNER}', 'USAGE') THEN
      EXECUTE format('GRANT ${OWNER} TO %I', current_user);
    END IF;
    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO ${OWNER}', current_schema());
    EXECUTE format('GRANT CREATE, TEMPORARY ON DATABASE %I TO ${OWNER}', current_database());
  END $$`;

/** Where the user may not pass its tables on, it stays their owner, and all rights are granted alike. */
async function passOwnership(connection: Runner): Promise<Settled> {
  const values = [Object.keys(TABLE_RIGHTS), OWNER, OWNED_FUNCTIONS, OWNED_TYPES];
  const rows = await connection.rows<{ object: string }>(FOREIGN_OBJECTS, values);
  if (rows.length === 0) return UNCHANGED;
  const advice = await joinAdvice(connection);
  const change = async () => {
    await connection.rows(JOIN_OWNERS);
    for (const { object } of rows) await connection.rows(`ALTER ${object} OWNER TO ${OWNER}`);
  };
  return await whereAllowed(
    connection,
    change,
    (error) =>
      `the tables stay with the user who made them, because it may not pass them on to ${OWNER} (${messageOf(error)}); ask an administrator to run "${advice}" and migrate again`,
  );
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

/** Those in the database: an archived one is read through its parent alone. */
const PARTITIONS = `
  SELECT i.inhparent::regclass::text AS parent, p.oid::regclass::text AS partition
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent JOIN pg_class p ON p.oid = i.inhrelid AND p.relkind = 'r'
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

/** Whether anything had other rights than it should. */
async function grantRights(connection: Runner): Promise<boolean> {
  const tables = Object.keys(TABLE_RIGHTS);
  const held = await connection.rows<{ held: string }>(RIGHTS_HELD, [tables, [WRITER, READER]]);
  const partitions = await connection.rows<{ parent: string; partition: string }>(PARTITIONS, [
    tables,
  ]);
  let isChanged = false;
  for (const [table, rights] of Object.entries(TABLE_RIGHTS)) {
    const texts = [
      ...rights.writer.map((right) => `${table} ${WRITER} ${right}`),
      ...rights.reader.map((right) => `${table} ${READER} ${right}`),
    ];
    const found = held.map((row) => row.held).filter((text) => text.startsWith(`${table} `));
    if (texts.sort().join() === found.sort().join()) continue;
    isChanged = true;
    const own = partitions.filter(({ parent }) => parent === table);
    for (const name of [table, ...own.map(({ partition }) => partition)]) {
      await connection.rows(grantSql(name, rights));
    }
  }
  if (await isTrue(connection, LACKS_FUNCTIONS, [WRITER_FUNCTIONS])) isChanged = true;
  if (isChanged) await connection.rows(GRANT_AROUND);
  if (!(await isTrue(connection, LACKS_ANALYTICS))) return isChanged;
  await connection.rows(GRANT_ANALYTICS);
  return true;
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
