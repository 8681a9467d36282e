/** Hands the address of the run's Postgres from `test/run.ts` to the test files' processes. */
export const POSTGRES_VARIABLE = 'TAPEKEEP_TEST_POSTGRES';
