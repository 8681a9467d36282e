import { type MoveReport, moveColdFiles } from '../../archive/cold/moving.js';
import { coldSettingAdvice } from '../../archive/cold/owner.js';
import type { ColdStorage } from '../../archive/cold/storage.js';
import { codeOf, TapekeepError } from '../../kernel/errors.js';
import type { Store } from '../../store/index.js';
import { argument, command, flag, group, option } from '../command.js';
import { EXIT_CODES } from '../failure.js';
import { coldOf, stoppable } from '../opening/database.js';
import { BUCKET_OPTIONS, bucketSettings, coldPlace } from '../opening/places.js';
import { JSON_DOCUMENT } from '../options.js';
import { countOf, type Lines, printable, printReport, whole } from '../output.js';
import { MEGABYTE } from '../progress.js';
import { BytesProgress } from './backup.js';

/** Moves the cold files of the archive between folders and buckets. */
const move = command({
  args: { to: argument<string>('folder, or s3://bucket/prefix') },
  options: {
    from: option('--from <place>', 'move from here', undefined, undefined, 'that of the settings'),
    ...BUCKET_OPTIONS,
    isRemoving: flag('--remove-source', 'delete the files of the source afterwards'),
    json: JSON_DOCUMENT,
  },
  help: `
Copies the files of all archived partitions and compares them with their manifests at both ends. Then the target is the
place of the archive, and nothing is written to the source any more: set cold.url or cold.dir, and restart the daemon.
It may run meanwhile. Partitions are not sealed, archived or expired during a move. A second run continues.

  tapekeep cold move s3://market-data/tapekeep
  tapekeep cold move --from data/cold s3://market-data/tapekeep --remove-source
  tapekeep cold move s3://market-data/tapekeep --endpoint http://minio:9000 --path-style

Without --endpoint, --region and --path-style, a bucket has those of the settings (cold.endpoint and so on). While the settings do not name the target, --remove-source needs the daemon stopped.
Exit code 7: files are missing or damaged at the source; nothing was put in use or deleted.`,
  needs: stoppable('files that were copied stay, and the same command continues'),
  async run(look, { to, from, endpoint, region, isPathStyle, isRemoving, json }) {
    const { session, store, signal } = look;
    const { config } = session;
    const bucket = bucketSettings(config, { endpoint, region, isPathStyle });
    const place = (text: string, name: string) => coldPlace(text, name, config, bucket);
    const configured = place(coldOf(config).name, '');
    const source = from === undefined ? configured : place(from, '--from');
    const target = place(to, '<target>');
    const isSet = configured.name === target.name;
    if (isRemoving && !isSet) await assertUnused(store, source, target);
    using progress = new BytesProgress();
    const report = await moveColdFiles({
      ...{ store, source, target, isRemoving, signal },
      onProgress: (done, total, doing) => progress.bytes(done, total, doing),
    });
    progress.end();
    const next = nextOf(report, { source, target, isSet, isRemoving });
    const places = { from: source.name, to: target.name };
    printReport(json, { ...places, ...report, next }, () => linesOf(places, report, next));
    return report.wrong.length > 0 ? EXIT_CODES.incomplete : EXIT_CODES.ok;
  },
});

export default group({
  help: `
  tapekeep cold move s3://market-data/tapekeep`,
  commands: {
    'move [options] <target>': ['move the cold files to another folder or bucket', move],
  },
});

/** Refuses to delete files that a daemon reads. */
async function assertUnused(store: Store, source: ColdStorage, target: ColdStorage): Promise<void> {
  try {
    await store.acquireWriterLock();
  } catch (error) {
    if (codeOf(error) !== 'writer_lock_held') throw error;
    const text = `a daemon reads the files in ${source.name}, and nothing was copied or deleted: stop it first; or move without --remove-source, ${coldSettingAdvice(target.name)}, restart the daemon, and run "tapekeep cold move --from ${source.name} ${target.name} --remove-source"`;
    throw new TapekeepError('writer_lock_held', text, { cause: error });
  }
}

interface Moved {
  readonly source: ColdStorage;
  readonly target: ColdStorage;
  readonly isSet: boolean;
  readonly isRemoving: boolean;
}

/** Steps that are left to a person. */
function nextOf({ wrong, isOwn }: MoveReport, moved: Moved): string[] {
  const { source, target, isSet, isRemoving } = moved;
  if (wrong.length > 0) {
    return [
      `bring these files back from a copy, then run the same command again; ${source.name} is in use as before`,
    ];
  }
  const steps = isSet
    ? []
    : [`${coldSettingAdvice(target.name)}, and restart the daemon: until then it archives nothing`];
  if (isOwn && !isRemoving) {
    steps.push(
      `then delete the files in ${source.name}: tapekeep cold move --from ${source.name} ${target.name} --remove-source`,
    );
  }
  return steps;
}

function linesOf(
  { from, to }: { readonly from: string; readonly to: string },
  { partitions, copied, found, bytes, wrong, passedOver, removed }: MoveReport,
  next: readonly string[],
): Lines {
  const size = `${countOf(copied + found, 'file')}, ${whole(Math.ceil(bytes / MEGABYTE))} MB`;
  return [
    `Cold files of ${countOf(partitions, 'partition')} from ${from} are in ${to}: ${size}.`,
    `${whole(copied)} copied, ${whole(found)} already there; all match their manifests.`,
    removed > 0 && `${countOf(removed, 'file')} deleted in ${from}.`,
    wrong.map((text) => `Missing: ${printable(text)}`),
    passedOver.map((text) => `Left behind, rows are in the database: ${printable(text)}`),
    next.map((text) => `Next: ${printable(text)}.`),
  ];
}
