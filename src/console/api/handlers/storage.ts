import { stat, statfs } from 'node:fs/promises';
import type { Clock } from '../../../kernel/clock.js';
import { DAY_MS, SECOND_MS } from '../../../kernel/durations.js';
import { codeOf } from '../../../kernel/errors.js';
import type { PartitionInfo, Store } from '../../../store/index.js';
import type { Answer, Handlers } from '../endpoints.js';

type Storage = Answer<'storage'>;
type StorageState = Storage['states'][number];

/** Folders of this machine that hold parts of the archive; null where they lie elsewhere. */
export interface ArchiveFolders {
  /** Folder of the embedded database. */
  readonly database: string | null;
  /** Folder of archived partitions. */
  readonly cold: string | null;
}

export interface StorageOptions {
  /** The open archive. @throws Refusal while there is none */
  readonly store: () => Pick<Store, 'sealing'>;
  readonly folders: () => Promise<ArchiveFolders>;
  readonly clock: Clock;
  /** The exchange's time now. */
  readonly nowMs: () => number;
  /** Age of the archive; undefined before it was counted. */
  readonly ageS: () => number | undefined;
}

/** An answer serves all pages for so long: sizes of many tables take time to add up. */
const KEPT_MS = 10 * SECOND_MS;
/** Days that the growth is a mean of. */
const GROWTH_DAYS = 7;

const hotBytes = ({ heapBytes, indexBytes }: PartitionInfo) => heapBytes + indexBytes;
const coldBytes = (one: PartitionInfo) => one.coldBytes ?? 0;

function stateOf({ state, restoredAtMs }: PartitionInfo): StorageState['state'] {
  return state !== 'expired' && state !== 'archived' && restoredAtMs !== null ? 'restored' : state;
}

function statesOf(partitions: readonly PartitionInfo[]): Storage['states'] {
  return (['hot', 'sealed', 'archived', 'restored', 'expired'] as const).map((state) => {
    const own = partitions.filter((one) => stateOf(one) === state);
    const rows = own.flatMap((one) => one.rows ?? []);
    return {
      ...{ state, partitions: own.length },
      bytes: own.reduce(
        (sum, one) => sum + (state === 'archived' ? coldBytes(one) : hotBytes(one)),
        0,
      ),
      rows: rows.length === own.length ? rows.reduce((sum, count) => sum + count, 0) : null,
    };
  });
}

/** Bytes a day of the newest seven days that have ended and have any; null: there are none. */
function growthOf(
  partitions: readonly PartitionInfo[],
  nowMs: number,
  bytesOf: (one: PartitionInfo) => number,
): number | null {
  const within = partitions.filter((one) => bytesOf(one) > 0 && one.span.fromMs < nowMs);
  const newestMs = Math.max(0, ...within.map(({ span }) => Math.min(span.toMs, nowMs)));
  const toMs = Math.floor(newestMs / DAY_MS) * DAY_MS;
  const fromMs = toMs - GROWTH_DAYS * DAY_MS;
  // Younger archives have fewer days; a day that has only begun would count as a whole one.
  const oldestMs = Math.max(fromMs, Math.min(...within.map(({ span }) => span.fromMs)));
  const days = Math.ceil((toMs - oldestMs) / DAY_MS);
  if (!(days > 0)) return null;
  const bytes = within.reduce((sum, one) => {
    const { span } = one;
    const lengthMs = Math.min(span.toMs, nowMs) - span.fromMs;
    const sharedMs = Math.min(span.toMs, toMs) - Math.max(span.fromMs, fromMs);
    return sharedMs <= 0 ? sum : sum + (bytesOf(one) * sharedMs) / lengthMs;
  }, 0);
  return Math.round(bytes / days);
}

/** Part of the archive that lies in a folder, and how it grows. */
interface Part {
  readonly path: string;
  readonly holds: string;
  readonly bytesPerDay: number | null;
}

/** Disks of some folders; two folders on one disk are one. A folder that is not there has none. */
async function disksOf(parts: readonly Part[]): Promise<Storage['disks']> {
  const byDevice = new Map<number, Storage['disks'][number]>();
  for (const { path, holds, bytesPerDay } of parts) {
    try {
      const [{ dev }, { bavail, blocks, bsize }] = await Promise.all([stat(path), statfs(path)]);
      const [freeBytes, totalBytes] = [bavail * bsize, blocks * bsize];
      const days = bytesPerDay === null || bytesPerDay <= 0 ? null : freeBytes / bytesPerDay;
      const daysLeft = days === null ? null : Math.floor(days * 10) / 10;
      const other = byDevice.get(dev);
      byDevice.set(dev, {
        ...{ path: other?.path ?? path, holds: other ? `${other.holds}, ${holds}` : holds },
        ...{ freeBytes, totalBytes, daysLeft: other?.daysLeft ?? daysLeft },
      });
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error;
    }
  }
  return [...byDevice.values()];
}

/** Answers what the archive takes, and how long the disks last. */
export function storageHandlers({
  store,
  folders,
  clock,
  nowMs,
  ageS,
}: StorageOptions): Pick<Handlers, 'storage'> {
  let kept: { readonly untilMs: number; readonly answer: Promise<Storage> } | undefined;
  const read = async (): Promise<Storage> => {
    const partitions = await store().sealing.partitions();
    const { database, cold } = await folders();
    const archived = partitions.filter(({ state }) => state === 'archived');
    // In its first day the bytes of an archive would be spread over days from before it was made.
    const isOld = (ageS() ?? 0) * SECOND_MS >= DAY_MS;
    const growth = isOld
      ? growthOf(partitions, nowMs(), (one) => hotBytes(one) || coldBytes(one))
      : null;
    // Once days move into files at their age, the database keeps its size and the files grow.
    const moved = isOld ? growthOf(archived, nowMs(), coldBytes) : null;
    const hot = { holds: 'database', bytesPerDay: cold !== null && moved !== null ? null : growth };
    const files = { holds: 'archived files', bytesPerDay: moved };
    const parts = [
      ...(database === null ? [] : [{ ...hot, path: database }]),
      ...(cold === null ? [] : [{ ...files, path: cold }]),
    ];
    return {
      states: statesOf(partitions),
      bytesPerDay: growth,
      disks: await disksOf(parts),
    };
  };
  return {
    storage: () => {
      const atMs = clock.monotonicMs();
      if (kept === undefined || kept.untilMs <= atMs) {
        const answer = read();
        kept = { untilMs: atMs + KEPT_MS, answer };
        answer.catch(() => {
          kept = undefined;
        });
      }
      return kept.answer;
    },
  };
}
