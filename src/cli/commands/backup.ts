import { type BackupReport, type DatabaseSource, makeBackup } from '../../archive/backup/backup.js';
import { systemClock } from '../../kernel/clock.js';
import { argument, command, flag, VERSION } from '../command.js';
import { EXIT_CODES } from '../failure.js';
import { coldOf, type Look, ORIGIN_FILE, stoppable } from '../opening/database.js';
import { BUCKET_OPTIONS, backupPlace } from '../opening/places.js';
import { findPgDump } from '../opening/postgres-programs.js';
import { JSON_DOCUMENT } from '../options.js';
import { countOf, type Lines, printable, printReport, whole } from '../output.js';
import { MEGABYTE, Progress } from '../progress.js';

/** Copies an archive that is in use: the database, and the list or the files of archived partitions. */
export default command({
  args: { name: argument<string>('new or empty folder, or s3://bucket/prefix') },
  options: {
    isWithFiles: flag('--with-files', 'copy the files of archived partitions too'),
    isReplacing: flag('--replace', 'replace the backup of this archive that is there'),
    ...BUCKET_OPTIONS,
    json: JSON_DOCUMENT,
  },
  help: `
Copies the embedded server with its write-ahead log while a daemon collects; a Postgres of yours by its
pg_dump. backup.json is written last: a place without it is no backup. It names every file with its checksum,
and the manifests of archived partitions. A backup holds the passwords of the archive.

  tapekeep backup /backup/monday
  tapekeep backup /backup/full --with-files --replace
  tapekeep backup s3://backups/tapekeep/monday

Without --endpoint, --region and --path-style, a bucket has those of the settings (cold.endpoint and so on).

Exit code 7: some cold files are missing or altered; the rest is backed up.`,
  needs: stoppable('nothing of this backup is left, and an earlier one is as it was'),
  async run(look, { name, isWithFiles, isReplacing, json, ...bucket }) {
    const { session, store, signal } = look;
    const place = backupPlace(name, session.config, bucket);
    using progress = new BytesProgress();
    const report = await makeBackup({
      ...{ place, store, isWithFiles, isReplacing, version: VERSION, clock: systemClock, signal },
      source: await sourceOf(look),
      cold: coldOf(session.config),
      onProgress: (done, total, doing) => progress.bytes(done, total, doing),
    });
    progress.end();
    printReport(json, toDocument(place.name, report), () => linesOf(place.name, report));
    return report.wrong.length > 0 ? EXIT_CODES.incomplete : EXIT_CODES.ok;
  },
});

async function sourceOf({ session, store, signal }: Look): Promise<DatabaseSource> {
  const { dataDir, database } = session.config;
  const { url } = database;
  if (url === null) return { form: 'base', dataDir, beside: [ORIGIN_FILE] };
  const [row] = await store.query<{ version: string; bytes: number }>(
    `SELECT current_setting('server_version') AS version,
       pg_database_size(current_database())::float8 AS bytes`,
  );
  const { version = '', bytes = 0 } = row ?? {};
  return { form: 'dump', version, bytes, dump: await findPgDump(url, version, signal) };
}

/** Progress in megabytes of a total that is learnt on the way. */
export class BytesProgress extends Progress {
  bytes(done: number, total: number, doing: string): void {
    const [of, all] = [done, total].map((bytes) => whole(Math.floor(bytes / MEGABYTE)));
    const share = total === 0 ? 0 : Math.min(1, done / total);
    this.show(share, `${of} of ${all} MB, ${printable(doing)}`, [done / MEGABYTE, 'MB']);
  }
}

const sizeOf = (files: readonly { readonly bytes: number }[]) =>
  files.reduce((sum, { bytes }) => sum + bytes, 0);

function toDocument(dir: string, { document, wrong }: BackupReport) {
  const { journal, files, cold, madeAt, postgres } = document;
  return {
    ...{ dir, madeAt, postgres, journal, files: files.length, bytes: sizeOf(files) },
    cold: { ...cold, manifests: cold.manifests.length },
    wrong,
  };
}

function linesOf(dir: string, { document, wrong }: BackupReport): Lines {
  const { journal, files, cold } = document;
  const size = `${countOf(files.length, 'file')}, ${whole(Math.ceil(sizeOf(files) / MEGABYTE))} MB`;
  const how = journal === null ? 'a dump' : `write-ahead log ${journal.start} to ${journal.stop}`;
  const { manifests, isCopied } = cold;
  const coldSize = `${countOf(cold.files, 'file')}, ${whole(Math.ceil(cold.bytes / MEGABYTE))} MB`;
  const copied = isCopied ? 'copied' : 'listed and not copied (--with-files copies them)';
  return [
    `Backup in ${dir}: ${size}, ${how}.`,
    manifests.length > 0 &&
      `Cold files of ${countOf(manifests.length, 'partition')}: ${coldSize}, ${copied}.`,
    wrong.map((text) => `Missing: ${printable(text)}`),
  ];
}
