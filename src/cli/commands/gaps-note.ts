import type { Gap } from '../../store/index.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';
import { UsageError } from '../failure.js';
import { findGap } from '../gaps/gap-ids.js';
import { lookAt } from '../opening/looking.js';
import { type CommonOptions, openSession } from '../opening/session.js';

const NOTE_MAX_LENGTH = 2000;

/**
 * Writes a person's words to gaps.
 *
 * @param words ids, and the text last
 * @throws UsageError for an id that stands for nothing, or a text that is none
 */
export async function gapsNoteCommand(
  words: readonly string[],
  options: CommonOptions,
): Promise<ExitCode> {
  const note = words.at(-1)?.trim() ?? '';
  const ids = words.slice(0, -1);
  if (ids.length === 0) {
    throw new UsageError('<text>', '', 'write the ids first, and the text in quotes after them');
  }
  if (note === '' || note.length > NOTE_MAX_LENGTH) {
    throw new UsageError('<text>', note.slice(0, 40), `write 1 to ${NOTE_MAX_LENGTH} characters`);
  }
  const session = openSession({ logLevel: 'warn', ...options });
  await lookAt(session, async ({ store, nowMs }) => {
    const gaps: Gap[] = [];
    for (const id of ids) {
      const named = await findGap(store, id, nowMs);
      if (named.gaps.length === 0) throw new UsageError('<id>', id, 'this gap is filled by now');
      gaps.push(...named.gaps);
    }
    await store.inspection.note(gaps, note, nowMs);
    const what = ids.length === 1 ? `gap ${ids[0]}` : `${ids.length} gaps`;
    process.stdout.write(`Noted at ${what}.\n`);
  });
  return EXIT_CODES.ok;
}
