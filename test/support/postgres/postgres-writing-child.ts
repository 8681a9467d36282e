import { seededRandom } from '../../../src/kernel/random.js';
import { claim, trade } from './postgres-rows.js';
import { openPlainStore } from './postgres-server.js';

/**
 * Commits pages of trades for ever, to be killed: arguments are the database and a seed. It goes
 * on where the ledger ends, with an overlap, and prints the newest id of each page once committed.
 */
const [databaseUrl = '', seed = '1'] = process.argv.slice(2);
const random = seededRandom(Number(seed));
const store = await openPlainStore(databaseUrl, { commitLatencyMs: 1 });
const trades = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
const [newest] = await store.coveredRanges(trades, 1);
const [stored] = newest === undefined ? [] : await store.storedTrades(1, newest.span, 1, 'newest');
let from = stored?.tid ?? 0;
process.stdout.write(`ready ${from}\n`);
for (;;) {
  const first = Math.max(1, from - Math.floor(random() * 5));
  const last = from + 1 + Math.floor(random() * 60);
  const rows = Array.from({ length: last - first + 1 }, (_, n) =>
    trade(first + n, Math.floor((first + n) / 4), {}),
  );
  const span = [Math.floor(first / 4) - 1, Math.floor(last / 4)] as const;
  const claims = [claim(trades, Math.max(0, span[0]), Math.max(1, span[1]))];
  await store.commit({ trades: rows, claims });
  process.stdout.write(`stored ${last}\n`);
  from = last;
}
