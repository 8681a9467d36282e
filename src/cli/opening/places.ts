import { resolve } from 'node:path';
import { BucketBackup } from '../../archive/backup/bucket-place.js';
import { FolderBackup } from '../../archive/backup/folder-place.js';
import type { BackupPlace } from '../../archive/backup/place.js';
import type { ColdStorage } from '../../archive/cold/storage.js';
import type { Config } from '../../config/schema.js';
import { BUCKET_URL } from '../../config/values.js';
import { systemClock } from '../../kernel/clock.js';
import { flag, option } from '../command.js';
import { UsageError } from '../failure.js';
import { type BucketSettings, bucketOf, coldOf } from './database.js';

/** Folders and buckets that are named on the command line. */

/** How a bucket is reached, where not as the settings say. */
export const BUCKET_OPTIONS = {
  endpoint: option('--endpoint <url>', 'address of the store, if not AWS'),
  region: option('--region <name>', 'region of the bucket'),
  isPathStyle: flag('--path-style', 'name the bucket in the path and not in the host'),
};

interface BucketOptions {
  readonly endpoint: string | undefined;
  readonly region: string | undefined;
  readonly isPathStyle: boolean;
}

/** Those options, and the settings for what is not given. */
export function bucketSettings(
  { cold }: Pick<Config, 'cold'>,
  { endpoint, region, isPathStyle }: BucketOptions,
): BucketSettings {
  return {
    ...{ endpoint: endpoint ?? cold.endpoint, region: region ?? cold.region },
    pathStyle: isPathStyle || cold.pathStyle,
  };
}

/** True for a bucket, false for a folder. @param name of the argument or option */
function isBucket(text: string, name: string): boolean {
  if (!/^[a-z0-9+.-]+:\/\//i.test(text)) return false;
  if (BUCKET_URL.test(text)) return true;
  throw new UsageError(name, text, 'name a folder, or s3://bucket/prefix');
}

/** A place of cold files by its name, with the other settings of cold files. */
export function coldPlace(
  text: string,
  name: string,
  config: Config,
  bucket: BucketSettings,
): ColdStorage {
  const place = isBucket(text, name) ? { dir: null, url: text } : { dir: resolve(text), url: null };
  return coldOf({ ...config, cold: { ...config.cold, ...bucket, ...place } });
}

/** A place of a backup by its name. */
export function backupPlace(text: string, config: Config, options: BucketOptions): BackupPlace {
  if (!isBucket(text, '<place>')) return new FolderBackup(text, systemClock);
  return new BucketBackup(bucketOf({ ...bucketSettings(config, options), url: text }));
}
