import { MINUTE_MS } from '../../../src/kernel/durations.js';
import { type Random, seededRandom } from '../../../src/kernel/random.js';
import type { FaultRuleInput } from '../../../src/sandbox/faults/script.js';
import type { RecordedTrade } from '../exchanges/recorded.js';
import { makeRules, type OracleWorld, pick, REPLY_FAULTS, upTo } from './world.js';

/** Amid an hour, a candle of five minutes and a minute, so that history begins within a slot of each. */
const START_MS = 1_760_000_000_000;

/** What leaves candles out of a reply: nothing in it shows that a slot was not quiet. */
const CANDLE_FAULTS: ReadonlyArray<(random: Random) => FaultRuleInput> = [
  (random) => ({ kind: 'shortPage', keep: pick(random, [0, 1, 2, upTo(random, 60)]) }),
  (random) => ({ kind: 'missingRows', rows: 1 + upTo(random, 8) }),
  (random) => ({ kind: 'badRows', rows: 1 + upTo(random, 3) }),
  () => ({ kind: 'reorderRows' }),
  (random) => ({ kind: 'duplicateRows', rows: 1 + upTo(random, 10) }),
  () => ({ kind: 'truncate' }),
  () => ({ kind: 'emptyBody' }),
  (random) => ({ kind: 'status', status: pick(random, [503, 200]) }),
];

/** Minutes with some trades, with none, and long runs without any. */
function makeThinTrades(random: Random, minutes: number): RecordedTrade[] {
  const trades: RecordedTrade[] = [];
  let id = 7_000_000_000;
  let quiet = 0;
  for (let minute = 0; minute < minutes; minute += 1) {
    if (quiet === 0 && random() < 0.04) quiet = 3 + upTo(random, 20);
    quiet = Math.max(0, quiet - 1);
    const isQuiet = quiet > 0 || random() < 0.3;
    // The tape begins and ends with a trade.
    const isEnd = minute === 0 || minute === minutes - 1;
    const count = isQuiet && !isEnd ? 0 : 1 + upTo(random, 6);
    const moments = Array.from({ length: count }, () => upTo(random, MINUTE_MS - 1));
    for (const moment of moments.sort((a, b) => a - b)) {
      id += 1 + upTo(random, 2);
      trades.push({
        id,
        timeMs: START_MS + minute * MINUTE_MS + moment,
        price: `${60_000 + upTo(random, 500)}.${10 + upTo(random, 89)}`,
        amount: `0.${10_000 + upTo(random, 89_999)}`,
        side: random() < 0.5 ? 'buy' : 'sell',
      });
    }
  }
  return trades;
}

/** A small exchange whose candles and trades both suffer, and when the collector is killed. */
export function makeCandleWorld(seed: number): OracleWorld {
  const random = seededRandom(seed);
  const pace = random() < 0.5 ? pick(random, [40, 60] as const) : 'instant';
  const minutes = (pace === 'instant' ? 60 : 15) + upTo(random, pace === 'instant' ? 240 : 15);
  const isForgetting = random() < 0.4;
  const history = random() < 0.3 ? pick(random, ['10m', '30m'] as const) : 'all';
  return {
    seed,
    trades: makeThinTrades(random, minutes),
    pace,
    isStartLater: isForgetting || history !== 'all',
    ...(isForgetting && { historyMax: 20 + upTo(random, 60) }),
    startOffsetS: Math.floor(minutes * 60 * random() * 0.7),
    variants: { rateLimit: false },
    rules: [
      ...makeRules(random, CANDLE_FAULTS, ['kline']),
      ...(random() < 0.5 ? makeRules(random, REPLY_FAULTS, ['historyResult', 'history']) : []),
    ],
    kills: Array.from({ length: pick(random, [0, 0, 1, 2]) }, () => ({
      atWrite: 1 + upTo(random, 25),
      isForwarded: random() < 0.5,
    })),
    kinds: ['trades', 'candles'],
    settings: {
      TAPEKEEP_STREAMS_TRADES_HISTORY: history,
      TAPEKEEP_STREAMS_CANDLES_HISTORY: pick(random, ['none', '10m', '7d', '7d']),
      TAPEKEEP_STREAMS_CANDLES_INTERVALS_S: '60,300,3600',
      TAPEKEEP_STREAMS_CANDLES_SCHEDULE: '* * * * * *',
    },
  };
}
