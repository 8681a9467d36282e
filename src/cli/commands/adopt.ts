import { adoptColdDir } from '../../archive/cold/owner.js';
import { command } from '../command.js';
import { archive, coldOf } from '../opening/database.js';
import { textOf } from '../output.js';

/** Gives the folder of cold files to the configured database, as after a restore from a dump. */
export default command({
  options: {},
  help: `
A folder of cold files (cold.dir) belongs to one database; others cannot write to it. After pg_dump, a restored
backup or pg_upgrade the database is another one: give it the folder, or a copy while the other is in use.
Refused if the folder has archived partitions that this database does not know.

  tapekeep adopt`,
  needs: archive('by itself'),
  async run({ session, store, signal }) {
    const cold = coldOf(session.config);
    const admin = await store.sealing.open(signal);
    try {
      const mine = await store.sealing.identity();
      await adoptColdDir(cold, mine, await store.sealing.partitions());
      process.stdout.write(textOf(`${cold.name} belongs to the database ${mine.database} now.`));
    } finally {
      await admin.close();
    }
  },
});
