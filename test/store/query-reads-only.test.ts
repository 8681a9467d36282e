import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { FolderStorage } from '../../src/archive/cold/storage.js';
import { openReading } from '../../src/archive/reading.js';
import { messageOf } from '../../src/kernel/errors.js';
import { askRows } from '../support/worlds/asking.js';
import { archiveDay } from '../support/worlds/cold-world.js';
import { DAYS, openDaysWorld } from '../support/worlds/days-world.js';
import { makeFolder } from '../support/worlds/export-world.js';

/** What a statement of `tapekeep query` cannot do. */

/** A path at which a statement that gets through leaves its mark. */
const mark = () => join(tmpdir(), `tapekeep-mark-${randomBytes(6).toString('hex')}`);

async function refusalOf(asking: Promise<unknown>): Promise<string> {
  const [end] = await Promise.allSettled([asking]);
  return end?.status === 'rejected' ? messageOf(end.reason) : 'NOT REFUSED';
}

/** What goes beyond reading the archive. `$mark` is a file that must not come to be. */
const REFUSED = [
  `copy (select 1) to '$mark'`,
  `select * from read_csv('/etc/passwd')`,
  `select * from read_text('/etc/passwd')`,
  `select * from glob('/etc/*')`,
  `select * from '/etc/passwd'`,
  `select * from query('select * from read_text(''/etc/passwd'')')`,
  `select * from json_execute_serialized_sql(json_serialize_sql('select * from read_text(''/etc/passwd'')'))`,
  `attach '$mark' as other`,
  'install httpfs',
  `load '/tmp/x.so'`,
  'pragma memory_limit=1',
  `set memory_limit = '100GB'`,
  'delete from trades',
  'create table mine as select 1',
  'commit',
  'explain analyze delete from trades',
  'select 1; select 2',
  `select getenv('HOME')`,
  'select * from duckdb_secrets()',
];

test('a statement only reads the archive; hot and cold', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  for (const isCold of [false, true]) {
    if (isCold) await archiveDay(place, 'trades', DAYS[0]);
    const answered: string[] = [];
    for (const text of REFUSED) {
      const path = mark();
      const reading = await openReading(place.store, { cold: new FolderStorage(place.coldDir) });
      const asking = askRows(text.replaceAll('$mark', path), reading, place.coldDir);
      const said = await refusalOf(asking);
      await reading.close();
      if (said === 'NOT REFUSED') answered.push(text);
      if (existsSync(path)) answered.push(`${text} wrote a file`);
    }
    assert.deepEqual(answered, []);
  }
});
