import type pg from 'pg';

/**
 * Settings that change the meaning of our statements, or the text of a value, with the one value that the program is
 * written for. A server, a database, a role, PGOPTIONS or `options` in database.url may set any of them to another one.
 *
 * Two are left alone on purpose. `default_transaction_read_only`: hosts switch it on when a disk is full, so it is a
 * reason to refuse. `lc_messages`: no statement depends on the language of a message, and not every login may set it.
 */
const PINNED: Readonly<Record<string, string>> = {
  // How values are written.
  client_encoding: 'UTF8',
  datestyle: 'ISO, YMD',
  intervalstyle: 'postgres',
  timezone: 'UTC',
  extra_float_digits: '1',
  bytea_output: 'hex',
  xmlbinary: 'base64',
  xmloption: 'content',
  lc_monetary: 'C',
  lc_numeric: 'C',
  lc_time: 'C',
  // How statements are read.
  array_nulls: 'on',
  backslash_quote: 'safe_encoding',
  escape_string_warning: 'on',
  quote_all_identifiers: 'off',
  standard_conforming_strings: 'on',
  transform_null_equals: 'off',
  'plpgsql.extra_errors': 'none',
  'plpgsql.variable_conflict': 'error',
  // What a statement does and sees. Rows that a policy would hide are an error: a silent part would pass for the whole.
  session_replication_role: 'origin',
  row_security: 'off',
  gin_fuzzy_search_limit: '0',
  // What waits for a lock must see what its last holder wrote, which stricter isolation would hide.
  default_transaction_isolation: 'read committed',
  default_transaction_deferrable: 'off',
  synchronous_commit: 'on',
  // How long: statements have a limit of their own. Compiling a plan takes longer than any question of the ledger.
  lock_timeout: '0',
  idle_session_timeout: '0',
  transaction_timeout: '0',
  jit: 'off',
  client_min_messages: 'warning',
};

/** Promises more than the pinned value does: whoever chose it keeps it. */
const STRONGER: Readonly<Record<string, string>> = { synchronous_commit: 'remote_apply' };

/**
 * Passes over what a server does not know, and what is as it should be: to set some of them takes a right, even to the
 * value that they have. A search path that lacks the schema of the archive begins with it.
 */
const PIN = `
  SELECT pg_catalog.set_config(name, value, false)
  FROM unnest($1::text[], $2::text[], $3::text[]) AS pinned(name, value, stronger)
  WHERE pg_catalog.current_setting(name, true) NOT IN (value, stronger)
  UNION ALL
  SELECT pg_catalog.set_config('search_path',
    concat_ws(', ', 'public', nullif(pg_catalog.current_setting('search_path'), '')), false)
  WHERE 'public' <> ALL (pg_catalog.current_schemas(false))`;

/** The first statement of every connection. */
export function sessionSettings(statementTimeoutMs: number): pg.QueryConfig {
  const settings: Readonly<Record<string, string>> = {
    ...PINNED,
    statement_timeout: `${Math.trunc(statementTimeoutMs)}`,
    idle_in_transaction_session_timeout: `${Math.trunc(statementTimeoutMs * 2)}`,
  };
  const names = Object.keys(settings);
  const values = Object.values(settings);
  const stronger = names.map((name, at) => STRONGER[name] ?? values[at]);
  return { text: PIN, values: [names, values, stronger] };
}
