import { NOTE_MAX } from '../../console/api/documents.js';
import { noteOn } from '../../console/api/filling.js';
import { argument, command, group } from '../command.js';
import { UsageError } from '../failure.js';
import { archive } from '../opening/database.js';

/** Writes a person's words to gaps. */
const note = command({
  args: { words: argument<string[]>('ids, and the text last, in quotes') },
  needs: archive(),
  async run({ store, nowMs, signal }, { words }) {
    const text = words.at(-1)?.trim() ?? '';
    const ids = words.slice(0, -1);
    if (ids.length === 0) {
      throw new UsageError(
        '<text>',
        undefined,
        'write the ids first, and the text in quotes after them',
      );
    }
    if (text === '' || text.length > NOTE_MAX) {
      throw new UsageError('<text>', text.slice(0, 40), `write 1 to ${NOTE_MAX} characters`);
    }
    await noteOn(store, ids, text, nowMs, '<id>', signal);
    const what = ids.length === 1 ? `gap ${ids[0]}` : `${ids.length} gaps`;
    process.stdout.write(`Noted at ${what}.\n`);
  },
});

export default group({
  help: `
Without a command it is "list" and takes its options. A gap is a time range that is expected and not covered.
Gaps of one cause and one time are one line; "list --all" shows each with its id.

  tapekeep gaps --market BTC_USDT --kind trades,candles --from 2d
  tapekeep gaps explain 17
  tapekeep gaps explain BTC_USDT trades 2026-01-31T12:00:00Z
  tapekeep gaps note 17 "maintenance of the exchange, announced on its status page"
  tapekeep gaps fill 17 --again
  tapekeep gaps fill --market BTC_USDT

A running daemon fills gaps by itself. "fill" fetches them now and shows progress. Unfillable gaps count only
with --again or when you name them. Exits 0 if all are filled, 7 if some are not.`,
  standard: 'list',
  commands: {
    'list [options]': ['show what is missing, the newest first', () => import('./gaps-list.js')],
    'explain [options] <words...>': [
      'say why a time range is missing, and what to do',
      () => import('./gaps-explain.js'),
    ],
    'note <words...>': ['keep what you know about a gap', note],
    'fill [options] [ids...]': ['fill gaps now', () => import('./gaps-fill.js')],
  },
});
