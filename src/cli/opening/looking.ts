import { systemClock } from '../../kernel/clock.js';
import type { KnownStream, Store } from '../../store/index.js';
import { type LookEnds, withArchive } from '../commands/status.js';
import type { Session } from './session.js';

/** What a command that looks at the ledger begins with. */
export interface Look {
  readonly store: Store;
  readonly streams: readonly KnownStream[];
  /** The exchange's time, as far as the ledger tells. */
  readonly nowMs: number;
}

/** Opens the archive for a look as {@link withArchive} does. */
export async function lookAt(
  session: Session,
  look: (given: Look) => Promise<void>,
  ends?: LookEnds,
): Promise<void> {
  const begin = async (store: Store) => {
    const nowMs = Math.floor((await store.exchangeNowMs()) ?? systemClock.wallMs());
    const streams = await store.inspection.streams();
    await look({ store, streams, nowMs });
  };
  await withArchive(session, begin, ends);
}
