import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import type { TestContext } from 'node:test';
import pg from 'pg';
import { runSql } from '../postgres/postgres.js';
import { Program } from '../programs/program.js';
import { namesIn } from './export-world.js';

/** Resolves when a COPY of the archive waits for a lock. */
async function untilCopyWaits(url: string): Promise<void> {
  for (;;) {
    const waiting = await runSql(
      url,
      `SELECT FROM pg_stat_activity WHERE datname = current_database()
         AND wait_event_type = 'Lock' AND query LIKE 'COPY (%'`,
    );
    if (waiting.length > 0) return;
  }
}

/**
 * Stops, then kills an export of trades in the middle: what was at its place before has to stay, and nothing hidden
 * may be left by one that was stopped.
 *
 * @param path the only file of its folder; the export is to replace it
 */
export async function assertKeptWhenStopped(
  t: TestContext,
  url: string,
  path: string,
  args: readonly string[],
): Promise<void> {
  await writeFile(path, 'mine');
  const locker = new pg.Client({ connectionString: url });
  await locker.connect();
  t.after(() => locker.end());
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 130],
    ['SIGKILL', null],
  ] as const) {
    await locker.query('BEGIN; LOCK TABLE trade');
    const program = new Program(['export', ...args, '--force'], {
      env: { TAPEKEEP_DATABASE_URL: url },
    });
    t.after(() => program.dispose());
    await untilCopyWaits(url);
    program.kill(signal);
    const end = await program.ended();
    assert.equal(end.code, code, program.dump());
    await locker.query('ROLLBACK');
    assert.equal(await readFile(path, 'utf8'), 'mine');
    const names = await namesIn(dirname(path));
    assert.deepEqual(
      names.filter((name) => code !== null || !name.startsWith('.')),
      [basename(path)],
      signal,
    );
  }
}
