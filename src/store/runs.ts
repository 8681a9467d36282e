import type { Span } from '../kernel/span.js';
import type { Share } from '../model/share.js';
import type { Runner } from './connection.js';
import { fromMs, rangeSql } from './sql.js';

/** Programs that collected into the archive. */

export interface RunFacts {
  readonly host: string;
  readonly version: string;
  /** Hash of the settings in force, without secrets. */
  readonly configHash: string;
}

/** A run, by the clock of the database. */
export interface Run extends RunFacts {
  readonly startedAtMs: number;
  /** Last sign of life; null while it may still run. */
  readonly endedAtMs: number | null;
}

/**
 * A program that is killed cannot say when it ended: its last note of the present does. Those whom a share excludes have
 * ended.
 */
const END_EARLIER = `
  UPDATE run SET ended_at = greatest(run.started_at, (SELECT present_noted_at FROM archive))
  WHERE ended_at IS NULL AND ($1 = 0 OR share IN (0, $1) OR shares <> $2)`;
const NOTE =
  'INSERT INTO run (host, version, config_hash, share, shares) VALUES ($1, $2, $3, $4, $5)';

/** Remembers that a program begins to collect a share, once it alone may write that. */
export async function noteRun(
  runner: Runner,
  { host, version, configHash }: RunFacts,
  share: Share,
): Promise<void> {
  const values = [share.number, share.of];
  await runner.rows(END_EARLIER, values);
  await runner.rows(NOTE, [host.slice(0, 255), version, configHash, ...values]);
}

/** Most runs that are listed. */
const RUNS_MAX = 10_000;

/** The one before the range is there to compare with. */
const RUNS = `
  SELECT started_at, CASE WHEN ended_at IS NOT NULL THEN ended_at
           WHEN (SELECT present_noted_at FROM archive) < now() - interval '1 minute'
           THEN greatest(started_at, (SELECT present_noted_at FROM archive)) END AS ended_at,
         host, version, config_hash
  FROM run
  WHERE tstzrange(started_at, ended_at, '[]') && ${rangeSql('$1', '$2')}
     OR run_id = (SELECT max(run_id) FROM run WHERE ended_at < ${fromMs('$1')})
  ORDER BY run_id LIMIT ${RUNS_MAX}`;

/** Reads the runs of a time range, and the last one before it, oldest first. */
export async function readRuns(runner: Runner, span: Span): Promise<Run[]> {
  return await runner.rows<Run>(RUNS, [span.fromMs, span.toMs]);
}
