import { createRequire } from 'node:module';

type DuckDb = typeof import('@duckdb/node-api');

let loaded: DuckDb | undefined;

/**
 * DuckDB, loaded when it is first needed: that takes a third of the time in which a command starts, and most
 * of them, a daemon too, do without it.
 */
export function duckDb(): DuckDb {
  loaded ??= createRequire(import.meta.url)('@duckdb/node-api') as DuckDb;
  return loaded;
}
