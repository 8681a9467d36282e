import type { Store } from '../../store/index.js';
import { ArchiveReading } from './archive-reading.js';
import type { Reading, ReadingOptions } from './reading.js';

/**
 * Opens the archive as it is now, for reading hot and cold rows as one.
 *
 * @throws StoreError
 */
export async function openReading(
  store: Pick<Store, 'snapshot'>,
  options: ReadingOptions,
): Promise<Reading> {
  options.signal?.throwIfAborted();
  return new ArchiveReading(await store.snapshot(), options);
}
