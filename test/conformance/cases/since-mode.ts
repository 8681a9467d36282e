import { type Context, fresh } from '../context.js';
import { Skip } from '../outcome.js';

export type TradesName = 'history' | 'historyResult';

/** The parameter that skips, by endpoint. */
export const SKIP_PARAM = { history: 'lastId', historyResult: 'since' } as const;

/** A page of either endpoint by its ids, newest first. */
export async function idsOf(
  context: Context,
  name: TradesName,
  skip: number,
  limit: number,
): Promise<number[]> {
  const query = { market: context.market, [SKIP_PARAM[name]]: skip, limit };
  const page = await fresh(context, name, query);
  return page.map((trade) => ('tid' in trade ? trade.tid : trade.id));
}

const MAX_ATTEMPTS = 5;
const known = new WeakMap<Context, Map<TradesName, Promise<'skip' | 'id' | 'neither'>>>();

async function detect(context: Context, name: TradesName): Promise<'skip' | 'id' | 'neither'> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const [newest, second] = await idsOf(context, name, 0, 2);
    if (second === undefined) throw new Skip('fewer than two trades');
    const [shifted] = await idsOf(context, name, 1, 1);
    const [after] = await idsOf(context, name, 0, 1);
    if (after !== newest) continue;
    if (shifted === second) return 'skip';
    return shifted === newest ? 'id' : 'neither';
  }
  throw new Skip('trades came too fast to tell a number from an id');
}

/**
 * What `since` or `lastId` means: with a limit of 1, the value 1 gives the second newest trade when
 * it counts trades to skip, and the newest when it is an id (field notes, since / lastId).
 */
export function sinceMode(context: Context, name: TradesName): Promise<'skip' | 'id' | 'neither'> {
  const modes = known.get(context) ?? new Map();
  known.set(context, modes);
  const mode = modes.get(name) ?? detect(context, name);
  modes.set(name, mode);
  return mode;
}
