import { type BackupDocument, readBackup } from '../../archive/backup/document.js';
import {
  checkRecovered,
  copyColdFiles,
  copyDatabase,
  type Reading,
  type Recovered,
  withDump,
} from '../../archive/backup/recovery.js';
import { TapekeepError } from '../../kernel/errors.js';
import { hasEmbeddedCluster, isEmptyDatabase, recoverCluster } from '../../store/index.js';
import { argument, command, flag, nothing, VERSION } from '../command.js';
import { untilStopped } from '../ending.js';
import { EXIT_CODES, UsageError } from '../failure.js';
import { coldOf, describeDatabase, migrateDatabase, withArchive } from '../opening/database.js';
import { BUCKET_OPTIONS, backupPlace } from '../opening/places.js';
import { restoreDump } from '../opening/postgres-programs.js';
import { openSession, type Session } from '../opening/session.js';
import { JSON_DOCUMENT } from '../options.js';
import { countOf, type Lines, printable, printReport } from '../output.js';
import { BytesProgress } from './backup.js';

/** Makes an archive of a backup, where there is none, and holds it against its own ledger. */
export default command({
  args: { name: argument<string>('folder of the backup, or s3://bucket/prefix') },
  options: {
    isAdopting: flag('--adopt', 'give the place of cold files to the recovered archive'),
    isDeep: flag('--deep', 'also add up the rows of sealed partitions'),
    ...BUCKET_OPTIONS,
    json: JSON_DOCUMENT,
  },
  help: `
A base backup becomes the embedded archive of an empty data folder, a dump goes into an empty database of
yours. Every file is checked first. Then rows are counted, and cold files are read and compared with their
manifests. The backup is not changed, and no archive is overwritten.

  TAPEKEEP_DATA_DIR=./recovered tapekeep recover /backup/full --adopt
  TAPEKEEP_DATABASE_URL=postgres://…/recovered tapekeep recover /backup/dumped

Cold files in the backup are copied into cold.dir. A folder that names another database is only read until
--adopt, or "tapekeep adopt". Exit code 7: recovered, and something is missing; the output names it.`,
  needs: nothing,
  async run(common, { name, isAdopting, isDeep, json, ...bucket }) {
    const session = openSession({ logLevel: 'warn', ...common });
    let left = 'nothing was recovered; cold files that were copied stay';
    return await untilStopped(
      async (signal) => {
        const from = backupPlace(name, session.config, bucket);
        const document = await readBackup(from);
        await assertPlace(session, document);
        const place = coldOf(session.config);
        using progress = new BytesProgress();
        let done = 0;
        const total = totalOf(document);
        const onBytes = (bytes: number, doing: string) => {
          done += bytes;
          progress.bytes(done, total, doing);
        };
        const reading = { place: from, document, signal, onBytes };
        const cold = await copyColdFiles(reading, place, isAdopting);
        await recoverDatabase(session, reading);
        left = 'the archive is recovered, and was not checked to its end';
        const found = await withArchive(
          session,
          async (store) => {
            const facts = { store, cold: place, clock: session.clock, version: VERSION };
            return await checkRecovered({ ...facts, reading, isDeep, isAdopting });
          },
          'by itself',
          'any',
        );
        progress.end();
        const report = { ...found, cold };
        printReport(json, { madeAt: document.madeAt, ...report }, () =>
          linesOf(session, document, report),
        );
        const isWhole = found.lacks.length === 0 && cold.wrong.length === 0;
        return isWhole ? EXIT_CODES.ok : EXIT_CODES.incomplete;
      },
      () => `tapekeep: stopped; ${left}\n`,
    );
  },
});

/** Refuses a place that is not empty, before anything is written. */
async function assertPlace({ config, clock }: Session, { journal }: BackupDocument) {
  const { dataDir, database } = config;
  const { url } = database;
  if (journal === null && url === null) {
    const advice = 'this backup is a dump of pg_dump: name an empty database';
    throw new UsageError('database.url', undefined, advice);
  }
  if (journal !== null && url !== null) {
    const advice = 'this backup is of an embedded server: leave it out, and name an empty dataDir';
    throw new UsageError('database.url', describeDatabase(url), advice);
  }
  const isEmpty =
    url === null ? !(await hasEmbeddedCluster(dataDir)) : await isEmptyDatabase(url, clock);
  if (isEmpty) return;
  const text =
    url === null
      ? `there is an archive in ${dataDir}, and nothing was changed: name an empty folder by dataDir (TAPEKEEP_DATA_DIR)`
      : `the database ${describeDatabase(url)} is not empty, and nothing was changed: name a new one, or drop and create it again`;
  throw new TapekeepError('backup_refused', text);
}

async function recoverDatabase(session: Session, reading: Reading): Promise<void> {
  const { config, clock, telemetry } = session;
  const { signal } = reading;
  const { url } = config.database;
  if (url === null) {
    const own = { dataDir: config.dataDir, clock, telemetry: telemetry.store, signal };
    await recoverCluster(own, (folder) => copyDatabase(reading, folder));
  } else {
    await withDump(reading, config.dataDir, (path) => restoreDump(url, path, signal));
    await migrateDatabase(session, url);
  }
}

function totalOf({ files, cold }: BackupDocument): number {
  const database = files.reduce((sum, { bytes }) => sum + bytes, 0);
  return database + (cold.isCopied ? cold.bytes : 0);
}

type Report = Recovered & { readonly cold: { copied: number; wrong: readonly string[] } };

function linesOf(
  { config }: Session,
  { archive, madeAt }: BackupDocument,
  { partitions, filesChecked, isAdopted, lacks, cold }: Report,
): Lines {
  const { counted, summed, archived } = partitions;
  const coldDir = coldOf(config).name;
  return [
    `Recovered ${archive.archive === null ? 'an empty archive' : `the archive of ${archive.archive}`} from the backup of ${madeAt}.`,
    `Rows counted in ${countOf(counted, 'partition')}${summed > 0 ? `, and added up in ${summed}` : ''}.`,
    archived > 0 &&
      `Cold files of ${countOf(archived, 'partition')}: ${filesChecked} are as they were, ${cold.copied} came from the backup.`,
    archived > 0 &&
      !isAdopted &&
      `${coldDir} is only read until "tapekeep adopt" gives it to this archive.`,
    isAdopted && `${coldDir} belongs to this archive now.`,
    cold.wrong.map((text) => `Missing: ${printable(text)} in the backup`),
    lacks.map(({ where, span, text }) => {
      const time = span === null ? '' : ` (${span.from} to ${span.to})`;
      return `Missing: ${where}${time}: ${printable(text)}`;
    }),
  ];
}
