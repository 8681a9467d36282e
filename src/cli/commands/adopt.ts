import { adoptColdDir } from '../../archive/cold/owner.js';
import { command } from '../command.js';
import { archive, coldDirOf } from '../opening/database.js';
import { textOf } from '../output.js';

/** Gives the folder of cold files to the configured database, as after a restore from a dump. */
export default command({
  options: {},
  help: `
The folder of cold files (cold.dir) belongs to one database, which archive.json in it names. No other database writes
or deletes there. After a move by pg_dump, a restored backup or pg_upgrade the database is another one: give it the
folder, or a copy of the folder.

Use a copy as long as the other database is in use: it can write and delete nothing there afterwards. A folder that
holds archived partitions unknown to this database is refused.

  tapekeep adopt`,
  needs: archive('by itself'),
  async run({ session, store, signal }) {
    const coldDir = coldDirOf(session.config);
    const admin = await store.sealing.open(signal);
    try {
      const mine = await store.sealing.identity();
      await adoptColdDir(coldDir, mine, await store.sealing.partitions());
      process.stdout.write(textOf(`${coldDir} belongs to the database ${mine.database} now.`));
    } finally {
      await admin.close();
    }
  },
});
