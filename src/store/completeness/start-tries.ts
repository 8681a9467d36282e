import type { StartTries, StartTry } from '../api-completeness.js';
import type { Runner } from '../database.js';
import { fromMs, toMs } from '../instants.js';

/** The tries of stream `s` as columns, for lists of streams. */
export const START_TRIES = `
  CASE WHEN s.start_tries IS NOT NULL THEN json_build_object(
    'attempts', (s.start_tries->>'attempts')::int,
    'reason', s.start_tries->>'reason',
    'note', s.start_tries->>'note',
    'nextAttemptAtMs', ${toMs(`(s.start_tries->>'nextAttemptAt')::timestamptz`)}) END
  AS "startTries"`;

const READ = `SELECT ${START_TRIES} FROM stream s WHERE stream_id = $1`;

/** Once the start is known there is nothing below it to be tried. */
const NOTE = `
  UPDATE stream SET start_tries = jsonb_build_object(
    'attempts', coalesce((start_tries->>'attempts')::int, 0) + 1,
    'reason', $2::text, 'note', $3::text, 'nextAttemptAt', ${fromMs('$4')})
  WHERE stream_id = $1 AND collect_from IS NULL`;
const FORGET = 'UPDATE stream SET start_tries = NULL WHERE stream_id = $1';

export async function readStartTries(runner: Runner, streamId: number): Promise<StartTries | null> {
  const [row] = await runner.rows<{ startTries: StartTries | null }>(READ, [streamId]);
  return row?.startTries ?? null;
}

export async function noteStartTry(
  runner: Runner,
  streamId: number,
  failed: StartTry | null,
): Promise<void> {
  if (failed === null) await runner.rows(FORGET, [streamId]);
  else {
    const { reason, note, nextAttemptAtMs } = failed;
    await runner.rows(NOTE, [streamId, reason, note, nextAttemptAtMs]);
  }
}
